"""Evaluates a ProviderConfig: its conditions and capacity, from objects that were read before.

A *finding* is a condition without its times.
"""

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import starmap

from controller.meta import Key
from reconcilers.addressing.familychoice import FAMILY_NAMES
from reconcilers.api import names
from reconcilers.api.networkpool import NetworkPool, cap_at_int32
from reconcilers.api.providerconfig import (
    ELASTIC,
    IPAM,
    LOCAL,
    FamilyCapacity,
    FamilyName,
    ProviderCapacity,
    ProviderConfig,
    ProviderNetwork,
)
from reconcilers.reporting.conditions import READY, ConditionFinding
from reconcilers.reporting.poolreferences import (
    describe_absent_pools,
    describe_unreadable_pools,
    find_absent_pools,
    find_unreadable_pools,
)
from reconcilers.reporting.wording import count_noun
from reconcilers.specrules.poolnamespaces import NAMESPACE_NOT_ALLOWED, describe_refused_namespace
from reconcilers.specrules.providerspecs import review_provider

REQUIRED_KEYS: Mapping[str, tuple[str, ...]] = {
    "harvester": ("kubeconfig",),
    "nutanix": ("username", "password"),
    "proxmox": ("username", "password"),
    "azure": ("clientID", "clientSecret", "tenantID"),
    "aws": ("accessKeyID", "secretAccessKey"),
    "gcp": ("serviceAccountKey",),
    LOCAL: (),
}

VALIDATION_FAILED = "ValidationFailed"
CREDENTIALS_VALID = "CredentialsValid"
POOL_AVAILABLE = "PoolAvailable"
POOL_NOT_FOUND = "PoolNotFound"
POOL_UNREADABLE = "PoolUnreadable"
CLUSTER_UNREADABLE = "TenantClusterUnreadable"
EVENT_REASONS: Mapping[str, str] = {
    "PoolExhausted": "PoolsExhausted",
    POOL_NOT_FOUND: "PoolsNotFound",
    POOL_UNREADABLE: "PoolsUnreadable",
}
"""Reasons of PoolAvailable that are recorded as events when it turns False."""


@dataclass(frozen=True, slots=True)
class Evaluation:
    """The result of one evaluation of a ProviderConfig.

    Args:
        credentials: the CredentialsValid condition.
        findings: the other conditions.
        capacity: the free addresses of its pools; None outside IPAM mode.
    """

    credentials: ConditionFinding
    findings: tuple[ConditionFinding, ...]
    capacity: ProviderCapacity | None


def judge_credentials(
    config: ProviderConfig, where: str, keys: Iterable[str] | None
) -> ConditionFinding:
    """Return the CredentialsValid condition.

    Args:
        where: namespace/name of the Secret.
        keys: the keys of the Secret with a value that is not empty; None if the Secret does not
            exist.
    """
    if keys is None:
        return ConditionFinding(
            CREDENTIALS_VALID,
            False,
            reason="CredentialsInvalid",
            message=f"credentials secret {where} not found",
        )
    present_keys = set(keys)
    missing = [key for key in list_required_keys(config) if key not in present_keys]
    if missing:
        return ConditionFinding(
            CREDENTIALS_VALID,
            False,
            reason="CredentialsInvalid",
            message=f"secret missing required keys: [{' '.join(missing)}]",
        )
    return ConditionFinding(
        CREDENTIALS_VALID, True, reason="Ready", message="credentials validated"
    )


def list_required_keys(config: ProviderConfig) -> tuple[str, ...]:
    """Return the keys that the credentials Secret needs.

    If the provider needs one key only, credentialsRef.key may give it another name.
    """
    required = REQUIRED_KEYS.get(config.spec.provider, ())
    reference = config.spec.credentialsRef
    if len(required) == 1 and reference is not None and reference.key:
        return (reference.key,)
    return required


def make_secret_forbidden(where: str) -> ConditionFinding:
    """Return the CredentialsValid condition of a provider whose Secret we may not read.

    Args:
        where: namespace/name of the Secret.
    """
    message = f"credentials secret {where} may not be read: grant get on it"
    return ConditionFinding(CREDENTIALS_VALID, False, reason="CredentialsInvalid", message=message)


def make_clusters_unreadable(why: str) -> ConditionFinding:
    """Return the Ready condition of a deleted provider that unreadable clusters may refer to.

    Args:
        why: names the unreadable TenantClusters and says how to correct them.
    """
    message = f"the ProviderConfig is not deleted, because these may refer to it: {why}"
    return ConditionFinding(READY, False, reason=CLUSTER_UNREADABLE, message=message)


def find_contradiction(config: ProviderConfig) -> ConditionFinding | None:
    """Return the Ready condition of a provider whose spec contradicts itself; else None.

    Webhook and schema reject such a spec. The same rules are checked here, because an object may
    have been stored without them.
    """
    verdict = review_provider(config)
    if verdict.allowed:
        return None
    return ConditionFinding(
        READY,
        False,
        reason=VALIDATION_FAILED,
        message=f"validation errors: {verdict.join_causes()}",
    )


def find_refused_namespace(
    config: ProviderConfig, allowed: Sequence[str]
) -> ConditionFinding | None:
    """Return the Ready condition of a provider in a namespace that is not allowed; else None.

    Args:
        allowed: the namespaces whose ProviderConfigs and pools count; empty for all.
    """
    why = describe_refused_namespace(config.metadata.namespace, allowed)
    return (
        ConditionFinding(READY, False, reason=NAMESPACE_NOT_ALLOWED, message=why) if why else None
    )


def get_team_name(config: ProviderConfig) -> str:
    """Return the name of the team that the provider serves; empty if it serves all teams."""
    scope = config.spec.scope
    team_ref = scope.teamRef if scope is not None and scope.type == "team" else None
    return team_ref.name if team_ref is not None else ""


def make_team_unknown(name: str) -> ConditionFinding:
    """Return the Ready condition of a provider for a team that does not exist."""
    message = f"scope.teamRef: Team {name} does not exist"
    return ConditionFinding(READY, False, reason=VALIDATION_FAILED, message=message)


def evaluate_pools(
    config: ProviderConfig,
    find: Callable[[Key], NetworkPool | None],
    unreadable: Container[Key] = (),
    namespaces: Sequence[str] = (),
) -> tuple[ConditionFinding, ProviderCapacity] | None:
    """Return the PoolAvailable condition and the capacity; None outside IPAM mode.

    The condition is False, with the reason of the first of these cases; else it is True:

    1. the namespace is not allowed, or the spec names no pools
    2. none of the named pools exists and can be read
    3. no pool has free addresses, or none is known to have any yet

    Args:
        find: returns a NetworkPool, or None if it does not exist.
        unreadable: the NetworkPools that cannot be decoded. They hand out nothing, so they add
            nothing to the capacity.
        namespaces: the namespaces whose pools hand out ranges; empty for all.
    """
    network = config.spec.networking
    if network.mode != IPAM:
        return None
    # The pools are in the namespace of the ProviderConfig.
    refused = find_refused_namespace(config, namespaces)
    if refused is not None or not network.poolRefs:
        reason, message = VALIDATION_FAILED, "network.mode is 'ipam' but no poolRefs configured"
        if refused is not None:
            reason, message = refused.reason, refused.message
        return ConditionFinding(
            POOL_AVAILABLE, False, reason=reason, message=message
        ), ProviderCapacity()
    unread = find_unreadable_pools(config, unreadable)
    absent = [name for name in find_absent_pools(config, find) if name not in unread]
    # Each message ends with the pools that are absent or cannot be read.
    also = f"; {describe_absent_pools(config, absent)}" if absent else ""
    also += f"; {describe_unreadable_pools(config, unread)}" if unread else ""
    names_in_order = network.list_pools_in_order()
    if len(absent) + len(unread) == len(names_in_order):
        reason, state = (POOL_UNREADABLE, "can be read") if unread else (POOL_NOT_FOUND, "exists")
        message = f"no configured pool {state}: {also.removeprefix('; ')}"
        return ConditionFinding(
            POOL_AVAILABLE, False, reason=reason, message=message
        ), ProviderCapacity()
    readable_names = (name for name in names_in_order if name not in unread)
    found_pools = [find(Key(config.metadata.namespace, name)) for name in readable_names]
    # A pool that is being deleted hands out nothing.
    usable_pools = [
        pool for pool in found_pools if pool is not None and not pool.metadata.is_terminating
    ]
    by_family = _sum_by_family(usable_pools, network)
    available = sum(pool.status.available for pool in usable_pools)
    tenants = sum(estimate_tenants(pool, pool.status.available, network) for pool in usable_pools)
    if not any(free for free, _ in by_family.values()):
        # A new pool has no figures in its status yet: it is not known to be exhausted.
        if any(pool.status.observedGeneration == 0 for pool in usable_pools):
            message = "waiting for the NetworkPool controller"
            return ConditionFinding(
                POOL_AVAILABLE, False, reason="Reconciling", message=message
            ), ProviderCapacity()
        message = f"all configured pools are exhausted{also}"
        return ConditionFinding(
            POOL_AVAILABLE, False, reason="PoolExhausted", message=message
        ), ProviderCapacity()
    has_both_families = len(by_family) > 1
    message = f"{count_noun(available, 'IP')} available (~{count_noun(tenants, 'tenant')})"
    if has_both_families:
        message = ", ".join(
            f"{count_noun(free, f'{family} IP')} available (~{count_noun(fitting, 'tenant')})"
            for family, (free, fitting) in by_family.items()
        )
    capacity = ProviderCapacity(
        availableIPs=cap_at_int32(available),
        estimatedTenants=cap_at_int32(tenants),
        families=tuple(starmap(_make_family_capacity, by_family.items()))
        if has_both_families
        else (),
    )
    return ConditionFinding(
        POOL_AVAILABLE, True, reason="PoolAvailable", message=f"{message}{also}"
    ), capacity


def _sum_by_family(
    pools: Iterable[NetworkPool], network: ProviderNetwork
) -> dict[FamilyName, tuple[int, int]]:
    """Return the free addresses of pools, and for how many tenants they suffice, by family."""
    by_family: dict[FamilyName, tuple[int, int]] = {}
    for pool in pools:
        for block in pool.blocks:
            family = FAMILY_NAMES[block.spec.family]
            free, tenants = by_family.get(family, (0, 0))
            more_tenants = estimate_tenants(pool, block.status.available, network)
            by_family[family] = free + block.status.available, tenants + more_tenants
    return by_family


def _make_family_capacity(family: FamilyName, counts: tuple[int, int]) -> FamilyCapacity:
    """Return the capacity of one family for the status.

    Args:
        counts: free addresses, and the number of tenants that they suffice for.
    """
    free, tenants = counts
    # The field is an int32. A larger number is capped there, and given in full as text.
    exact = str(free) if free > cap_at_int32(free) else None
    return FamilyCapacity(
        family, cap_at_int32(free), exactAvailableIPs=exact, estimatedTenants=cap_at_int32(tenants)
    )


def estimate_tenants(pool: NetworkPool, free: int, network: ProviderNetwork) -> int:
    """Return for how many new tenants a number of free addresses suffices.

    A new tenant takes its initial size: node addresses and load-balancer addresses, each at most
    the quota.

    Args:
        pool: gives the default number of node addresses.
        free: the number of free addresses.
    """
    sizing, quota = network.sizing, network.quota
    is_elastic = sizing.allocationMode == ELASTIC
    balancer_addresses = sizing.initialPoolSize if is_elastic else sizing.defaultPoolSize
    node_addresses = pool.spec.default_count(names.TYPE_NODES)
    # An absent quota is no limit.
    addresses_per_tenant = min(node_addresses, quota.maxNodeIPs or node_addresses)
    addresses_per_tenant += min(balancer_addresses, quota.maxLoadBalancerIPs or balancer_addresses)
    return free // addresses_per_tenant


def make_overall(evaluation: Evaluation) -> ConditionFinding:
    """Return the Ready condition of a ProviderConfig from its evaluated conditions.

    Ready takes reason and message of the first condition that is False; without one it is True. A
    refused namespace comes first, because no correction of the ProviderConfig ends it.
    """
    findings = (evaluation.credentials, *evaluation.findings)
    # The sort is stable: apart from a refused namespace, the order stays.
    for finding in sorted(findings, key=lambda f: f.reason != NAMESPACE_NOT_ALLOWED):
        if not finding.status:
            return ConditionFinding(READY, False, reason=finding.reason, message=finding.message)
    return ConditionFinding(READY, True, reason="Ready", message="the provider can be used")
