"""The integration with metal3: its interface to the code outside of this package.

Its methods import the modules that they use: a process that needs none of them loads none.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, ClassVar

from typing_extensions import override

from controller.meta import Object
from controller.resource import Resource
from reconcilers.configuration.integrationnames import CLUSTER_API, METAL3
from reconcilers.integrations.clusterapi.api import CLUSTERS, HOLDERS
from reconcilers.integrations.core.objects import Body, list_implied
from reconcilers.integrations.core.platforms import (
    Operations,
    Platform,
    PlatformObjects,
    WebhookMaker,
)
from reconcilers.integrations.core.views import Planned, Views
from reconcilers.integrations.metal3.api import (
    ADDRESS_KIND,
    CLAIM_KIND,
    CLAIMS,
    KINDS,
    POOLS,
    REQUESTED_ADDRESS,
    Metal3Pool,
)
from reconcilers.spaces.index import SpaceIndex
from reconcilers.spaces.offers import PoolOffer
from reconcilers.spaces.sharing import Kinds

if TYPE_CHECKING:
    from controller.client import Client
    from controller.webhooks import Webhook
    from reconcilers.integrations.core.live import LivePlatform, PlatformSource
    from reconcilers.integrations.core.serving import IntegrationParts
    from reconcilers.integrations.core.sharing import IntegrationHolders


class Metal3Platform(Platform):
    """IPPools of metal3, which serve IPClaims and IPAddressClaims."""

    name = METAL3
    compared_kinds = Kinds.METAL3
    pools: ClassVar[Sequence[Resource[Object]]] = (POOLS,)
    kinds: ClassVar[Sequence[Resource[Object]]] = KINDS
    live_kinds: ClassVar[Collection[Resource[Object]]] = (*KINDS, *HOLDERS)
    holders = frozenset({CLAIM_KIND, ADDRESS_KIND, *(kind.full_name for kind in HOLDERS)})
    validated: ClassVar[Mapping[str, tuple[Resource[Object], Operations]]] = {
        f"validation.{kind.kind.lower()}.{kind.group}": (kind, ("CREATE", "UPDATE"))
        for kind in KINDS
    }
    validated_annotations: ClassVar[Mapping[str, Collection[str]]] = {
        CLAIMS.full_name: (REQUESTED_ADDRESS,)
    }
    # Cluster API's platform has the other kind of claims.
    removable: ClassVar[Mapping[str, Resource[Object]]] = {CLAIMS.kind: CLAIMS}
    finding_kinds: ClassVar[Sequence[Resource[Object]]] = (CLAIMS,)
    fenced_pools: ClassVar[Sequence[Resource[Object]]] = (POOLS,)

    @override
    def list_offers(self, kind: Resource[Object], pool: Object) -> Sequence[PoolOffer]:
        """Return the offers of an IPPool: the addresses that it hands out."""
        from reconcilers.integrations.metal3.offers import make_offers

        assert isinstance(pool, Metal3Pool), kind.kind
        return make_offers(pool)

    @override
    def list_implied_objects(
        self, bodies: Sequence[Body]
    ) -> Iterable[tuple[Resource[Object], Body]]:
        return list_implied(bodies, POOLS, implied=CLUSTERS, find_named=attrgetter("cluster"))

    @override
    def build_views(self, all_objects: PlatformObjects) -> Views:
        """Return the pictures of IPPools, and their troubles."""
        objects = all_objects.get_objects(self.name)
        from reconcilers.integrations.metal3.auditing import audit
        from reconcilers.integrations.metal3.contents import fill_caches, list_contents
        from reconcilers.integrations.metal3.picture import make_picture

        contract = all_objects.get_objects(CLUSTER_API)
        caches = fill_caches(objects, contract)
        pools = list(list_contents(caches))
        not_read = (*objects.not_read, *contract.not_read)
        troubles = list(audit(caches, pools, not_read))
        return Views([make_picture(pool) for pool in pools], troubles)

    @override
    def list_outcomes(self, before: PlatformObjects, after: PlatformObjects) -> Iterable[Planned]:
        """Return the outcomes of claims that waited: new addresses, or why they got none."""
        from reconcilers.integrations.metal3.contents import fill_caches
        from reconcilers.integrations.metal3.outcomes import list_outcomes

        caches_before = fill_caches(before.get_objects(self.name), before.get_objects(CLUSTER_API))
        caches_after = fill_caches(after.get_objects(self.name), after.get_objects(CLUSTER_API))
        return list_outcomes(caches_before, caches_after)

    @override
    def make_live_platform(
        self, served_kinds: Collection[Resource[Object]], source: "PlatformSource"
    ) -> "LivePlatform | None":
        """Return live views of IPPools; None if a kind that they need is not served."""
        from reconcilers.integrations.metal3.live import make_live_platform

        return make_live_platform(served_kinds, source)

    @override
    def add_services(self, parts: "IntegrationParts") -> "IntegrationHolders":
        """Add the controllers. Nothing is shared with NetworkPools."""
        from reconcilers.integrations.core.sharing import NOTHING_SHARED
        from reconcilers.integrations.metal3.serving import add_service

        add_service(parts)
        return NOTHING_SHARED

    @override
    def make_webhooks(
        self, client: "Client", spaces: SpaceIndex, make_webhook: WebhookMaker
    ) -> "Sequence[Webhook[bytes]]":
        """Return the webhooks that validate writes of its kinds."""
        from reconcilers.integrations.metal3.validating import make_webhooks

        return make_webhooks(client, spaces, make_webhook)
