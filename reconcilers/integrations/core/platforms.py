"""The interface of an integration to the code outside of its package: one object, its `Platform`.

`reconcilers/integrations/registry.py` lists the integrations. Commands, metrics, pictures,
webhooks, `plan`, `check` and the assembly of controllers read that list, and name no integration
themselves.

A *holder* is an object that holds addresses of a pool. An object is *implied* if `plan` takes it
to exist because a manifest names it. The *journal* of a pool lists the addresses that it promises.
"""

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, ClassVar, Protocol, TypeVar

from controller.meta import Key, Object, Version
from controller.resource import Resource
from reconcilers.api.networkpool import NetworkPool
from reconcilers.integrations.core.objects import Body, ObjectsByKind, decode_bodies, read_objects
from reconcilers.integrations.core.scopedlists import NotRead, ScopedLists
from reconcilers.integrations.core.views import Planned, Views
from reconcilers.spaces.offers import PoolOffer
from reconcilers.spaces.sharing import Kinds

if TYPE_CHECKING:
    from controller.client import Client
    from controller.webhooks import Webhook
    from reconcilers.configuration.settings import Settings
    from reconcilers.integrations.core.live import LivePlatform, PlatformSource
    from reconcilers.integrations.core.serving import IntegrationParts
    from reconcilers.integrations.core.sharing import IntegrationHolders
    from reconcilers.networkpool.otherholders import OtherHoldings
    from reconcilers.spaces.index import SpaceIndex
    from reconcilers.specrules.verdict import Validator

T = TypeVar("T", bound=Object)
Operations = tuple[str, ...]
ListHoldings = Callable[["Client", NetworkPool], Awaitable["OtherHoldings"]]
"""Lists the addresses of a NetworkPool that a platform's objects hold, by LISTs that begin now."""


class WebhookMaker(Protocol):
    """Makes the webhook of a kind out of its validator.

    Platforms pass both to a call of it. So the type checker compares their types, which a list of
    kinds and validators of several types would hide.
    """

    def __call__(self, kind: Resource[T], validator: "Validator[T]", /) -> "Webhook[bytes]":
        """Return the webhook that validates writes of a kind."""
        ...


@dataclass(frozen=True, slots=True)
class NetworkPools:
    """The NetworkPools, which requests of other platforms may name.

    Args:
        readable: the NetworkPools that could be decoded.
        unreadable: the keys of NetworkPools that could not be decoded.
        not_read: the limits on what the user may read of NetworkPools.
    """

    readable: Sequence[NetworkPool] = ()
    unreadable: Collection[Key] = ()
    not_read: Sequence[NotRead] = ()


@dataclass(frozen=True, slots=True)
class PlatformObjects:
    """What was read of all platforms, from a cluster or from manifests.

    Args:
        by_platform: the objects by name of the integration; one without objects may be missing.
        now: when the objects were read.
    """

    by_platform: Mapping[str, ObjectsByKind]
    networkpools: NetworkPools
    now: datetime

    def get_objects(self, platform: str) -> ObjectsByKind:
        """Return the objects of a platform; no objects if it has none."""
        return self.by_platform.get(platform) or ObjectsByKind()

    @property
    def not_read(self) -> Sequence[NotRead]:
        """What the user may not read of all platforms."""
        return [limit for objects in self.by_platform.values() for limit in objects.not_read]


class Platform(ABC):
    """One integration: its kinds, and the functions that code outside of its package calls.

    Its methods import the modules that they need when they are called. Most commands need no
    integration, and should not wait for its modules.
    """

    name: ClassVar[str]
    """The name of the integration, in settings."""
    compared_kinds: ClassVar[Kinds]
    """Its pools in the index of offers, which finds pools that hand out the same addresses."""
    pools: ClassVar[Sequence[Resource[Object]]]
    """Its kinds of pools."""
    kinds: ClassVar[Sequence[Resource[Object]]]
    """All of its kinds, each in the version that is preferred."""
    live_kinds: ClassVar[Collection[Resource[Object]]]
    """The kinds that `make_live_platform` watches, in all known versions."""
    holders: ClassVar[frozenset[str]]
    """The full names of the kinds that hold addresses of its pools, or wait for some."""
    networkpool_holders: ClassVar[frozenset[str]] = frozenset()
    """The full names of its kinds that hold addresses of NetworkPools, or wait for some."""
    validated: ClassVar[Mapping[str, tuple[Resource[Object], Operations]]] = {}
    """By the name of a webhook: the kind, and which writes of it are validated."""
    validated_annotations: ClassVar[Mapping[str, Collection[str]]] = {}
    """By the full name of a kind: annotations that are validated as its spec is."""
    removable: ClassVar[Mapping[str, Resource[Object]]] = {}
    """The kinds of which `check --repair` deletes objects, by the names that its findings use."""
    finding_kinds: ClassVar[Sequence[Resource[Object]]] = ()
    """The kinds, other than pools, that findings of `check` name without their group."""
    finalizers: ClassVar[Mapping[str, str]] = {}
    """By full name of a kind: the finalizer with which `plan` creates requests of the kind."""
    fenced_pools: ClassVar[Sequence[Resource[Object]]] = ()
    """The kinds of pools that `plan` creates with a journal."""
    content_kinds: ClassVar[Sequence[Resource[Object]]] = ()
    """The kinds of objects whose spec has the addresses that they hold."""
    implied_kinds: ClassVar[Sequence[Resource[Object]]] = ()
    """The kinds of objects that `plan` takes to exist because manifests name them."""

    @abstractmethod
    def list_offers(self, kind: Resource[Object], pool: Object) -> Sequence[PoolOffer]:
        """Return the offers of a pool, the addresses that it hands out; empty if it is invalid.

        Args:
            kind: the kind of the pool, one of `pools`.
        """

    @abstractmethod
    def build_views(self, all_objects: PlatformObjects) -> Views:
        """Return the pictures of its pools, and its troubles.

        The caller adds the troubles of objects that cannot be decoded.

        Args:
            all_objects: the objects of all platforms; this platform has some.
        """

    @abstractmethod
    def list_outcomes(self, before: PlatformObjects, after: PlatformObjects) -> Iterable[Planned]:
        """Return the outcome of each of its requests that waited before the controllers ran.

        Args:
            before: the objects before the controllers ran.
            after: the objects after the controllers ran; this platform has some.
        """

    @abstractmethod
    def make_live_platform(
        self, served_kinds: Collection[Resource[Object]], source: "PlatformSource"
    ) -> "LivePlatform | None":
        """Return live views of its pools, kept current by watches.

        Returns:
            None if a kind that the views need is not served.
        """

    @abstractmethod
    def add_services(self, parts: "IntegrationParts") -> "IntegrationHolders":
        """Add its controllers to a manager.

        Returns:
            Access to the addresses of NetworkPools that its objects hold.
        """

    async def read(self, lists: ScopedLists) -> ObjectsByKind:
        """Read all of its objects that the user may read; none if a kind is not served.

        Raises:
            ControllerError: a request failed, other than a LIST that is forbidden to the user.
        """
        return await read_objects(lists, self.kinds)

    def from_manifests(
        self, bodies: Sequence[Body], namespace: str, now: datetime
    ) -> ObjectsByKind:
        """Return its objects among manifests.

        Args:
            bodies: manifests of any kinds.
            namespace: the namespace of manifests that name none.
            now: the time, for objects without a creationTimestamp.
        """
        return decode_bodies(
            bodies, self.kinds, namespace=namespace, now=now, fill_defaults=self.fill_defaults
        )

    def fill_defaults(self, body: Body) -> Body:
        """Return a manifest with the fields that other controllers of the platform fill in.

        By default it is unchanged.
        """
        return body

    def list_implied_objects(
        self, bodies: Sequence[Body]
    ) -> Iterable[tuple[Resource[Object], Body]]:
        """Return kind and manifest of each implied object; none by default.

        Args:
            bodies: the manifests that imply objects.
        """
        del bodies
        return ()

    async def remove(self, client: "Client", kind: str, at: Version) -> None:
        """Delete an object that a person wants deleted, unless it has changed since.

        Args:
            kind: one of `removable`.
            at: the object, and its version when the person saw it.

        Raises:
            Conflict: the object changed since.
            NotFound: it was deleted already.
            ControllerError: a request failed.
        """
        await client.delete(self.removable[kind], at)

    def make_webhooks(
        self, client: "Client", spaces: "SpaceIndex", make_webhook: WebhookMaker
    ) -> "Sequence[Webhook[bytes]]":
        """Return the webhooks that validate writes of its kinds; none by default.

        Args:
            client: for reads from the server.
            spaces: the addresses that pools of all kinds hand out, for warnings about overlaps.
            make_webhook: makes the webhook of one kind.
        """
        del client, spaces, make_webhook
        return ()

    def find_lister(self, settings: "Settings") -> ListHoldings | None:
        """Return a function that lists the platform's holdings of a NetworkPool.

        Returns:
            None if objects of the platform hold no addresses of NetworkPools.
        """
        del settings
        return None
