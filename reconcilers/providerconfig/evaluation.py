"""A ProviderConfig's conditions and capacity, as functions of what was read."""

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
    absent_pools,
    describe_absent_pools,
    describe_unreadable_pools,
    unreadable_pools,
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
    """What was found of a ProviderConfig.

    Args:
        credentials: the CredentialsValid condition.
        findings: the other conditions.
        capacity: what its pools hold; None outside IPAM mode.
    """

    credentials: ConditionFinding
    findings: tuple[ConditionFinding, ...]
    capacity: ProviderCapacity | None


def credentials(
    config: ProviderConfig, where: str, keys: Iterable[str] | None
) -> ConditionFinding:
    """Return the CredentialsValid condition.

    Args:
        where: namespace/name of the Secret.
        keys: those keys of the Secret that hold something; None if it does not exist.
    """
    if keys is None:
        return ConditionFinding(
            CREDENTIALS_VALID,
            False,
            reason="CredentialsInvalid",
            message=f"credentials secret {where} not found",
        )
    present = set(keys)
    missing = [key for key in required_keys(config) if key not in present]
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


def required_keys(config: ProviderConfig) -> tuple[str, ...]:
    """Return the keys that the Secret needs; where one is enough, credentialsRef may name it."""
    required = REQUIRED_KEYS.get(config.spec.provider, ())
    reference = config.spec.credentialsRef
    if len(required) == 1 and reference is not None and reference.key:
        return (reference.key,)
    return required


def unreadable(where: str) -> ConditionFinding:
    """Return the CredentialsValid condition where reading the Secret is not allowed."""
    message = f"credentials secret {where} may not be read: grant get on it"
    return ConditionFinding(CREDENTIALS_VALID, False, reason="CredentialsInvalid", message=message)


def clusters_unreadable(why: str) -> ConditionFinding:
    """Return the Ready condition of a deleted provider that unreadable clusters may refer to.

    Args:
        why: which TenantClusters, and what a person has to do.
    """
    message = f"the ProviderConfig is not deleted, because these may refer to it: {why}"
    return ConditionFinding(READY, False, reason=CLUSTER_UNREADABLE, message=message)


def validity(config: ProviderConfig) -> ConditionFinding | None:
    """Return why the spec contradicts itself, None if it does not.

    The rules are those of the webhook and of the schema, for what was stored without either.
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


def refused_namespace(config: ProviderConfig, allowed: Sequence[str]) -> ConditionFinding | None:
    """Return the Ready condition of a provider whose namespace may hold none; None if it may.

    Args:
        allowed: the namespaces that may; empty for all.
    """
    why = describe_refused_namespace(config.metadata.namespace, allowed)
    return (
        ConditionFinding(READY, False, reason=NAMESPACE_NOT_ALLOWED, message=why) if why else None
    )


def team(config: ProviderConfig) -> str:
    """Return the name of the team that the provider is for; empty if it is for all."""
    scope = config.spec.scope
    team_ref = scope.teamRef if scope is not None and scope.type == "team" else None
    return team_ref.name if team_ref is not None else ""


def unknown_team(name: str) -> ConditionFinding:
    """Return the Ready condition of a provider for a team that does not exist."""
    message = f"scope.teamRef: Team {name} does not exist"
    return ConditionFinding(READY, False, reason=VALIDATION_FAILED, message=message)


def pools(
    config: ProviderConfig,
    find: Callable[[Key], NetworkPool | None],
    unreadable: Container[Key] = (),
    namespaces: Sequence[str] = (),
) -> tuple[ConditionFinding, ProviderCapacity] | None:
    """Return the PoolAvailable condition and the capacity; None outside IPAM mode.

    A pool that cannot be read adds nothing to the capacity, because it hands out nothing. Nor does
    a pool in a namespace whose pools hand out nothing.

    Args:
        find: returns a NetworkPool, or None if it does not exist.
        unreadable: the NetworkPools that cannot be decoded.
        namespaces: those whose pools hand out ranges; empty for all.
    """
    network = config.spec.networking
    if network.mode != IPAM:
        return None
    refused = refused_namespace(config, namespaces)  # the pools are in the same namespace
    if refused is not None or not network.poolRefs:
        reason, message = VALIDATION_FAILED, "network.mode is 'ipam' but no poolRefs configured"
        if refused is not None:
            reason, message = refused.reason, refused.message
        return ConditionFinding(
            POOL_AVAILABLE, False, reason=reason, message=message
        ), ProviderCapacity()
    unread = unreadable_pools(config, unreadable)
    absent = [name for name in absent_pools(config, find) if name not in unread]
    also = f"; {describe_absent_pools(config, absent)}" if absent else ""
    also += f"; {describe_unreadable_pools(config, unread)}" if unread else ""
    names_in_order = network.pools_in_order()
    if len(absent) + len(unread) == len(names_in_order):
        reason, state = (POOL_UNREADABLE, "can be read") if unread else (POOL_NOT_FOUND, "exists")
        message = f"no configured pool {state}: {also.removeprefix('; ')}"
        return ConditionFinding(
            POOL_AVAILABLE, False, reason=reason, message=message
        ), ProviderCapacity()
    readable = (name for name in names_in_order if name not in unread)
    existing = [find(Key(config.metadata.namespace, name)) for name in readable]
    there = [pool for pool in existing if pool is not None and not pool.metadata.terminating]
    by_family = _by_family(there, network)
    available = sum(pool.status.available for pool in there)
    tenants = sum(estimated_tenants(pool, pool.status.available, network) for pool in there)
    if not any(free for free, _ in by_family.values()):
        if any(pool.status.observedGeneration == 0 for pool in there):
            message = "waiting for the NetworkPool controller"
            return ConditionFinding(
                POOL_AVAILABLE, False, reason="Reconciling", message=message
            ), ProviderCapacity()
        message = f"all configured pools are exhausted{also}"
        return ConditionFinding(
            POOL_AVAILABLE, False, reason="PoolExhausted", message=message
        ), ProviderCapacity()
    several = len(by_family) > 1
    message = f"{count_noun(available, 'IP')} available (~{count_noun(tenants, 'tenant')})"
    if several:
        message = ", ".join(
            f"{count_noun(free, f'{family} IP')} available (~{count_noun(fitting, 'tenant')})"
            for family, (free, fitting) in by_family.items()
        )
    capacity = ProviderCapacity(
        availableIPs=cap_at_int32(available),
        estimatedTenants=cap_at_int32(tenants),
        families=tuple(starmap(_family, by_family.items())) if several else (),
    )
    return ConditionFinding(
        POOL_AVAILABLE, True, reason="PoolAvailable", message=f"{message}{also}"
    ), capacity


def _by_family(
    pools: Iterable[NetworkPool], network: ProviderNetwork
) -> dict[FamilyName, tuple[int, int]]:
    """Return of each family of some pools the free addresses, and for how many tenants they do."""
    by_family: dict[FamilyName, tuple[int, int]] = {}
    for pool in pools:
        for block in pool.blocks:
            family = FAMILY_NAMES[block.spec.family]
            free, fitting = by_family.get(family, (0, 0))
            more = estimated_tenants(pool, block.status.available, network)
            by_family[family] = free + block.status.available, fitting + more
    return by_family


def _family(family: FamilyName, counts: tuple[int, int]) -> FamilyCapacity:
    free, fitting = counts
    exact = str(free) if free > cap_at_int32(free) else None
    return FamilyCapacity(
        family, cap_at_int32(free), exactAvailableIPs=exact, estimatedTenants=cap_at_int32(fitting)
    )


def estimated_tenants(pool: NetworkPool, free: int, network: ProviderNetwork) -> int:
    """Return how many tenants of initial size, cut to the quota, so many addresses suffice for."""
    sizing, quota = network.sizing, network.quota
    elastic = sizing.allocationMode == ELASTIC
    balancers = sizing.initialPoolSize if elastic else sizing.defaultPoolSize
    nodes = pool.spec.default_count(names.TYPE_NODES)
    addresses_per_tenant = min(nodes, quota.maxNodeIPs or nodes)
    addresses_per_tenant += min(balancers, quota.maxLoadBalancerIPs or balancers)
    return free // addresses_per_tenant


def overall(evaluation: Evaluation) -> ConditionFinding:
    """Return the Ready condition: everything that was evaluated holds.

    A refused namespace comes first, because no correction of the ProviderConfig ends it.
    """
    findings = (evaluation.credentials, *evaluation.findings)
    for finding in sorted(findings, key=lambda f: f.reason != NAMESPACE_NOT_ALLOWED):
        if not finding.status:
            return ConditionFinding(READY, False, reason=finding.reason, message=finding.message)
    return ConditionFinding(READY, True, reason="Ready", message="the provider can be used")
