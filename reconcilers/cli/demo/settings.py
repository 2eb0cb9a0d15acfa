"""How long things take in the demo: thresholds are scaled down.

Two replicas run. The second leads after the first was cut off. It has two options that are off by
default: the bundle that installs MetalLB, and `growth_when_exhausted`, by which a tenant without a
free address grows sooner. Its `growth_after` is that of production, so that the story can compare.
"""

from dataclasses import replace

from controller.options import ManagerOptions
from reconcilers.api.names import DEFAULT_NAMESPACE
from reconcilers.configuration.settings import (
    AllocationSettings,
    OrphanSettings,
    Settings,
    TenantSettings,
)

BUNDLE = "metallb-bundle"
"""The ConfigMap with the manifests of MetalLB."""

_TENANT = TenantSettings(
    requeue_not_ready=1.0,
    requeue_deleting=0.25,
    shrink_after=5.0,
    request_timeout=2.0,
    metallb_wait=1.0,
)
_SETTINGS = Settings(
    allocation=AllocationSettings(requeue_releasing=0.25),
    tenant=replace(_TENANT, growth_after=2.0),
    orphans=OrphanSettings(resync=1.0),
)
_SECOND = replace(_TENANT, growth_when_exhausted=2.0, metallb_bundle=BUNDLE)
REPLICAS = {"replica-1": _SETTINGS, "replica-2": replace(_SETTINGS, tenant=_SECOND)}
# Servers, controllers and watches share this machine. If it is busy, a lease is not renewed for
# some seconds. A shorter lease would expire then, although the story did not cut its replica off.
ELECTION = ManagerOptions(
    leader_elect=True,
    lease_namespace=DEFAULT_NAMESPACE,
    lease_name="butler-ipam",
    lease_duration=10.0,
    renew_deadline=9.0,
    retry_period=1.0,
)


def describe_scaled_times() -> list[str]:
    """Return a line for each time that the demo shortens: its time, and the default."""
    demo_settings, default_settings = _SETTINGS.tenant, TenantSettings()
    lines = [
        f"{getattr(demo_settings, name):g} s, not {getattr(default_settings, name):g} s, {period}"
        for period, name in (
            ("until a Service without an address makes its tenant grow", "growth_after"),
            ("until a range without a user is given back", "shrink_after"),
            ("between two looks at a cluster that is not Ready", "requeue_not_ready"),
            ("that a request to a tenant may take", "request_timeout"),
            ("that a MetalLB without a sign of it gets to read its pools", "metallb_wait"),
        )
    ]
    resync, lease = OrphanSettings().resync, ManagerOptions().lease_duration
    takeover = "until another replica takes the lease of one that is gone"
    return [
        *lines,
        f"{_SETTINGS.orphans.resync:g} s, not {resync:g} s, between two looks for orphans",
        f"{ELECTION.lease_duration:g} s, not {lease:g} s, {takeover}",
    ]
