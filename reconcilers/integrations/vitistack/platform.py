"""The integration with vitistack: its interface to the code outside of this package.

Its methods import the modules that they use: a process that needs none of them loads none.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

from typing_extensions import override

from controller.meta import Object
from controller.resource import Resource
from reconcilers.configuration.integrationnames import VITISTACK
from reconcilers.integrations.core.objects import Body, is_of_kinds
from reconcilers.integrations.core.platforms import Platform, PlatformObjects
from reconcilers.integrations.core.views import Planned, Views
from reconcilers.integrations.vitistack.api import ALLOCATIONS, KINDS, NETWORKS, NetworkNamespace
from reconcilers.spaces.offers import PoolOffer
from reconcilers.spaces.sharing import Kinds

if TYPE_CHECKING:
    from reconcilers.integrations.core.live import LivePlatform, PlatformSource
    from reconcilers.integrations.core.serving import IntegrationParts
    from reconcilers.integrations.core.sharing import IntegrationHolders


class VitistackPlatform(Platform):
    """IPAllocations of vitistack, which get addresses of NetworkNamespaces."""

    name = VITISTACK
    compared_kinds = Kinds.VITISTACK
    pools: ClassVar[Sequence[Resource[Object]]] = (NETWORKS,)
    kinds: ClassVar[Sequence[Resource[Object]]] = KINDS
    live_kinds: ClassVar[Collection[Resource[Object]]] = (NETWORKS, ALLOCATIONS)
    holders = frozenset({ALLOCATIONS.full_name})
    removable: ClassVar[Mapping[str, Resource[Object]]] = {kind.full_name: kind for kind in KINDS}

    @override
    def list_offers(self, kind: Resource[Object], pool: Object) -> Sequence[PoolOffer]:
        """Return the offers of a network: the addresses that it hands out."""
        from reconcilers.integrations.vitistack.offers import make_offers

        assert isinstance(pool, NetworkNamespace), kind.kind
        return make_offers(pool)

    @override
    def fill_defaults(self, body: Body) -> Body:
        """Return the manifest of a network with its phase; other manifests unchanged."""
        if not is_of_kinds(body, [NETWORKS]):
            return body
        from reconcilers.integrations.vitistack.caches import fill_defaults

        return fill_defaults(body)

    @override
    def build_views(self, all_objects: PlatformObjects) -> Views:
        """Return the pictures of networks, and their troubles."""
        objects = all_objects.get_objects(self.name)
        from reconcilers.integrations.vitistack.auditing import audit
        from reconcilers.integrations.vitistack.caches import fill_caches
        from reconcilers.integrations.vitistack.contents import list_contents
        from reconcilers.integrations.vitistack.picture import make_picture

        caches = fill_caches(objects)
        networks = list(list_contents(caches))
        troubles = audit(
            caches,
            networks,
            now=all_objects.now,
            not_read=objects.not_read,
        )
        return Views([make_picture(network) for network in networks], list(troubles))

    @override
    def list_outcomes(self, before: PlatformObjects, after: PlatformObjects) -> Iterable[Planned]:
        """Return the outcomes of waiting IPAllocations: new addresses, or why they got none."""
        from reconcilers.integrations.vitistack.caches import fill_caches
        from reconcilers.integrations.vitistack.outcomes import list_outcomes

        return list_outcomes(
            fill_caches(before.get_objects(self.name)), fill_caches(after.get_objects(self.name))
        )

    @override
    def make_live_platform(
        self, served_kinds: Collection[Resource[Object]], source: "PlatformSource"
    ) -> "LivePlatform | None":
        """Return live views of networks; None if a kind that they need is not served."""
        from reconcilers.integrations.vitistack.live import make_live_platform

        return make_live_platform(served_kinds, source)

    @override
    def add_services(self, parts: "IntegrationParts") -> "IntegrationHolders":
        """Add the controllers. Nothing is shared with NetworkPools."""
        from reconcilers.integrations.core.sharing import NOTHING_SHARED
        from reconcilers.integrations.vitistack.serving import add_service

        add_service(parts)
        return NOTHING_SHARED
