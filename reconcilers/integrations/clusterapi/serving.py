"""The integration as a service: it begins when Cluster API's kinds are served.

Whenever the served kinds change, all informers and controllers of the integration are recreated:
for a new version of the kinds, another kind of pool, or Clusters that were installed later.
"""

from dataclasses import dataclass

from controller.client import Client
from controller.extension import Extension
from controller.informer import Informer
from controller.loggers import get_logger
from controller.meta import Object
from controller.resource import Resource
from controller.runner import Controller
from reconcilers.api import names
from reconcilers.api.resources import NETWORK_POOL
from reconcilers.integrations.clusterapi import api
from reconcilers.integrations.clusterapi.api import IPAddress, IPAddressClaim, Pool
from reconcilers.integrations.clusterapi.caches import (
    ClaimCaches,
    list_cluster_names,
    list_spaces,
)
from reconcilers.integrations.clusterapi.claimkind import ClaimParts
from reconcilers.integrations.clusterapi.claims import ClaimReconciler
from reconcilers.integrations.clusterapi.clusterpauses import CLUSTER_INDEX
from reconcilers.integrations.clusterapi.contractkinds import (
    ContractKinds,
    find_contract_kinds,
)
from reconcilers.integrations.clusterapi.gauges import ClaimGauges
from reconcilers.integrations.clusterapi.leftovers import Leftovers
from reconcilers.integrations.clusterapi.networkpoolclaims import (
    DiscoveredClaims,
    NetworkPoolClaims,
)
from reconcilers.integrations.clusterapi.pools import InClusterPoolKind
from reconcilers.integrations.clusterapi.poolstatus import PoolStatuses
from reconcilers.integrations.clusterapi.reading import make_reader
from reconcilers.integrations.clusterapi.statuses import is_waiting
from reconcilers.integrations.clusterapi.watched import PoolInformer, WatchBuilder
from reconcilers.integrations.core.discovery import ServedKindsLook, Work
from reconcilers.integrations.core.gauges import wrap_with_gauges
from reconcilers.integrations.core.objects import SPACE_INDEX
from reconcilers.integrations.core.restoredrequests import RestoredRequests
from reconcilers.integrations.core.serving import IntegrationParts, add_integration_service
from reconcilers.promises.passes import PoolPasses

_log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class ClusterApiKinds:
    """The kinds of this integration that the API server serves.

    Args:
        contract: the kinds of claims, IPAddresses and Clusters, each in its newest served version.
        pools: the served kinds of pools of the in-cluster provider.
    """

    contract: ContractKinds
    pools: tuple[Resource[Pool], ...]


class ClusterApiSteps:
    """Runs the controllers of IPAddressClaims while their kinds are served (`IntegrationSteps`).

    Args:
        parts: the objects of the process that every integration needs.
    """

    def __init__(self, parts: IntegrationParts) -> None:
        self._parts = parts
        self.claims = DiscoveredClaims(self._parts.clock)
        """Returns the claims of NetworkPools to the passes over these pools."""
        self._networkpools: Controller | None = None
        """The controller of NetworkPools; None before `enqueue_networkpools`."""

    def enqueue_networkpools(self, controller: Controller) -> None:
        """Enqueue NetworkPools in `controller` when claims change, from the next `begin` on."""
        self._networkpools = controller

    def end(self) -> None:
        """Make passes over NetworkPools wait until discovery has answered again."""
        self.claims.is_known, self.claims.incomplete_reason, self.claims.pool_claims = (
            False,
            "",
            None,
        )

    def begin(self, served_kinds: ClusterApiKinds) -> Work | None:
        """Return the work for the served kinds; None unless claims and IPAddresses are served.

        From then on, passes over NetworkPools know whether claims are served.
        """
        self.end()
        work = None
        claims, addresses = served_kinds.contract.claims, served_kinds.contract.addresses
        if claims is not None and addresses is not None:
            work = self._make_work(served_kinds, claims, addresses)
            _log.info("Serving IPAddressClaims", version=claims.version)
        elif claims is not None:
            self._wait_for_second(claims, api.get_address_kind(claims.version))
        elif addresses is not None:
            self._wait_for_second(addresses, api.get_claim_kind(addresses.version))
        else:
            _log.info("IPAddressClaims are not served by the API server: waiting for them")
        self.claims.is_known = True
        return work

    def _wait_for_second(self, present: Resource[Object], missing: Resource[Object]) -> None:
        """Stop NetworkPools from handing out addresses until both kinds are served.

        Objects of the served kind may hold addresses. Without the other kind it is unknown which.

        Args:
            present: the kind that is served.
            missing: the kind that is not served.
        """
        _log.warning(
            "One of two kinds is not served by the API server: waiting for it",
            missing=missing.full_name,
            served=present.full_name,
        )
        self.claims.incomplete_reason = (
            f"the API server serves {present.full_name} and not {missing.full_name}; apply the"
            f" CustomResourceDefinition {missing.full_name} of Cluster API"
        )

    async def find_served(self) -> ClusterApiKinds:
        """Ask the API server which kinds it serves.

        Raises:
            DiscoveryIncomplete: it is unknown whether one of the kinds is served.
        """
        look = ServedKindsLook(self._parts.manager.client)
        served_kinds = ClusterApiKinds(
            await find_contract_kinds(look),
            pools=tuple([kind for kind in api.POOLS if await look.find_first_served([kind])]),
        )
        look.check_complete()
        return served_kinds

    def is_sufficient(self, served_kinds: ClusterApiKinds) -> bool:
        """Return whether claims and IPAddresses are served; Clusters and pools are optional."""
        contract = served_kinds.contract
        return contract.claims is not None and contract.addresses is not None

    def _make_work(
        self,
        served_kinds: ClusterApiKinds,
        claim_kind: Resource[IPAddressClaim],
        address_kind: Resource[IPAddress],
    ) -> Work:
        """Return a function that runs the informers and controllers for the served kinds."""
        extension = self._parts.manager.create_extension(sharded=True)
        indexes = {SPACE_INDEX: list_spaces, CLUSTER_INDEX: list_cluster_names}
        claims = extension.get_informer(claim_kind, indexes=indexes)
        addresses = extension.get_informer(address_kind, indexes=indexes)
        cluster_kind = served_kinds.contract.clusters
        clusters = None if cluster_kind is None else extension.get_informer(cluster_kind)
        in_cluster_pools = {kind: extension.get_informer(kind) for kind in served_kinds.pools}
        pools: dict[str, PoolInformer] = {NETWORK_POOL.kind: self._parts.networkpools}
        pools |= {kind.kind: informer for kind, informer in in_cluster_pools.items()}
        caches = ClaimCaches(
            claims.cache,
            addresses.cache,
            clusters=clusters.cache if clusters else None,
            pools={kind: informer.cache for kind, informer in pools.items()},
            claim_kind=claim_kind,
            address_kind=address_kind,
        )
        watches = WatchBuilder(
            caches,
            claims,
            addresses=addresses,
            clusters=clusters,
            gather=self._parts.settings.pool.gather,
            pools=pools,
            overlaps=self._parts.overlaps,
        )
        client = extension.client.with_field_manager(names.FIELD_MANAGER)
        claim_parts = self._make_claim_parts(client, caches)
        self.claims.pool_claims = NetworkPoolClaims(claim_parts)
        for pool_informer in in_cluster_pools.values():
            self._add_pool_controller(
                extension, pool_informer, watches=watches, claim_parts=claim_parts
            )
        self._add_claim_controller(extension, watches, claim_parts)
        if self._networkpools is not None:
            for watch in watches.make_request_watches(NETWORK_POOL):
                watch.connect(self._networkpools.queue)

        gauges = ClaimGauges(caches, self._parts.clock, lambda: self._parts.manager.is_leading)
        return wrap_with_gauges(gauges, self._parts.manager.metrics.registry, extension.run)

    def _make_claim_parts(self, client: Client, caches: ClaimCaches) -> ClaimParts:
        """Return the objects that passes over pools of all kinds use for claims."""
        clock, settings = self._parts.clock, self._parts.settings.pool
        return ClaimParts(
            client,
            caches,
            reader=make_reader(
                client,
                caches,
                clock=clock,
                patience=settings.cache_patience,
                check_interval=settings.contents_check,
            ),
            recorder=self._parts.recorder,
            leftovers=Leftovers(client, caches, clock),
            restored=RestoredRequests(
                caches.claims, clock, is_waiting=is_waiting, spaces=list_spaces
            ),
            clock=clock,
            settings=settings,
        )

    def _add_pool_controller(
        self,
        extension: Extension,
        pools: Informer[Pool],
        watches: WatchBuilder,
        claim_parts: ClaimParts,
    ) -> None:
        """Add the controller of one of the in-cluster provider's kinds of pools."""
        client, clock = claim_parts.client, claim_parts.clock
        statuses = PoolStatuses(
            client, claim_parts.recorder, clock=clock, spaces=self._parts.spaces
        )
        pool_kind = InClusterPoolKind(pools.cache, claim_parts, statuses)
        passes = PoolPasses(pool_kind, client, clock=clock, settings=claim_parts.settings)
        extension.add_controller(
            f"clusterapi-{pools.resource.kind.lower()}",
            passes.reconcile,
            watches=watches.make_pool_watches(pools),
            concurrency=self._parts.settings.concurrency,
            forget=passes.forget,
        )

    def _add_claim_controller(
        self, extension: Extension, watches: WatchBuilder, claim_parts: ClaimParts
    ) -> None:
        """Add the controller of IPAddressClaims."""
        shards = self._parts.manager.shards
        caches = claim_parts.caches
        reconciler = ClaimReconciler(
            claim_parts.client,
            caches,
            recorder=claim_parts.recorder,
            clock=claim_parts.clock,
            works_on=None if shards is None else shards.holds,
        )
        extension.add_controller(
            "clusterapi-claim",
            reconciler.reconcile,
            watches=watches.make_claim_watches(),
            # Half: the finalizers of a burst must not hold up the addresses of its first claims.
            concurrency=max(1, claim_parts.settings.width // 2),
            group=lambda key: key.namespace,
            shard_by=caches.find_shard_key,
        )


def add_service(parts: IntegrationParts) -> ClusterApiSteps:
    """Add the service that serves IPAddressClaims to the manager; return its steps."""
    steps = ClusterApiSteps(parts)
    groups = (api.GROUP, api.CORE_GROUP)
    add_integration_service(parts, steps, service="clusterapi", groups=groups, every_replica=True)
    return steps
