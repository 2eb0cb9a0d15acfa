"""What is wrong in a tenant: what MetalLB there holds, has read, and has handed out."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from allocator import AddressRange
from controller.client import Client
from reconcilers import ranges
from reconcilers.api.ipallocation import IPAllocation
from reconcilers.api.resources import SERVICE, IPAddressPool, Service
from reconcilers.clusteridentity import is_of_another
from reconcilers.loadbalancers.metallb.projection import POOL_NAME, MetalLB, projection
from reconcilers.loadbalancers.metallb.uptake import configuration_error, counted, refusal
from reconcilers.tenantcluster.elastic.demand import (
    OTHER_CLASS,
    addresses,
    demand_of,
    families,
)
from reconcilers.tenantcluster.ownership.pools import (
    SHARED,
    elsewhere_message,
    may_be_taken_over,
    owner_of,
    shared_message,
)
from reconcilers.wording import name_with_count

Severity = Literal["error", "warning"]

MOST_NAMED = 5
"""Services of one tenant that are named in one sentence."""


@dataclass(frozen=True, slots=True)
class Inside:
    """What was read in a tenant.

    Args:
        pools: MetalLB's, by name.
        configuration_error: what MetalLB says is wrong with its configuration.
        services: all of the tenant's.
        management: the identity of the management cluster; empty if it is not known.
    """

    pools: Mapping[str, IPAddressPool]
    configuration_error: str = ""
    services: Sequence[Service] = ()
    management: str = ""


async def read_inside(client: Client, namespace: str, management: str) -> Inside:
    """Read what `findings` evaluates.

    Args:
        client: of the tenant.
        namespace: MetalLB's namespace there.
        management: the identity of the management cluster; empty if it is not known.

    Raises:
        ProjectionBlocked: MetalLB is not installed in the tenant.
        ControllerError: the tenant did not answer.
    """
    pools = await MetalLB(client, namespace).pools()
    error = await configuration_error(client, namespace)
    return Inside(pools, error, (await client.list(SERVICE)).items, management)


def findings(
    inside: Inside, members: Sequence[IPAllocation], spaces: Sequence[AddressRange]
) -> Iterator[tuple[str, Severity, str]]:
    """Yield kind, severity and sentence of everything that is wrong in a tenant.

    Args:
        inside: what was read there.
        members: the tenant's allocations.
        spaces: the addresses that NetworkPools hand out.
    """
    wanted = list(projection(members, 0).entries)
    pool = inside.pools.get(POOL_NAME)
    holds = list(pool.spec.addresses) if pool is not None else []
    owner = owner_of(pool) if pool is not None else None
    if pool is not None and is_of_another(pool, inside.management):
        yield SHARED, "error", elsewhere_message(pool)
    elif owner is not None and any(owner != one.spec.tenantClusterRef.key for one in members):
        yield SHARED, "error", shared_message(owner)
    elif holds != wanted:
        ours = pool is None or owner is not None or may_be_taken_over(pool, members)
        what = (
            "a running controller corrects it" if ours else "another tool created it, so it stays"
        )
        yield (
            "TenantDrift",
            "warning",
            (
                f"its MetalLB holds {', '.join(holds) or 'nothing'}, and should hold"
                f" {', '.join(wanted) or 'nothing'}; {what}"
            ),
        )
    if pool is not None and pool.spec.edited:
        yield (
            "TenantDrift",
            "warning",
            f"others have set {', '.join(pool.spec.edited)} in its pool; a controller corrects it",
        )
    for one in demand_of(inside.services, "", families(members) or ranges.WORDS).elsewhere:
        if one.reason != OTHER_CLASS:
            who = f"Service {one.service.metadata.key}"
            yield "TenantServiceWaits", "warning", f"{who} has no address: it asks for {one.asks}"
    why = refusal(inside.pools) or inside.configuration_error
    if why or (pool is not None and not _metallb_counts_all(pool)):
        yield (
            "TenantConfigurationNotRead",
            "error",
            "its MetalLB hands out addresses by an older configuration than the stored one"
            + (f": {why}" if why else "; its controller may not be running"),
        )
    if free := list(_used_but_free(inside.services, members, spaces)):
        shown = name_with_count(free, named_at_most=MOST_NAMED)
        yield (
            "TenantUsesFreeAddress",
            "error",
            (
                f"Services there show addresses that no IPAllocation of it holds: {shown};"
                " another tenant may be given them"
            ),
        )


def _metallb_counts_all(pool: IPAddressPool) -> bool:
    """Return whether the counters in a pool's status fit the addresses in its spec.

    They may be lower: with avoidBuggyIPs, MetalLB leaves addresses out. If they are higher,
    MetalLB still serves an older spec. True, too, if the status has no counters.
    """
    spans = [ranges.parsed_entry(text) for text in pool.spec.addresses]
    count = counted(pool.status)
    return count is None or count <= sum(one.size for one in spans if one is not None)


def _used_but_free(
    services: Sequence[Service], members: Sequence[IPAllocation], spaces: Sequence[AddressRange]
) -> Iterator[str]:
    """Yield the addresses that Services show although no allocation of the tenant holds them."""
    held = [span for one in members for span in ranges.all_held(one)]
    for service in services:
        for address in addresses(service):
            ours = any(space.overlaps(address) for space in spaces)
            if ours and not any(span.overlaps(address) for span in held):
                yield f"{address.start_text} ({service.metadata.key})"
