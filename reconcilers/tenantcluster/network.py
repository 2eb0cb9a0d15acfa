"""What the provider's network means for a tenant: bypass, an error, or addresses to wait for."""

from collections.abc import Sequence

from reconcilers.api import names
from reconcilers.api.ipallocation import FAILED
from reconcilers.api.providerconfig import IPAM, ProviderConfig
from reconcilers.api.tenantcluster import TenantCluster
from reconcilers.conditions import READY, Finding
from reconcilers.tenantcluster.drafts import Standing
from reconcilers.tenantcluster.status import network

TEAM = "team"
"""The scope of a provider that serves one team."""
REF_FIELDS = {
    names.TYPE_LOADBALANCER: "lbAllocationRef",
    names.TYPE_NODES: "ipAllocationRef",
}


def misconfigured(provider: ProviderConfig | None) -> Finding | None:
    """Return why no addresses can be asked for, None if they can."""
    if provider is None:
        return network(
            False,
            "ProviderConfigNotFound",
            "no ProviderConfig for this cluster: the one it names does not exist,"
            " or it names none and there is no default",
        )
    if provider.spec.networking.mode == IPAM and not provider.spec.networking.poolRefs:
        return network(
            False, "NetworkNotReady", "IPAM mode but no poolRefs configured on provider"
        )
    return None


def denied(tenant: TenantCluster, provider: ProviderConfig | None) -> Finding | None:
    """Return why the provider may not be used for `tenant`, None if it may.

    A provider of one team serves that team's clusters. A cluster that names no team is taken for
    its namespace's, which other controllers guard.
    """
    if provider is None:
        return None
    scope = provider.spec.scope
    if scope is None or scope.type != TEAM or scope.teamRef is None:
        return None
    team = tenant.spec.teamRef
    if team is None or team.name == scope.teamRef.name:
        return None
    return network(
        False,
        "ProviderAccessDenied",
        f"ProviderConfig {provider.metadata.key} serves team {scope.teamRef.name} alone,"
        f" and this cluster is of team {team.name}",
    )


def finding(standings: Sequence[Standing]) -> Finding:
    """Return the NetworkReady condition, given how the tenant's allocations stand."""
    for standing in standings:
        if standing.exhausted:
            nodes = standing.kind == names.TYPE_NODES
            whom = ": no room for the node IPs of one more cluster" if nodes else ""
            return network(False, "PoolExhausted", f"all configured pools are exhausted{whom}")
    for standing in standings:
        if not standing.served:
            return _waiting(standing)
    balancer = next((s for s in standings if s.kind == names.TYPE_LOADBALANCER), None)
    if balancer is None or balancer.allocation is None:
        return network(True, "Ready", "no load-balancer IPs are needed yet")
    return network(True, "Ready", f"LB IPs allocated: {balancer.allocation.status.cidr}")


def _waiting(standing: Standing) -> Finding:
    what = "LB" if standing.kind == names.TYPE_LOADBALANCER else "node"
    allocation = standing.allocation
    if allocation is not None and allocation.status.phase == FAILED:
        said = next((c for c in allocation.status.conditions if c.type == READY), None)
        if said is not None:
            return network(
                False,
                said.reason,
                f"{what} IP allocation {allocation.metadata.name} failed: {said.message}",
            )
    return network(False, "Reconciling", f"waiting for {what} IP allocation")


def refs(standings: Sequence[Standing]) -> dict[str, str | None]:
    """Return the status fields that name the tenant's allocations; None where there is none."""
    return {
        REF_FIELDS[s.kind]: s.allocation.metadata.name if s.allocation is not None else None
        for s in standings
    }
