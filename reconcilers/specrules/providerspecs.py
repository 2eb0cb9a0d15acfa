"""What is wrong or doubtful in the spec of a ProviderConfig.

A cloud without its settings; a team scope without its team; IPAM without pools, or in a cloud;
sizes above the quota. The schema's CEL rules refuse most of it too, for clusters without webhooks.
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
from reconcilers.specrules.verdict import Verdict, build_required_cause, forbidden

IDENTIFIERS: Mapping[str, tuple[str, ...]] = {
    "azure": ("subscriptionID", "resourceGroup"),
    "aws": ("region",),
    "gcp": ("projectID", "region"),
}
"""What each cloud's settings have to name."""


def review_provider(new: ProviderConfig) -> Verdict:
    """Validate a spec that is new or was edited."""
    spec = new.spec
    causes = [*_credentials(spec), *_settings(spec), *_scope(spec), *_network(spec)]
    return Verdict.from_causes(causes, _quota_warnings(spec))


def _credentials(spec: ProviderConfigSpec) -> Iterator[Cause]:
    reference = spec.credentialsRef
    if spec.provider != LOCAL and (reference is None or not reference.name):
        yield build_required_cause(("spec", "credentialsRef"), NEEDS_CREDENTIALS.message)


def _settings(spec: ProviderConfigSpec) -> Iterator[Cause]:
    """Ask for the settings of a cloud; the others have defaults for what they need."""
    if spec.provider not in CLOUDS:
        return
    settings: Opaque | None = getattr(spec, spec.provider)
    if settings is None:
        yield build_required_cause(("spec", spec.provider), NEEDS_SETTINGS[spec.provider].message)
        return
    for name in IDENTIFIERS[spec.provider]:
        if not settings.get(name):
            message = f"required when provider is {quote_value(spec.provider)}"
            yield build_required_cause(("spec", spec.provider, name), message)


def _scope(spec: ProviderConfigSpec) -> Iterator[Cause]:
    scope = spec.scope
    if scope is not None and scope.type == "team" and scope.teamRef is None:
        yield build_required_cause(("spec", "scope", "teamRef"), TEAM_NAMED.message)


def _network(spec: ProviderConfigSpec) -> Iterator[Cause]:
    network = spec.networking
    if network.mode != IPAM:
        return
    if spec.provider in CLOUDS:
        yield forbidden(("spec", "network", "mode"), NO_IPAM_IN_CLOUDS.message)
    if not network.poolRefs:
        yield build_required_cause(("spec", "network", "poolRefs"), HAS_POOLS.message)


def find_initial_size(sizing: LoadBalancerSizing) -> tuple[str, int]:
    """Return the field with the initial number of load-balancer addresses, and its value."""
    if sizing.allocationMode == ELASTIC:
        return "initialPoolSize", sizing.initialPoolSize
    return "defaultPoolSize", sizing.defaultPoolSize


def _quota_warnings(spec: ProviderConfigSpec) -> Iterator[str]:
    """Warn of sizes that the quota cuts: no fault, as tenants get the quota."""
    network = spec.networking
    quota = network.quota.maxLoadBalancerIPs
    if network.mode != IPAM or quota is None:
        return
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
