"""The integration with Cluster API: its interface to the code outside of this package.

Its methods import the modules that they use: a process that needs none of them loads none.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from operator import attrgetter
from typing import TYPE_CHECKING, ClassVar

from typing_extensions import override

from controller.meta import Object, Version
from controller.resource import Resource
from reconcilers.configuration.integrationnames import CLUSTER_API
from reconcilers.configuration.settings import Settings
from reconcilers.integrations.clusterapi.api import (
    ADDRESSES,
    CLAIM_FINALIZER,
    CLAIMS,
    CLUSTERS,
    HOLDERS,
    KINDS,
    POOLS,
    Pool,
)
from reconcilers.integrations.core.objects import Body, ObjectsByKind, list_implied
from reconcilers.integrations.core.platforms import (
    ListHoldings,
    Operations,
    Platform,
    PlatformObjects,
    WebhookMaker,
)
from reconcilers.integrations.core.scopedlists import ScopedLists
from reconcilers.integrations.core.views import Planned, Views
from reconcilers.spaces.index import SpaceIndex
from reconcilers.spaces.offers import PoolOffer
from reconcilers.spaces.sharing import Kinds

if TYPE_CHECKING:
    from controller.client import Client
    from controller.webhooks import Webhook
    from reconcilers.integrations.core.live import LivePlatform, PlatformSource
    from reconcilers.integrations.core.serving import IntegrationParts
    from reconcilers.integrations.core.sharing import IntegrationHolders


class ClusterApiPlatform(Platform):
    """IPAddressClaims, which get addresses of the in-cluster provider's pools and NetworkPools."""

    name = CLUSTER_API
    compared_kinds = Kinds.CLUSTER_API
    pools: ClassVar[Sequence[Resource[Object]]] = POOLS
    kinds: ClassVar[Sequence[Resource[Object]]] = KINDS
    live_kinds: ClassVar[Collection[Resource[Object]]] = (
        *HOLDERS,
        *POOLS,
    )
    holders = frozenset({CLAIMS.full_name, ADDRESSES.full_name})
    networkpool_holders = holders
    # Under the names that the in-cluster provider's own webhooks have.
    validated: ClassVar[Mapping[str, tuple[Resource[Object], Operations]]] = {
        f"validation.{kind.kind.lower()}.{kind.group}": (kind, ("CREATE", "UPDATE", "DELETE"))
        for kind in POOLS
    }
    removable: ClassVar[Mapping[str, Resource[Object]]] = {
        CLAIMS.kind: CLAIMS,
        ADDRESSES.kind: ADDRESSES,
    }
    finding_kinds: ClassVar[Sequence[Resource[Object]]] = (CLAIMS, ADDRESSES)
    finalizers: ClassVar[Mapping[str, str]] = {CLAIMS.full_name: CLAIM_FINALIZER}
    implied_kinds: ClassVar[Sequence[Resource[Object]]] = (CLUSTERS,)
    fenced_pools: ClassVar[Sequence[Resource[Object]]] = POOLS

    @override
    def list_offers(self, kind: Resource[Object], pool: Object) -> Sequence[PoolOffer]:
        """Return the offers of a pool of claims: the addresses that it hands out."""
        from reconcilers.integrations.clusterapi.offers import make_offers

        assert isinstance(pool, Pool), kind.kind
        return make_offers(kind, pool)

    @override
    async def read(self, lists: ScopedLists) -> ObjectsByKind:
        """Read all objects of Cluster API's kinds that the user may read."""
        from reconcilers.integrations.clusterapi.objects import read_objects

        return await read_objects(lists)

    @override
    def from_manifests(
        self, bodies: Sequence[Body], namespace: str, now: datetime
    ) -> ObjectsByKind:
        """Return the objects of Cluster API's kinds among manifests, created `now`."""
        from reconcilers.integrations.clusterapi.objects import decode_bodies

        return decode_bodies(bodies, namespace, now)

    @override
    def list_implied_objects(
        self, bodies: Sequence[Body]
    ) -> Iterable[tuple[Resource[Object], Body]]:
        return list_implied(bodies, CLAIMS, implied=CLUSTERS, find_named=attrgetter("cluster"))

    @override
    def build_views(self, all_objects: PlatformObjects) -> Views:
        """Return pictures and troubles of in-cluster pools, and what claims hold of NetworkPools.

        The pictures are of Cluster API's objects. Troubles concern NetworkPools, too, so they name
        the NetworkPools that were not read.
        """
        from reconcilers.integrations.clusterapi.auditing import audit
        from reconcilers.integrations.clusterapi.contents import list_contents
        from reconcilers.integrations.clusterapi.objects import fill_caches
        from reconcilers.integrations.clusterapi.picture import make_views

        objects, networkpools = all_objects.get_objects(self.name), all_objects.networkpools
        caches = fill_caches(objects, networkpools.readable, networkpools.unreadable)
        contents = list(list_contents(caches))
        all_not_read = (*objects.not_read, *networkpools.not_read)
        troubles = audit(caches, contents, now=all_objects.now, not_read=all_not_read)
        return replace(make_views(contents, objects.not_read), troubles=list(troubles))

    @override
    def list_outcomes(self, before: PlatformObjects, after: PlatformObjects) -> Iterable[Planned]:
        """Return the outcomes of claims that waited: new addresses, or why they got none."""
        from reconcilers.integrations.clusterapi.objects import fill_caches
        from reconcilers.integrations.clusterapi.outcomes import list_outcomes

        pools = after.networkpools
        caches = fill_caches(after.get_objects(self.name), pools.readable, pools.unreadable)
        return list_outcomes(before.get_objects(self.name).by_kind.get(CLAIMS.kind, ()), caches)

    @override
    def make_live_platform(
        self, served_kinds: Collection[Resource[Object]], source: "PlatformSource"
    ) -> "LivePlatform | None":
        """Return live views of pools of claims; None if a kind that they need is not served."""
        from reconcilers.integrations.clusterapi.live import make_live_platform

        return make_live_platform(served_kinds, source)

    @override
    def add_services(self, parts: "IntegrationParts") -> "IntegrationHolders":
        """Add the controllers of claims; return what NetworkPools have to know of claims."""
        from reconcilers.integrations.clusterapi.serving import add_service
        from reconcilers.integrations.core.sharing import IntegrationHolders

        integration = add_service(parts)
        return IntegrationHolders([integration], claims=integration.claims)

    @override
    async def remove(self, client: "Client", kind: str, at: Version) -> None:
        """Delete a claim or an IPAddress that a person wants deleted, unless it has changed."""
        from reconcilers.integrations.clusterapi.objects import remove

        await remove(client, kind, at)

    @override
    def make_webhooks(
        self, client: "Client", spaces: SpaceIndex, make_webhook: WebhookMaker
    ) -> "Sequence[Webhook[bytes]]":
        """Return the webhooks that validate writes of its kinds."""
        from reconcilers.integrations.clusterapi.validating import ClusterApiPoolValidator

        return [
            make_webhook(kind, ClusterApiPoolValidator(client, kind, spaces)) for kind in POOLS
        ]

    @override
    def find_lister(self, settings: Settings) -> ListHoldings | None:
        """Return the lister of the addresses that claims hold of NetworkPools."""
        from reconcilers.integrations.clusterapi.heldranges import list_holdings

        return list_holdings
