"""TenantClusters ask for addresses, and they and ProviderConfigs say how they stand."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from controller.conditions import rfc3339
from controller.meta import Key
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
from reconcilers.tenantcluster.drafts import Drafts, Standing, Wanted, groups
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
    _shared: Drafts | None = None

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
        if self._shared is None:
            choice = PoolChoice(ledger.pools.cache, ledger.allocations.cache, limit)
            self._shared = Drafts(ledger.allocations.cache, choice)
        return self._shared

    def _wanted(self, tenant: TenantCluster, provider: ProviderConfig) -> list[Wanted]:
        backfill = self.settings.tenant.backfill_nodes
        return self._drafts().wanted(tenant, provider, backfill)

    def ask(self) -> Iterator[IPAllocation]:
        """Create the allocations that clusters lack, one by one; yield each."""
        for tenant, provider in list(self._served()):
            since = self._make_way(tenant, provider)
            wanted = self._wanted(tenant, provider)
            for group in groups(tenant, [one for one in wanted if one.existing is None]):
                yield from self._create(tenant, provider, group, since)

    def _make_way(self, tenant: TenantCluster, provider: ProviderConfig) -> dict[str, str]:
        """Delete failed requests that move to another pool; return since when they were made."""
        since = {}
        for wanted in self._wanted(tenant, provider):
            existing = wanted.existing
            if existing is None or existing.metadata.terminating:
                continue
            failed = existing.status.phase == FAILED
            if failed and self._drafts().moves_on(tenant, provider, wanted.count, existing):
                since[wanted.kind] = existing.requested_at.isoformat()
                self.ledger.allocations.delete(existing)
        return since

    def _create(
        self,
        tenant: TenantCluster,
        provider: ProviderConfig,
        group: Sequence[Wanted],
        since: Mapping[str, str],
    ) -> Iterator[IPAllocation]:
        with ExitStack() as kept:
            drafts = self._drafts().together(tenant, provider, group, kept)
            if isinstance(drafts, Wanted):
                return
            for wanted, draft in zip(group, drafts, strict=True):
                moved = since.get(wanted.kind)
                asked = draft.asked_since(moved) if moved else draft
                created = self.ledger.allocations.create(draft.namespace, asked.body)
                self.ledger.asked_by[created.metadata.key] = tenant.metadata.key
                yield created

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
    wrong = judgement.validity(provider)
    judged = judgement.pools(provider, pools)
    findings = [finding for finding in (wrong, judged and judged[0]) if finding]
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
