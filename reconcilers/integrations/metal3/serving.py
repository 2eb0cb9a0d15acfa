"""The integration as a service: it begins when the API server serves metal3's kinds.

Cluster API's kinds are optional: IPAddressClaims on IPPools and Clusters are read as soon as the
API server serves them.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from random import SystemRandom

from controller.cache import Cache
from controller.loggers import get_logger
from controller.meta import Key, Object
from controller.outcome import Outcome
from controller.resource import Resource
from reconcilers.api import names
from reconcilers.integrations.clusterapi import api as clusterapi
from reconcilers.integrations.clusterapi.api import Cluster
from reconcilers.integrations.clusterapi.contractkinds import (
    ContractKinds,
    find_contract_kinds,
)
from reconcilers.integrations.core.discovery import ServedKindsLook, Work
from reconcilers.integrations.core.gauges import KeptFigures, PoolGauges, with_gauges
from reconcilers.integrations.core.serving import IntegrationParts, add_integration_service
from reconcilers.integrations.metal3.api import CLAIMS, GROUP, KINDS, POOLS
from reconcilers.integrations.metal3.caches import (
    POOL_INDEXES,
    EitherCaches,
    Metal3Caches,
    Metal3Reader,
    SideCaches,
    make_address_indexes,
    make_claim_indexes,
)
from reconcilers.integrations.metal3.claimkind import Metal3Claims, Metal3Parts, ServedClaims
from reconcilers.integrations.metal3.claims import Metal3ClaimReconciler
from reconcilers.integrations.metal3.gauges import LABELS, METRICS, list_figures
from reconcilers.integrations.metal3.pools import Metal3Pools, ServedKinds
from reconcilers.integrations.metal3.poolstatus import PoolIndexes
from reconcilers.integrations.metal3.sides import (
    AddressT,
    ClaimSide,
    ClaimT,
    ContractSide,
    Metal3Side,
    find_contract_side,
)
from reconcilers.integrations.metal3.watched import EitherInformers, Metal3Watches, SideInformers
from reconcilers.promises.passes import PoolPasses

_log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class ServedMetal3Kinds:
    """The kinds that the API server serves.

    Args:
        is_complete: whether all three kinds of metal3 are served.
        contract: the served kinds of Cluster API's contract.
    """

    is_complete: bool
    contract: ContractKinds

    @property
    def contract_side(self) -> ContractSide | None:
        """IPAddressClaims as claims of IPPools; None if they are not served."""
        return find_contract_side(self.contract)


class Metal3:
    """Serves IPPools while metal3's kinds are served.

    Args:
        parts: the objects of the process that every integration needs.
    """

    def __init__(self, parts: IntegrationParts) -> None:
        self._parts = parts
        self._kinds: ServedKinds | None = None
        """The kinds of claims that passes serve; None before the first work."""

    async def find_served(self) -> ServedMetal3Kinds:
        """Ask the API server which kinds it serves.

        Raises:
            DiscoveryIncomplete: it is unknown whether one of the kinds is served.
        """
        look = ServedKindsLook(self._parts.manager.client)
        resources: Sequence[Resource[Object]] = KINDS
        are_served = [await look.first_served([kind]) is not None for kind in resources]
        kinds_served = ServedMetal3Kinds(all(are_served), await find_contract_kinds(look))
        look.check_complete()
        return kinds_served

    def suffices(self, kinds_served: ServedMetal3Kinds) -> bool:
        """Return whether all kinds are served, also the optional ones of Cluster API."""
        contract = kinds_served.contract
        kinds = (contract.claims, contract.addresses, contract.clusters)
        return kinds_served.is_complete and None not in kinds

    def end(self) -> None:
        """Keep passes that still run from serving claims until discovery has answered again."""
        if self._kinds is not None:
            self._kinds.is_known = False

    def begin(self, kinds_served: ServedMetal3Kinds) -> Work | None:
        """Return the work for the served kinds; None unless all kinds of metal3 are served."""
        # The work for the last answer has ended: what it served is out of date.
        self.end()
        if not kinds_served.is_complete:
            _log.info("The kinds of metal3 are not served by the API server: waiting for them")
            return None
        contract = kinds_served.contract_side
        kinds = ", ".join([CLAIMS.kind, *([] if contract is None else [contract.claims.kind])])
        _log.info("Serving claims of IPPools", kinds=kinds)
        return self._make_work(kinds_served)

    def _make_work(self, kinds_served: ServedMetal3Kinds) -> Work:
        """Return the work that runs the informers and controllers for these kinds."""
        extension, settings = self._parts.manager.extension(), self._parts.settings.pool
        pools = extension.informer(POOLS, indexes=POOL_INDEXES)
        cluster_kind = kinds_served.contract.clusters
        clusters = None if cluster_kind is None else extension.informer(cluster_kind)
        cluster_cache = None if clusters is None else clusters.cache

        def watch(
            side: ClaimSide[ClaimT, AddressT], clusters_of_side: Cache[Cluster] | None
        ) -> SideInformers[ClaimT, AddressT]:
            """Return the informers of one kind of claims and its IPAddresses."""
            claims = extension.informer(side.claims, indexes=make_claim_indexes(side))
            addresses = extension.informer(side.addresses, indexes=make_address_indexes(side))
            side_caches = SideCaches(
                side,
                claims.cache,
                addresses=addresses.cache,
                pools=pools.cache,
                clusters=clusters_of_side,
            )
            return SideInformers(side_caches, claims, addresses)

        informers: dict[str, EitherInformers] = {CLAIMS.full_name: watch(Metal3Side(), None)}
        if (contract := kinds_served.contract_side) is not None:
            informers[contract.claim_kind] = watch(contract, cluster_cache)
        sides: Mapping[str, EitherCaches] = {
            kind: side_informers.caches for kind, side_informers in informers.items()
        }
        caches = Metal3Caches(pools.cache, sides, cluster_cache)
        client = extension.client.with_field_manager(names.FIELD_MANAGER)
        clock, recorder = self._parts.clock, self._parts.recorder
        patience, check_interval = settings.cache_patience, settings.contents_check
        reader = Metal3Reader(
            client,
            [side.read_source() for side in sides.values()],
            clock=clock,
            patience=patience,
            check_interval=check_interval,
        )
        parts = Metal3Parts(
            client,
            caches,
            reader=reader,
            recorder=recorder,
            clock=clock,
            settings=settings,
            generator=SystemRandom(),
        )

        def serve(side: SideCaches[ClaimT, AddressT], /) -> ServedClaims:
            """Return one kind of claims, as passes over pools serve it."""
            return Metal3Claims(parts, side)

        def reconcile_claims(
            side: SideCaches[ClaimT, AddressT], /
        ) -> Callable[[Key], Awaitable[Outcome]]:
            """Return the pass over a claim of one kind."""
            reconciler = Metal3ClaimReconciler(
                client, caches, side_caches=side, reader=reader, recorder=recorder, clock=clock
            )
            return reconciler.reconcile

        self._kinds = ServedKinds(clock, [side.visit(serve) for side in sides.values()])
        kind = Metal3Pools(
            client, parts, served_kinds=self._kinds, indexes=PoolIndexes(client, caches, clock)
        )
        passes = PoolPasses(kind, client, clock=clock, settings=settings)
        watches = Metal3Watches(
            pools,
            sides=informers,
            clusters=clusters,
            gather=settings.gather,
            overlaps=self._parts.overlaps,
        )
        extension.controller(
            "metal3-ippool",
            passes.reconcile,
            watches=watches.make_pool_watches(),
            concurrency=self._parts.settings.concurrency,
            forget=passes.forget,
        )
        for name, side_caches in sides.items():
            extension.controller(
                f"metal3-{side_caches.side.claims.kind.lower()}",
                side_caches.visit(reconcile_claims),
                watches=watches.make_claim_watches(name),
                # Half of the width: the writes of finalizers for many new claims must not delay
                # the first addresses.
                concurrency=max(1, settings.width // 2),
                group=lambda key: key.namespace,
            )
        figures = KeptFigures(partial(list_figures, caches))
        figures.follow(pools.cache)
        if clusters is not None:  # claims of a paused Cluster do not count as waiting
            figures.follow(clusters.cache)
        for side in sides.values():
            figures.follow(side.claims)
            figures.follow(side.addresses)
        gauges = PoolGauges(METRICS, "an IPPool", labels=LABELS, list_figures=figures, clock=clock)
        return with_gauges(gauges, self._parts.manager.metrics.registry, extension.run)


def add_service(parts: IntegrationParts) -> None:
    """Add the service that serves claims on IPPools to the manager."""
    groups = (GROUP, clusterapi.GROUP, clusterapi.CORE_GROUP)
    add_integration_service(parts, Metal3(parts), service="metal3", groups=groups)
