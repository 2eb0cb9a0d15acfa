"""What an integration is to all that lies outside of its package: one object with functions.

`reconcilers/integrations/registry.py` lists the integrations. Commands, metrics, pictures,
webhooks, `plan`, `check` and the assembly of controllers read that list, and name no integration
themselves.
"""

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, ClassVar

from controller.meta import Key, Object, Version
from controller.resource import Resource
from reconcilers.api.networkpool import NetworkPool
from reconcilers.integrations.core.objects import Body, ObjectsByKind, from_bodies, read
from reconcilers.integrations.core.scopedlists import NotRead, ScopedLists
from reconcilers.integrations.core.views import Planned, Views
from reconcilers.spaces.offers import PoolOffer
from reconcilers.spaces.sharing import Kinds

if TYPE_CHECKING:
    from controller.client import Client
    from reconcilers.configuration.settings import Settings
    from reconcilers.integrations.core.live import Live, PlatformSource
    from reconcilers.integrations.core.serving import IntegrationParts
    from reconcilers.integrations.core.sharing import HoldersBeside
    from reconcilers.networkpool.otherholders import OtherHoldings
    from reconcilers.spaces.index import SpaceIndex
    from reconcilers.specrules.verdict import Validator

Operations = tuple[str, ...]
ListHoldings = Callable[["Client", NetworkPool], Awaitable["OtherHoldings"]]
"""Lists what the objects of a platform hold of a NetworkPool, by lists that begin now."""


@dataclass(frozen=True, slots=True)
class NetworkPools:
    """The NetworkPools, which requests of other platforms may name.

    Args:
        readable: those that could be decoded.
        unreadable: the others.
        not_read: what the user may not read of them.
    """

    readable: Sequence[NetworkPool] = ()
    unreadable: Collection[Key] = ()
    not_read: Sequence[NotRead] = ()


@dataclass(frozen=True, slots=True)
class PlatformObjects:
    """What was read of all platforms, from a cluster or from manifests.

    Args:
        by_platform: the objects, by the name of the integration, of those that have some.
        now: when they were read.
    """

    by_platform: Mapping[str, ObjectsByKind]
    networkpools: NetworkPools
    now: datetime

    def of(self, platform: str) -> ObjectsByKind:
        """Return the objects of a platform; no objects if it has none."""
        return self.by_platform.get(platform) or ObjectsByKind()

    @property
    def not_read(self) -> Sequence[NotRead]:
        """What the user may not read of all platforms."""
        return [limit for objects in self.by_platform.values() for limit in objects.not_read]


class Platform(ABC):
    """One integration.

    What its functions need is imported when they are called: most commands meet no object of any
    other platform, and should not wait for its modules.
    """

    name: ClassVar[str]
    """The name of the integration, in settings."""
    compared_as: ClassVar[Kinds]
    """Its pools, where pools of several kinds hand out the same addresses."""
    pools: ClassVar[Sequence[Resource[Object]]]
    """Its kinds of pools."""
    kinds: ClassVar[Sequence[Resource[Object]]]
    """All of its kinds, each in the version that is preferred."""
    live_kinds: ClassVar[Collection[Resource[Object]]]
    """The kinds that are watched to show its pools, in all known versions."""
    holders: ClassVar[frozenset[str]]
    """The full names of the kinds that hold addresses of its pools, or wait for some."""
    networkpool_holders: ClassVar[frozenset[str]] = frozenset()
    """The full names of its kinds that hold addresses of NetworkPools, or wait for some."""
    validated: ClassVar[Mapping[str, tuple[Resource[Object], Operations]]] = {}
    """By the name of a webhook: the kind, and which writes of it are validated."""
    removable: ClassVar[Mapping[str, Resource[Object]]] = {}
    """The kinds of which `check --repair` deletes objects, by the names that findings have."""
    finding_kinds: ClassVar[Sequence[Resource[Object]]] = ()
    """The kinds that findings name without their group, pools excepted."""
    finalizers: ClassVar[Mapping[str, str]] = {}
    """By full name of a kind: the finalizer that requests of `plan` have from the beginning."""
    fenced_pools: ClassVar[Sequence[Resource[Object]]] = ()
    """The kinds of pools that get a journal when they are created."""
    content_kinds: ClassVar[Sequence[Resource[Object]]] = ()
    """The kinds of objects whose spec has the addresses that they hold."""

    implied_kinds: ClassVar[Sequence[Resource[Object]]] = ()
    """The kinds of objects that are taken to exist where manifests name them."""

    @abstractmethod
    def offers_of(self, kind: Resource[Object], pool: Object) -> Sequence[PoolOffer]:
        """Return the offers of a pool; none if its spec cannot be served.

        Args:
            kind: of the pool, one of `pools`.
        """

    @abstractmethod
    def views(self, all_objects: PlatformObjects) -> Views:
        """Return the pictures of its pools, and what is wrong but for unreadable objects.

        Args:
            all_objects: of all platforms; this platform has some.
        """

    @abstractmethod
    def outcomes(self, before: PlatformObjects, after: PlatformObjects) -> Iterable[Planned]:
        """Return the outcomes of its requests that waited for addresses.

        Args:
            before: the objects as they were.
            after: the objects as the controllers left them; this platform has some.
        """

    @abstractmethod
    def make_live(
        self, served_kinds: Collection[Resource[Object]], source: "PlatformSource"
    ) -> "Live | None":
        """Return its pools, kept current by watches; None if too few of the kinds are served."""

    @abstractmethod
    def add_services(self, parts: "IntegrationParts") -> "HoldersBeside":
        """Add its controllers to a manager; return what they hold of NetworkPools."""

    async def read(self, lists: ScopedLists) -> ObjectsByKind:
        """Read all of its objects, as far as they may be read.

        Raises:
            ControllerError: the cluster did not answer, or refused.
        """
        return await read(lists, self.kinds)

    def from_manifests(
        self, bodies: Sequence[Body], namespace: str, now: datetime
    ) -> ObjectsByKind:
        """Return its objects among manifests.

        Args:
            bodies: manifests of any kinds.
            namespace: of those that name none.
            now: the time.
        """
        return from_bodies(
            bodies, self.kinds, namespace=namespace, now=now, filled=self.fill_defaults
        )

    def fill_defaults(self, body: Body) -> Body:
        """Return a manifest as other controllers of the platform leave it."""
        return body

    def implied_objects(self, bodies: Sequence[Body]) -> Iterable[tuple[Resource[Object], Body]]:
        """Return the objects that manifests name, and that are taken to exist."""
        del bodies
        return ()

    async def remove(self, client: "Client", kind: str, at: Version) -> None:
        """Delete an object that a person wants deleted, as it was when it was seen.

        Args:
            client: for the requests.
            kind: one of `removable`.
            at: which object, and its version.

        Raises:
            Conflict: it changed since.
            NotFound: it is gone already.
            ControllerError: a request failed.
        """
        await client.delete(self.removable[kind], at)

    def validators(
        self, client: "Client", spaces: "SpaceIndex"
    ) -> Sequence[tuple[Resource[Object], "Validator[Any]"]]:
        """Return the kinds that webhooks validate, and what validates each.

        Args:
            client: for live reads.
            spaces: what pools of all kinds hand out.
        """
        del client, spaces
        return ()

    def find_lister(self, settings: "Settings") -> ListHoldings | None:
        """Return a lister of the platform's holdings of NetworkPools; None if it has none."""
        del settings
        return None
