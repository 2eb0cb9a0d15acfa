"""Rules for writes of TenantClusters.

    created   refused: a spec that is invalid by itself (reconcilers/specrules/tenantspecs.py)
    updated   refused: the same; another ProviderConfig while the cluster holds addresses, because
              they are of the pools of the old ProviderConfig

There are warnings about a size above the provider's quota, which is cut to the quota; another load
balancer, because Services have no addresses while the ranges move; and a narrower selector of
Services. Deletion is never refused: teardown releases the addresses in order.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from allocator import AddressRange
from controller.meta import Key
from reconcilers.api.providerconfig import IPAM, ProviderConfig
from reconcilers.api.resources import TENANT_CLUSTER
from reconcilers.api.tenantcluster import TenantCluster
from reconcilers.spaces.index import SpaceIndex
from reconcilers.spaces.offers import PoolName, build_offers
from reconcilers.specrules import tenantspecs
from reconcilers.specrules.verdict import Verdict, build_forbidden_cause

REFERENCE = ("spec", "providerConfigRef")


@dataclass(frozen=True, slots=True)
class Provision:
    """The ProviderConfig that counts for a cluster.

    Args:
        key: the ProviderConfig that the cluster names, or else the default; None if there is no
            default or the default is not known.
        config: that object; None if it does not exist or cannot be read.
        unknown_reason: why it is not known which ProviderConfig counts, or why it cannot be read,
            and what to do; empty if it is known.
        refusal_reason: why ProviderConfigs of its namespace do not count; empty if they count.
    """

    key: Key | None
    config: ProviderConfig | None
    unknown_reason: str = ""
    refusal_reason: str = ""


def review_spec(new: TenantCluster, provision: Provision, spaces: SpaceIndex) -> Verdict:
    """Return the verdict on the spec of a TenantCluster that is new or was edited.

    Args:
        provision: the ProviderConfig that counts for the cluster.
        spaces: what pools of all kinds hand out.
    """
    verdict = tenantspecs.review_tenant(new)
    warnings = [*_list_provider_warnings(new, provision)]
    manual = tenantspecs.parse_manual_pool(new)
    # A pool that cannot be parsed is a cause of the verdict already.
    if isinstance(manual, AddressRange):
        warnings += _list_manual_pool_warnings(new, manual, provision=provision, spaces=spaces)
    return Verdict(verdict.causes, (*verdict.warnings, *warnings))


def review_provider_change(
    old: TenantCluster | None,
    providers: tuple[Provision, Provision],
    allocations: Iterable[Key],
) -> Verdict:
    """Return the verdict on a change of ProviderConfig: refused if the cluster holds addresses.

    Args:
        old: the stored cluster; None if it cannot be read.
        providers: the ProviderConfigs that count for the stored cluster and for the edited one.
        allocations: the cluster's IPAllocations, as far as they are known.
    """
    before, after = providers
    if old is None:
        return Verdict()  # nothing is known to compare with, and the edit may be the repair
    if before.key == after.key:
        return Verdict()  # the same ProviderConfig, perhaps written in another way
    if before.key is None and not before.unknown_reason:
        return Verdict()  # without a ProviderConfig the cluster got no addresses
    referenced_names = [
        ref.name for ref in (old.status.lbAllocationRef, old.status.ipAllocationRef) if ref
    ]
    holders = sorted({*referenced_names, *(key.name for key in allocations)})
    if not holders:
        return Verdict()  # the cluster has no addresses yet
    message = (
        f"cannot change from ProviderConfig {before.key or '(not known)'} to"
        f" {after.key or '(none)'} while the"
        f" cluster has addresses of its pools: IPAllocation {', '.join(holders)}"
    )
    return Verdict.from_causes([build_forbidden_cause(REFERENCE, message)])


def list_balancer_warnings(
    old: TenantCluster, new: TenantCluster, allocations: Iterable[Key]
) -> Iterator[str]:
    """Yield a warning if an edit takes addresses from Services, for good or for a while.

    1. A changed selector of Services: the Services that it leaves out lose their addresses.
    2. Another load balancer: Services have no addresses while the ranges move to it.

    Without allocations there are no addresses to lose, so there is no warning.

    Args:
        old: the stored cluster.
        new: the edited cluster.
        allocations: the cluster's load-balancer allocations, as far as they are known.
    """
    before, after = old.load_balancer_provider, new.load_balancer_provider
    holders = sorted(key.name for key in allocations)
    selector = new.service_selector
    if before == after and holders and selector is not None and selector != old.service_selector:
        yield (
            "spec.addons.loadBalancer.cilium.serviceSelector: Services in the cluster that it"
            " leaves out lose their addresses"
        )
    if before == after or not holders:
        return
    yield (
        f"spec.addons.loadBalancer.provider: Services have no addresses until {before} has let go"
        f" of the cluster's ranges and {after} has them, and may get other addresses then. The"
        f" condition LoadBalancerReady says what is waited for. Moves IPAllocation"
        f" {', '.join(holders)}"
    )


def _list_provider_warnings(new: TenantCluster, provision: Provision) -> Iterator[str]:
    """Yield a warning about a cluster's ProviderConfig, or about a size that it overrules.

    1. The ProviderConfig is not known, does not count, or does not exist: the cluster waits.
    2. `lbPoolSize` has no effect without IPAM, or is above the quota.
    """
    if provision.unknown_reason:
        yield f"{provision.unknown_reason}; the cluster waits until it is known"
        return
    if provision.refusal_reason:
        yield (
            f"spec.providerConfigRef: ProviderConfig {provision.key} is not used:"
            f" {provision.refusal_reason}. Name another ProviderConfig, or let an administrator"
            " add the namespace"
        )
        return
    if provision.config is None:
        # Without a key, the cluster names no ProviderConfig, and there is no default. Perhaps the
        # cluster should have no addresses, so there is no warning.
        if provision.key is not None:
            yield (
                f"spec.providerConfigRef: ProviderConfig {provision.key} does not exist; the"
                " cluster waits until you create it or name another"
            )
        return
    network = provision.config.spec.networking
    size, quota = new.networking.lbPoolSize, network.quota.maxLoadBalancerIPs
    if size is None:
        return
    where = "spec.networking.lbPoolSize"
    if network.mode != IPAM:
        yield f"{where}: ignored, as ProviderConfig {provision.key} does not use IPAM; remove it"
    elif quota is not None and size > quota:
        yield (
            f"{where}: {size} is above the quota of ProviderConfig {provision.key};"
            f" the cluster gets {quota}"
        )


def _list_manual_pool_warnings(
    cluster: TenantCluster, pool: AddressRange, provision: Provision, spaces: SpaceIndex
) -> Iterator[str]:
    """Yield a warning if the manual pool of a cluster is ignored, or shares addresses with pools.

    Args:
        pool: `spec.networking.loadBalancerPool`, parsed.
        provision: the ProviderConfig that counts for the cluster.
        spaces: what pools of all kinds hand out.
    """
    where = "spec.networking.loadBalancerPool"
    if provision.config is not None and provision.config.spec.networking.mode == IPAM:
        yield f"{where}: ignored, as ProviderConfig {provision.key} uses IPAM; remove it"
        return
    name = PoolName(TENANT_CLUSTER.kind, cluster.metadata.key)
    if sentence := spaces.find_sharing(build_offers(name, [pool])).sentence:
        yield f"{where}: {sentence}"
