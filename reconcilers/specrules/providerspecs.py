"""Errors and warnings in the spec of a ProviderConfig.

Faults are a cloud without its settings, a team scope without its team, and IPAM without pools or
in a cloud. Sizes above the quota get a warning. The schema's CEL rules reject most faults too, for
clusters without webhooks.
"""

from collections.abc import Iterator, Mapping

from allocator.addresses import quote_value
from controller.errors import Cause
from reconcilers.api.fields import Opaque
from reconcilers.api.providerconfig import (
    CLOUDS,
    ELASTIC,
    HAS_POOLS,
    IPAM,
    LOCAL,
    NEEDS_CREDENTIALS,
    NEEDS_SETTINGS,
    NO_IPAM_IN_CLOUDS,
    TEAM_NAMED,
    LoadBalancerSizing,
    ProviderConfig,
    ProviderConfigSpec,
)
from reconcilers.specrules.verdict import Verdict, build_forbidden_cause, build_required_cause

IDENTIFIERS: Mapping[str, tuple[str, ...]] = {
    "azure": ("subscriptionID", "resourceGroup"),
    "aws": ("region",),
    "gcp": ("projectID", "region"),
}
"""What each cloud's settings have to name."""


def review_provider(new: ProviderConfig) -> Verdict:
    """Return the verdict on the spec of a ProviderConfig that is new or was edited."""
    spec = new.spec
    causes = [
        *_find_credential_faults(spec),
        *_find_settings_faults(spec),
        *_find_scope_faults(spec),
        *_find_network_faults(spec),
    ]
    return Verdict.from_causes(causes, _list_quota_warnings(spec))


def _find_credential_faults(spec: ProviderConfigSpec) -> Iterator[Cause]:
    """Yield a cause if a provider other than `local` names no Secret with credentials."""
    reference = spec.credentialsRef
    if spec.provider != LOCAL and (reference is None or not reference.name):
        yield build_required_cause(("spec", "credentialsRef"), NEEDS_CREDENTIALS.message)


def _find_settings_faults(spec: ProviderConfigSpec) -> Iterator[Cause]:
    """Yield a cause for each setting of IDENTIFIERS that is missing in a cloud's section.

    If the whole section is missing, yield only the cause that says so.
    """
    if spec.provider not in CLOUDS:
        return  # all settings of the other providers have defaults
    settings: Opaque | None = getattr(spec, spec.provider)
    if settings is None:
        yield build_required_cause(("spec", spec.provider), NEEDS_SETTINGS[spec.provider].message)
        return  # one cause is enough: the section is missing, with all its settings
    for name in IDENTIFIERS[spec.provider]:
        if not settings.get(name):
            message = f"required when provider is {quote_value(spec.provider)}"
            yield build_required_cause(("spec", spec.provider, name), message)


def _find_scope_faults(spec: ProviderConfigSpec) -> Iterator[Cause]:
    """Yield a cause if the scope is a team and names no team."""
    scope = spec.scope
    if scope is not None and scope.type == "team" and scope.teamRef is None:
        yield build_required_cause(("spec", "scope", "teamRef"), TEAM_NAMED.message)


def _find_network_faults(spec: ProviderConfigSpec) -> Iterator[Cause]:
    """Yield a cause for IPAM mode in a cloud, and a cause for IPAM mode without pools."""
    network = spec.networking
    if network.mode != IPAM:
        return
    if spec.provider in CLOUDS:
        yield build_forbidden_cause(("spec", "network", "mode"), NO_IPAM_IN_CLOUDS.message)
    if not network.poolRefs:
        yield build_required_cause(("spec", "network", "poolRefs"), HAS_POOLS.message)


def find_initial_size(sizing: LoadBalancerSizing) -> tuple[str, int]:
    """Return the field with the initial number of load-balancer addresses, and its value."""
    if sizing.allocationMode == ELASTIC:
        return "initialPoolSize", sizing.initialPoolSize
    return "defaultPoolSize", sizing.defaultPoolSize


def _list_quota_warnings(spec: ProviderConfigSpec) -> Iterator[str]:
    """Yield warnings about sizes above the quota: the initial size, and the first growth.

    These sizes are allowed. A tenant whose initial size is above the quota gets the quota. A
    tenant whose first growth would exceed the quota does not grow.
    """
    network = spec.networking
    quota = network.quota.maxLoadBalancerIPs
    if network.mode != IPAM or quota is None:
        return  # without IPAM no size counts, and without a quota every size is allowed
    name, size = find_initial_size(network.sizing)
    where = f"spec.network.loadBalancer.{name}"
    if size > quota:
        default = "the default of " if size == getattr(LoadBalancerSizing(), name) else ""
        yield f"{where}: {default}{size} is above the quota; tenants get {quota}"
    increment = network.sizing.growthIncrement
    if network.sizing.allocationMode == ELASTIC and min(size, quota) + increment > quota:
        yield (
            "spec.network.loadBalancer.growthIncrement: tenants never grow:"
            f" {min(size, quota)} + {increment} is above the quota of {quota}"
        )
