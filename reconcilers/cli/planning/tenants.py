"""TenantClusters ask for addresses, and they and ProviderConfigs say how they stand."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from controller.conditions import rfc3339
from controller.meta import Key
from reconcilers.api import names
from reconcilers.api.ipallocation import FAILED, IPAllocation
from reconcilers.api.networkpool import NetworkPool
from reconcilers.api.providerconfig import IPAM, ProviderConfig
from reconcilers.api.tenantcluster import FAILED as CLUSTER_FAILED
from reconcilers.api.tenantcluster import PROVISIONING, READY, TenantCluster
from reconcilers.cli.planning.ledger import Ledger
from reconcilers.conditions import Finding, rendered, with_findings
from reconcilers.providerconfig import judgement
from reconcilers.settings import Settings
from reconcilers.tenantcluster import network
from reconcilers.tenantcluster.drafts import Drafts, Standing, Wanted
from reconcilers.tenantcluster.poolchoice import PoolChoice
from reconcilers.tenantcluster.provider import chosen
from reconcilers.tenantcluster.status import Verdict, not_ready, patch, ready
from reconcilers.tenantcluster.status import network as network_condition


@dataclass(slots=True)
class Tenants:
    """Asks and speaks in the name of TenantClusters.

    Args:
        ledger: the objects; changed in place.
        settings: as the controllers would have them.
        platform_default: the ProviderConfig of clusters that name none, if the platform says.
    """

    ledger: Ledger
    settings: Settings
    platform_default: Key | None = None

    def provider_of(self, tenant: TenantCluster) -> ProviderConfig | None:
        """Return the ProviderConfig that counts for `tenant`."""
        return chosen(
            tenant,
            self.ledger.providers.cache,
            self.settings.namespace,
            self.platform_default,
        )

    def _served(self) -> Iterator[tuple[TenantCluster, ProviderConfig]]:
        """Yield the clusters that get addresses from pools, oldest first."""
        for tenant in self.ledger.tenants:
            provider = self.provider_of(tenant)
            if tenant.metadata.terminating or network.misconfigured(provider) is not None:
                continue
            if provider is not None and provider.spec.networking.mode == IPAM:
                yield tenant, provider

    def _drafts(self) -> Drafts:
        ledger, limit = self.ledger, self.settings.pool.max_addresses
        choice = PoolChoice(ledger.pools.cache, ledger.allocations.cache, limit)
        return Drafts(ledger.allocations.cache, choice)

    def _wanted(self, tenant: TenantCluster, provider: ProviderConfig) -> list[Wanted]:
        backfill = self.settings.tenant.backfill_nodes
        return self._drafts().wanted(tenant, provider, backfill)

    def ask(self) -> Iterator[IPAllocation]:
        """Create the allocations that clusters lack, one by one; yield each."""
        for tenant, provider in list(self._served()):
            for wanted in self._wanted(tenant, provider):
                created = self._ask(tenant, provider, wanted)
                if created is not None:
                    yield created

    def _ask(
        self, tenant: TenantCluster, provider: ProviderConfig, wanted: Wanted
    ) -> IPAllocation | None:
        drafts, allocations = self._drafts(), self.ledger.allocations
        existing, since = wanted.existing, None
        if existing is not None:
            failed = existing.status.phase == FAILED and not existing.metadata.terminating
            if not failed or not drafts.moves_on(tenant, provider, wanted, existing):
                return None
            since = existing.requested_at.isoformat()
            allocations.delete(existing)
        draft = drafts.draft(tenant, provider, wanted)
        if draft is None:
            return None
        if since is not None:
            draft.body["metadata"]["annotations"][names.ANNOTATION_REQUESTED_AT] = since
        created = allocations.create(draft.namespace, draft.body)
        self.ledger.asked_by[created.metadata.key] = tenant.metadata.key
        return created

    def standings(self, tenant: TenantCluster, provider: ProviderConfig) -> list[Standing]:
        """Return how the cluster's allocations stand."""
        return [
            Standing(wanted.kind, wanted.existing, exhausted=wanted.existing is None)
            for wanted in self._wanted(tenant, provider)
        ]

    def tell(self, now: datetime) -> None:
        """Write the status of TenantClusters and ProviderConfigs."""
        for tenant in self.ledger.tenants:
            change = patch(tenant, self._verdict(tenant), now)
            if change and not tenant.metadata.terminating:
                self.ledger.tenants.write_status(tenant, change)
        for provider in self.ledger.providers:
            change = _provider_patch(provider, self._pools(provider), now)
            if change and not provider.metadata.terminating:
                self.ledger.providers.write_status(provider, change)

    def _verdict(self, tenant: TenantCluster) -> Verdict:
        provider = self.provider_of(tenant)
        problem = network.misconfigured(provider)
        if problem is not None or provider is None:
            assert problem is not None, "a missing ProviderConfig is a problem"
            return Verdict(CLUSTER_FAILED, (problem, not_ready(problem.reason, problem.message)))
        if provider.spec.networking.mode != IPAM:
            bypass = network_condition(True, "Ready", "cloud networking mode")
            return Verdict(READY, (bypass, ready()))
        standings = self.standings(tenant, provider)
        addresses = network.finding(standings)
        found: tuple[Finding, ...] = (addresses,)
        if not addresses.status and not tenant.is_ready:
            found = (addresses, not_ready(addresses.reason, addresses.message))
        phase = READY if tenant.is_ready else PROVISIONING
        return Verdict(phase, found, network.refs(standings))

    def _pools(self, provider: ProviderConfig) -> Iterator[NetworkPool]:
        for name in provider.spec.networking.pools_in_order():
            pool = self.ledger.pools.cache.get(Key(provider.metadata.namespace, name))
            if pool is not None and not pool.metadata.terminating:
                yield pool


def _provider_patch(
    provider: ProviderConfig, pools: Iterator[NetworkPool], now: datetime
) -> dict[str, Any]:
    """Return what a ProviderConfig's status says apart from its credentials."""
    scope = judgement.scope(provider)
    judged = judgement.pools(provider, pools)
    findings = [finding for finding in (scope, judged and judged[0]) if finding]
    if not findings:
        return {}
    conditions = with_findings(
        provider.status.conditions, findings, provider.metadata.generation, now
    )
    change: dict[str, Any] = {}
    if rendered(conditions) != rendered(provider.status.conditions):
        change["conditions"] = rendered(conditions)
    if judged is not None and judged[1] != provider.status.capacity:
        change["capacity"] = {
            "availableIPs": judged[1].availableIPs,
            "estimatedTenants": judged[1].estimatedTenants,
        }
    return change | ({"lastProbeTime": rfc3339(now)} if change else {})
