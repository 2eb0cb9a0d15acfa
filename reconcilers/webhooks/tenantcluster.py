"""What is refused of TenantClusters.

    created, updated   a load-balancer pool or a selector of Services that is none
                       (reconcilers/specrules/tenantspecs.py); another provider once addresses
                       were given, as those are of the old one's pools

What the provider makes of the wish is worth a warning: a size above its quota is cut to it. So is
another load balancer: Services have no addresses while the ranges move. And so is a narrower
selector of Services.
Deletion is never refused: teardown sees to its order.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from allocator import AddressRange
from controller.meta import Key
from reconcilers.api.providerconfig import IPAM, ProviderConfig
from reconcilers.api.resources import TENANT_CLUSTER
from reconcilers.api.tenantcluster import TenantCluster
from reconcilers.spaces.index import SpaceIndex
from reconcilers.spaces.offers import PoolName, offer_of
from reconcilers.specrules import tenantspecs
from reconcilers.specrules.verdict import Verdict, forbidden

REFERENCE = ("spec", "providerConfigRef")


@dataclass(frozen=True, slots=True)
class Provision:
    """Which ProviderConfig counts for a cluster.

    Args:
        key: the one that the cluster names, or that is the default; None if it names none and
            there is none, or the default is not known.
        config: that object; None if it does not exist or cannot be read.
        unknown: why it is not known which ProviderConfig counts, or what it says, and what to do;
            empty if that is known.
        refused: why ProviderConfigs of its namespace do not count; empty if they do.
    """

    key: Key | None
    config: ProviderConfig | None
    unknown: str = ""
    refused: str = ""


def review_spec(new: TenantCluster, provision: Provision, spaces: SpaceIndex) -> Verdict:
    """Validate a spec that is new or was edited.

    Args:
        provision: which ProviderConfig counts for it.
        spaces: what pools of all kinds hand out.
    """
    verdict = tenantspecs.review_tenant(new)
    warnings = [*_provider_warnings(new, provision)]
    manual = tenantspecs.parse_manual_pool(new)
    if isinstance(manual, AddressRange):
        warnings += _by_hand(new, manual, provision=provision, spaces=spaces)
    return Verdict(verdict.causes, (*verdict.warnings, *warnings))


def review_provider_change(
    old: TenantCluster | None,
    providers: tuple[Provision, Provision],
    allocations: Iterable[Key],
) -> Verdict:
    """Check whether an edited cluster may turn to another provider.

    Args:
        old: the cluster as it is; None if it cannot be read.
        providers: which ProviderConfig counts for the old, and for the new.
        allocations: the cluster's, as far as they are known.
    """
    before, after = providers
    if old is None or (before.key is None and not before.unknown) or before.key == after.key:
        return Verdict()
    referenced_names = [
        ref.name for ref in (old.status.lbAllocationRef, old.status.ipAllocationRef) if ref
    ]
    holders = sorted({*referenced_names, *(key.name for key in allocations)})
    if not holders:
        return Verdict()
    message = (
        f"cannot change from ProviderConfig {before.key or '(not known)'} to"
        f" {after.key or '(none)'} while the"
        f" cluster has addresses of its pools: IPAllocation {', '.join(holders)}"
    )
    return Verdict.from_causes([forbidden(REFERENCE, message)])


def list_balancer_warnings(
    old: TenantCluster, new: TenantCluster, allocations: Iterable[Key]
) -> Iterator[str]:
    """Yield a warning if an edited cluster moves its ranges to another load balancer.

    Args:
        old: the cluster as it is.
        new: the cluster as it is to be.
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


def _provider_warnings(new: TenantCluster, provision: Provision) -> Iterator[str]:
    """Yield warnings about a provider that is absent and a pool size that has no effect."""
    if provision.unknown:
        yield f"{provision.unknown}; the cluster waits until then"
        return
    if provision.refused:
        message = f"ProviderConfig {provision.key} is not used: {provision.refused}"
        yield f"spec.providerConfigRef: {message}"
        return
    if provision.config is None:
        if provision.key is not None:
            message = (
                f"ProviderConfig {provision.key} does not exist; the cluster waits until it does"
            )
            yield f"spec.providerConfigRef: {message}"
        return
    network = provision.config.spec.networking
    size, quota = new.networking.lbPoolSize, network.quota.maxLoadBalancerIPs
    if size is None:
        return
    where = "spec.networking.lbPoolSize"
    if network.mode != IPAM:
        yield f"{where}: ignored, as ProviderConfig {provision.key} does not use IPAM"
    elif quota is not None and size > quota:
        yield (
            f"{where}: {size} is above the quota of ProviderConfig {provision.key};"
            f" the cluster gets {quota}"
        )


def _by_hand(
    cluster: TenantCluster, pool: AddressRange, provision: Provision, spaces: SpaceIndex
) -> Iterator[str]:
    """Warn of a pool given by hand that is not used, or that others may be given too."""
    where = "spec.networking.loadBalancerPool"
    if provision.config is not None and provision.config.spec.networking.mode == IPAM:
        yield f"{where}: ignored, as ProviderConfig {provision.key} uses IPAM"
        return
    name = PoolName(TENANT_CLUSTER.kind, cluster.metadata.key)
    if sentence := spaces.sharing(offer_of(name, [pool])).sentence:
        yield f"{where}: {sentence}"
