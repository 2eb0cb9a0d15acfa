"""The integration with KKP: its interface to the code outside of this package.

Its methods import the modules that they use: a process that needs none of them loads none.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

from typing_extensions import override

from controller.meta import Object
from controller.resource import Resource
from reconcilers.configuration.integrationnames import KUBERMATIC
from reconcilers.configuration.settings import Settings
from reconcilers.integrations.core.objects import Body, is_of_kinds
from reconcilers.integrations.core.platforms import (
    ListHoldings,
    Operations,
    Platform,
    PlatformObjects,
    WebhookMaker,
)
from reconcilers.integrations.core.views import Planned, Views
from reconcilers.integrations.kubermatic.api import ALLOCATIONS, CLUSTERS, KINDS, POOLS, IPAMPool
from reconcilers.spaces.index import SpaceIndex
from reconcilers.spaces.offers import PoolOffer
from reconcilers.spaces.sharing import Kinds

if TYPE_CHECKING:
    from controller.client import Client
    from controller.webhooks import Webhook
    from reconcilers.integrations.core.live import LivePlatform, PlatformSource
    from reconcilers.integrations.core.serving import IntegrationParts
    from reconcilers.integrations.core.sharing import IntegrationHolders


class KubermaticPlatform(Platform):
    """IPAMPools of KKP, whose addresses are served here, or observed."""

    name = KUBERMATIC
    compared_kinds = Kinds.KUBERMATIC
    pools: ClassVar[Sequence[Resource[Object]]] = (POOLS,)
    kinds: ClassVar[Sequence[Resource[Object]]] = KINDS
    live_kinds: ClassVar[Collection[Resource[Object]]] = KINDS
    holders = frozenset({ALLOCATIONS.full_name, CLUSTERS.full_name})
    # The key is the name of KKP's own webhook, the full name of its kind.
    validated: ClassVar[Mapping[str, tuple[Resource[Object], Operations]]] = {
        POOLS.full_name: (POOLS, ("CREATE", "UPDATE"))
    }
    removable: ClassVar[Mapping[str, Resource[Object]]] = {kind.kind: kind for kind in KINDS}
    finding_kinds: ClassVar[Sequence[Resource[Object]]] = KINDS
    content_kinds: ClassVar[Sequence[Resource[Object]]] = (ALLOCATIONS,)

    @override
    def list_offers(self, kind: Resource[Object], pool: Object) -> Sequence[PoolOffer]:
        """Return the offers of an IPAMPool: the addresses that it hands out."""
        from reconcilers.integrations.kubermatic.offers import make_offers

        assert isinstance(pool, IPAMPool), kind.kind
        return make_offers(pool)

    @override
    def fill_defaults(self, body: Body) -> Body:
        """Return the manifest of a Cluster with its namespace; other manifests unchanged."""
        if not is_of_kinds(body, [CLUSTERS]):
            return body
        from reconcilers.integrations.kubermatic.reading import fill_defaults

        return fill_defaults(body)

    @override
    def build_views(self, all_objects: PlatformObjects) -> Views:
        """Return the pictures of IPAMPools, and their troubles."""
        objects = all_objects.get_objects(self.name)
        from reconcilers.integrations.kubermatic.auditing import audit
        from reconcilers.integrations.kubermatic.contents import list_contents
        from reconcilers.integrations.kubermatic.picture import make_picture
        from reconcilers.integrations.kubermatic.reading import fill_caches

        caches = fill_caches(objects)
        pools = list(list_contents(caches, not_read=objects.not_read))
        troubles = list(audit(caches, pools, objects.not_read))
        return Views([make_picture(pool) for pool in pools], troubles)

    @override
    def list_outcomes(self, before: PlatformObjects, after: PlatformObjects) -> Iterable[Planned]:
        """Return the outcomes of Clusters that waited: new addresses, or why they got none."""
        from reconcilers.integrations.kubermatic.outcomes import list_outcomes
        from reconcilers.integrations.kubermatic.reading import fill_caches

        return list_outcomes(
            fill_caches(before.get_objects(self.name)), fill_caches(after.get_objects(self.name))
        )

    @override
    def make_live_platform(
        self, served_kinds: Collection[Resource[Object]], source: "PlatformSource"
    ) -> "LivePlatform | None":
        """Return live views of IPAMPools; None if a kind that they need is not served."""
        from reconcilers.integrations.kubermatic.live import make_live_platform

        return make_live_platform(served_kinds, source)

    @override
    def add_services(self, parts: "IntegrationParts") -> "IntegrationHolders":
        """Add the controllers; return what NetworkPools must keep clear of if KKP is observed."""
        from reconcilers.integrations.core.sharing import NOTHING_SHARED, IntegrationHolders

        if not parts.settings.kubermatic.observe:
            from reconcilers.integrations.kubermatic.serving import add_service

            add_service(parts)
            return NOTHING_SHARED
        from reconcilers.integrations.kubermatic.observing import add_observer

        observer = add_observer(parts)
        return IntegrationHolders([observer], observed=observer.holders)

    @override
    def make_webhooks(
        self, client: "Client", spaces: SpaceIndex, make_webhook: WebhookMaker
    ) -> "Sequence[Webhook[bytes]]":
        """Return the webhooks that validate writes of its kinds."""
        from reconcilers.integrations.kubermatic.validating import IPAMPoolValidator

        return [make_webhook(POOLS, IPAMPoolValidator(client, spaces))]

    @override
    def find_lister(self, settings: Settings) -> ListHoldings | None:
        """Return the lister of IPAMAllocations' addresses; None if KKP is not observed."""
        if not settings.kubermatic.observe:
            return None  # KKP does not allocate then, so NetworkPools need not keep clear of it
        # Imported here: only a process that observes KKP needs that module.
        from reconcilers.integrations.kubermatic.observing import list_observed_holdings

        return list_observed_holdings
