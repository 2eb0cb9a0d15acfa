"""The integration as a service: it begins when the API server serves metal3's kinds.

Cluster API's kinds are optional: IPAddressClaims on IPPools and Clusters are read as soon as the
API server serves them.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from random import SystemRandom

from controller.cache import Cache
from controller.extension import Extension
from controller.informer import Informer
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
from reconcilers.integrations.core.gauges import KeptFigures, PoolGauges, wrap_with_gauges
from reconcilers.integrations.core.serving import IntegrationParts, add_integration_service
from reconcilers.integrations.metal3.api import CLAIMS, GROUP, KINDS, POOLS, Metal3Pool
from reconcilers.integrations.metal3.caches import (
    POOL_INDEXES,
    IPPoolClaimCaches,
    Metal3Caches,
    Metal3Reader,
    make_address_indexes,
    make_claim_indexes,
)
from reconcilers.integrations.metal3.claimformats import (
    AddressT,
    ClaimFormat,
    ClaimT,
    IPAddressClaimFormat,
    IPClaimFormat,
    find_contract_format,
)
from reconcilers.integrations.metal3.claimkind import Metal3Claims, Metal3Parts, ServedClaims
from reconcilers.integrations.metal3.claims import Metal3ClaimReconciler
from reconcilers.integrations.metal3.gauges import LABELS, METRICS, list_figures
from reconcilers.integrations.metal3.pools import Metal3Pools, ServedKinds
from reconcilers.integrations.metal3.poolstatus import PoolIndexes
from reconcilers.integrations.metal3.watched import (
    EitherInformers,
    IPPoolClaimInformers,
    Metal3Watches,
)
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
    def contract_format(self) -> IPAddressClaimFormat | None:
        """IPAddressClaims as claims of IPPools; None if they are not served."""
        return find_contract_format(self.contract)


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
        are_served = [await look.find_first_served([kind]) is not None for kind in resources]
        kinds_served = ServedMetal3Kinds(all(are_served), await find_contract_kinds(look))
        look.check_complete()
        return kinds_served

    def is_sufficient(self, kinds_served: ServedMetal3Kinds) -> bool:
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
        contract = kinds_served.contract_format
        kinds = ", ".join([CLAIMS.kind, *([] if contract is None else [contract.claims.kind])])
        _log.info("Serving claims of IPPools", kinds=kinds)
        return self._make_work(kinds_served)

    def _make_work(self, kinds_served: ServedMetal3Kinds) -> Work:
        """Return the work that runs the informers and controllers for these kinds."""
        extension, settings = self._parts.manager.create_extension(), self._parts.settings.pool
        pools = extension.get_informer(POOLS, indexes=POOL_INDEXES)
        cluster_kind = kinds_served.contract.clusters
        clusters = None if cluster_kind is None else extension.get_informer(cluster_kind)
        informers = _make_claim_informers(
            extension, kinds_served.contract_format, pools=pools, clusters=clusters
        )
        caches = Metal3Caches(
            pools.cache,
            {kind: claim_informers.caches for kind, claim_informers in informers.items()},
            None if clusters is None else clusters.cache,
        )
        client = extension.client.with_field_manager(names.FIELD_MANAGER)
        clock, recorder = self._parts.clock, self._parts.recorder
        reader = Metal3Reader(
            client,
            [claim_caches.read_source() for claim_caches in caches.claim_caches_by_kind.values()],
            clock=clock,
            patience=settings.cache_patience,
            check_interval=settings.contents_check,
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
        watches = Metal3Watches(
            pools,
            claim_informers=informers,
            clusters=clusters,
            gather=settings.gather,
            overlaps=self._parts.overlaps,
        )
        self._add_pool_controller(extension, parts, watches)
        self._add_claim_controllers(extension, parts, watches)
        figures = KeptFigures(partial(list_figures, caches))
        figures.drop_on_changes_of(pools.cache)
        if clusters is not None:  # claims of a paused Cluster do not count as waiting
            figures.drop_on_changes_of(clusters.cache)
        for claim_caches in caches.claim_caches_by_kind.values():
            figures.drop_on_changes_of(claim_caches.claims)
            figures.drop_on_changes_of(claim_caches.addresses)
        gauges = PoolGauges(METRICS, "an IPPool", labels=LABELS, list_figures=figures, clock=clock)
        return wrap_with_gauges(gauges, self._parts.manager.metrics.registry, extension.run)

    def _add_pool_controller(
        self, extension: Extension, parts: Metal3Parts, watches: Metal3Watches
    ) -> None:
        """Add the controller of IPPools."""

        def make_served_claims(
            claim_caches: IPPoolClaimCaches[ClaimT, AddressT], /
        ) -> ServedClaims:
            """Return one kind of claims, as passes over pools serve it."""
            return Metal3Claims(parts, claim_caches)

        all_claim_caches = parts.caches.claim_caches_by_kind.values()
        self._kinds = ServedKinds(
            parts.clock,
            [claim_caches.visit(make_served_claims) for claim_caches in all_claim_caches],
        )
        kind = Metal3Pools(
            parts.client,
            parts,
            served_kinds=self._kinds,
            indexes=PoolIndexes(parts.client, parts.caches, parts.clock),
        )
        passes = PoolPasses(kind, parts.client, clock=parts.clock, settings=parts.settings)
        extension.add_controller(
            "metal3-ippool",
            passes.reconcile,
            watches=watches.make_pool_watches(),
            concurrency=self._parts.settings.concurrency,
            forget=passes.forget,
        )

    def _add_claim_controllers(
        self, extension: Extension, parts: Metal3Parts, watches: Metal3Watches
    ) -> None:
        """Add a controller for each kind of claims."""

        def make_pass(
            claim_caches: IPPoolClaimCaches[ClaimT, AddressT], /
        ) -> Callable[[Key], Awaitable[Outcome]]:
            """Return the pass over a claim of one kind."""
            reconciler = Metal3ClaimReconciler(
                parts.client,
                parts.caches,
                claim_caches=claim_caches,
                reader=parts.reader,
                recorder=parts.recorder,
                clock=parts.clock,
            )
            return reconciler.reconcile

        for kind_name, claim_caches in parts.caches.claim_caches_by_kind.items():
            extension.add_controller(
                f"metal3-{claim_caches.claim_format.claims.kind.lower()}",
                claim_caches.visit(make_pass),
                watches=watches.make_claim_watches(kind_name),
                # Half of the width: the writes of finalizers for many new claims must not delay
                # the first addresses.
                concurrency=max(1, parts.settings.width // 2),
                group=lambda key: key.namespace,
            )


def _make_claim_informers(
    extension: Extension,
    contract_format: IPAddressClaimFormat | None,
    pools: Informer[Metal3Pool],
    clusters: Informer[Cluster] | None,
) -> dict[str, EitherInformers]:
    """Return the informers of each served kind of claims, by the full name of the kind.

    Args:
        contract_format: reads IPAddressClaims; None if they are not served.
        clusters: the informer of Clusters; None if they are not served.
    """

    def make_informers(
        claim_format: ClaimFormat[ClaimT, AddressT], clusters_of_claims: Cache[Cluster] | None
    ) -> IPPoolClaimInformers[ClaimT, AddressT]:
        """Return the informers of one kind of claims and its IPAddresses.

        Args:
            clusters_of_claims: the Clusters that can stop these claims; None for none.
        """
        claims = extension.get_informer(
            claim_format.claims, indexes=make_claim_indexes(claim_format)
        )
        addresses = extension.get_informer(
            claim_format.addresses, indexes=make_address_indexes(claim_format)
        )
        claim_caches = IPPoolClaimCaches(
            claim_format,
            claims.cache,
            addresses=addresses.cache,
            pools=pools.cache,
            clusters=clusters_of_claims,
        )
        return IPPoolClaimInformers(claim_caches, claims, addresses)

    informers: dict[str, EitherInformers] = {
        CLAIMS.full_name: make_informers(IPClaimFormat(), None)
    }
    if contract_format is not None:
        cluster_cache = None if clusters is None else clusters.cache
        informers[contract_format.claim_kind] = make_informers(contract_format, cluster_cache)
    return informers


def add_service(parts: IntegrationParts) -> None:
    """Add the service that serves claims on IPPools to the manager."""
    groups = (GROUP, clusterapi.GROUP, clusterapi.CORE_GROUP)
    add_integration_service(parts, Metal3(parts), service="metal3", groups=groups)
