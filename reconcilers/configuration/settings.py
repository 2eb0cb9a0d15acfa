"""The settings of the controllers: intervals, thresholds and options, with their defaults.

Times are in seconds. Each setting is a flag of `butler-ipam run`, and the text under it is the
help of the flag. Tests and demonstrations shorten times that take minutes in production.
"""

import re
from dataclasses import dataclass

from controller.errors import ConfigurationError
from reconcilers.api.names import DEFAULT_NAMESPACE


@dataclass(frozen=True, slots=True)
class PoolSettings:
    """Intervals and thresholds of NetworkPools."""

    resync: float = 60.0
    """Reconcile a pool again after this time if nothing changes."""
    requeue_after_work: float = 5.0
    """Reconcile a pool again this long after it handed out ranges."""
    requeue_deleting: float = 10.0
    """Check this often whether the allocations of a deleted pool are gone."""
    quiet_period: float = 60.0
    """Remove completed assignments from the status of a pool that has assigned nothing for this
    time. An assignment is a range that the pool has promised to an allocation or a claim."""
    foreign_patience: float = 2.0
    """Complete an assignment of another replica, by a write to the allocation that it names, if it
    stays unchanged for this time."""
    cache_patience: float = 1.0
    """Wait this long for the cache to catch up with a pool's status. After that, list the
    allocations from the API server."""
    foreign_silence: float = 120.0
    """Hand out ranges only if no other controller has written the statuses of the pool's
    allocations for this time."""
    contents_check: float = 600.0
    """Compare what the controller remembers of a pool with its allocations this often."""
    event_interval: float = 600.0
    """Report at most once in this time that a pool enters, or leaves, the same tier of
    utilization: 70, 85 or 95 %."""
    max_addresses: int = 1_048_576
    """Hand out nothing from IPv4 pools with more addresses than this. IPv6 pools may have any
    size."""
    gather: float = 0.1
    """Collect releases and completed writes for this time, so that a pool is reconciled once for
    them."""
    batch: int = 256
    """Hand out at most this many ranges with one write of a pool."""
    width: int = 32
    """Write the statuses of at most this many allocations at the same time, over all pools."""
    namespaces: tuple[str, ...] = ()
    """Serve NetworkPools and ProviderConfigs only in these namespaces, separated by commas; pools
    elsewhere hand out nothing. Repeated flags add up; an empty list means all namespaces."""


@dataclass(frozen=True, slots=True)
class AllocationSettings:
    """Intervals of IPAllocations."""

    requeue_stale: float = 0.7
    """Retry an allocation after this time if its write was rejected because the cache was stale.
    Usually the event that updates the cache comes first."""
    requeue_pending: float = 15.0
    """Check an allocation again after this time while its pool is missing, unreadable or being
    deleted."""
    requeue_idle: float = 300.0
    """Check an allocation again after this time while it holds a range, or waits for its pool."""
    requeue_releasing: float = 5.0
    """Check this often whether the tenant has released the range of a deleted allocation."""


@dataclass(frozen=True, slots=True)
class TenantSettings:
    """Intervals, thresholds and options of TenantClusters."""

    requeue_waiting: float = 10.0
    """Reconcile a TenantCluster again after this time while it waits for addresses."""
    requeue_not_ready: float = 30.0
    """Reconcile a TenantCluster again after this time while it is not Ready."""
    requeue_young: float = 60.0
    """Reconcile a TenantCluster this often while it has been Ready for less than an hour."""
    requeue_grown: float = 300.0
    """Reconcile a TenantCluster this often while it has been Ready for less than a day."""
    requeue_old: float = 900.0
    """Reconcile a TenantCluster this often once it has been Ready for a day."""
    requeue_deleting: float = 5.0
    """Reconcile a deleted TenantCluster this often until its addresses are released."""
    teardown_grace: float = 600.0
    """Wait this long for the tenant of a deleted cluster to release its addresses. After that,
    they count as free."""
    growth_after: float = 30.0
    """Request another range (a growth allocation) for an elastic tenant when one of its Services
    has had no address for this time."""
    growth_when_exhausted: float = 0.0
    """Grow an elastic tenant after this time if Services use every address that it holds; 0 means
    that --growth-after always applies."""
    growth_in_flight: int = 8
    """Let at most this many growth allocations of one tenant wait for a range, or for the first
    Service that uses it."""
    shrink_after: float = 600.0
    """Release a growth allocation that is at least this old and has been unused for this time."""
    service_watches: int = 200
    """Watch the Services of at most this many tenants, and the load balancer's pools of as many.
    Other tenants are read each time they are reconciled."""
    load_balancer_class: str = ""
    """Expect MetalLB in tenants to serve the Services with this spec.loadBalancerClass; empty
    means those without a class."""
    platform_service: str = "traefik/traefik"
    """Label this Service, NAMESPACE/NAME, as the platform's ingress in elastic tenants; empty
    labels none."""
    request_timeout: float = 15.0
    """Give up a request to a tenant after this time. Keep it above the 10 s for which an API
    server waits for a webhook: else a slow webhook looks like a silent tenant."""
    answer_limit: int = 32 * 1024 * 1024
    """Reject answers of a tenant with more bytes than this: one object, a list in pages, or the
    events of a watch since the last list."""
    metallb_namespace: str = "metallb-system"
    """Look for MetalLB in this namespace of tenants."""
    metallb_wait: float = 10.0
    """Wait this long after a range has left the pool of a MetalLB before 0.15, which cannot
    confirm it; then the range is free."""
    cilium_wait: float = 10.0
    """Wait this long after a range has left the pools of a Cilium whose operator confirms nothing,
    because LB-IPAM is off or not installed any more. Wait this long also after another operator
    took the Lease. Then the range is free."""
    metallb_bundle: str = ""
    """Install MetalLB in tenants with the manifests in this ConfigMap, NAME or NAMESPACE/NAME;
    empty installs nothing."""
    metallb_recheck: float = 3600.0
    """Check this often whether the objects of an installed MetalLB are still there."""
    backfill_nodes: bool = False
    """Request node addresses for clusters that were Ready without them."""
    allow_proxy: bool = False
    """Accept tenants' kubeconfigs that name a proxy."""
    allow_insecure: bool = False
    """Accept tenants' kubeconfigs that switch off the check of the server's certificate."""


@dataclass(frozen=True, slots=True)
class ProviderSettings:
    """Intervals of ProviderConfigs."""

    resync: float = 300.0
    """Reconcile a ProviderConfig again after this time if nothing changes."""
    requeue_invalid: float = 30.0
    """Check a ProviderConfig this often while its credentials are missing or incomplete."""
    requeue_deleting: float = 10.0
    """Check this often whether objects still refer to a deleted ProviderConfig."""


@dataclass(frozen=True, slots=True)
class OrphanSettings:
    """Intervals and limits of the collection of orphans."""

    resync: float = 60.0
    """Look this often for orphans: allocations whose owner is gone."""
    most: int = 10
    """Stop deleting orphans of a pool if more than this many owners are gone within a minute,
    and more than --orphans-percent allows."""
    percent: int = 10
    """Stop deleting orphans of a pool only if more than this percentage of its owners is gone
    within a minute; with 0, --orphans-most alone counts."""
    batch: int = 256
    """Record the owner, or repair labels, on at most this many allocations in one search for
    orphans."""


@dataclass(frozen=True, slots=True)
class KubermaticSettings:
    """Which clusters the integration with KKP serves."""

    worker_name: str = ""
    """Serve KKP Clusters whose label `worker-name` has this value, as KKP's own flag does; empty
    means Clusters without the label."""
    observe: bool = False
    """Leave the allocation to KKP: write none of its objects, and keep NetworkPools clear of the
    addresses of its IPAMAllocations."""


@dataclass(frozen=True, slots=True)
class VitistackSettings:
    """Whose networks the integration with vitistack serves."""

    provider: str = "butler-ipam"
    """Serve NetworkNamespaces whose ipAllocation.provider is this name, in letters of any case."""
    unnamed: bool = True
    """Serve NetworkNamespaces that name no provider, too; set it to false where static-ip-operator
    runs."""


@dataclass(frozen=True, slots=True)
class Settings:
    """All settings of the controllers, by section, with their defaults."""

    namespace: str = DEFAULT_NAMESPACE
    """Keep the lease in this namespace, and look there for objects whose references name no
    namespace."""
    concurrency: int = 10
    """Reconcile at most this many objects of one kind at the same time."""
    integration: tuple[str, ...] = ()
    """Serve the kinds of this platform, too, once they are installed; none if absent. May be
    repeated."""
    pool: PoolSettings = PoolSettings()
    allocation: AllocationSettings = AllocationSettings()
    tenant: TenantSettings = TenantSettings()
    provider: ProviderSettings = ProviderSettings()
    orphans: OrphanSettings = OrphanSettings()
    kubermatic: KubermaticSettings = KubermaticSettings()
    vitistack: VitistackSettings = VitistackSettings()


_NAME = "[a-z0-9]([-.a-z0-9]{0,251}[a-z0-9])?"
_FORMS = {
    "NAME": _NAME,
    "NAMESPACE/NAME, or empty": f"({_NAME}/{_NAME})?",
    "NAME or NAMESPACE/NAME, or empty": f"(({_NAME}/)?{_NAME})?",
}


def check_names(settings: Settings) -> Settings:
    """Return the settings if every name in them is a valid name of an object.

    Raises:
        ConfigurationError: a name is invalid: no object of that name can exist.
    """
    tenant = settings.tenant
    for setting, name, form in (
        *(("pool namespaces", namespace, "NAME") for namespace in settings.pool.namespaces),
        ("namespace", settings.namespace, "NAME"),
        ("metallb namespace", tenant.metallb_namespace, "NAME"),
        ("platform service", tenant.platform_service, "NAMESPACE/NAME, or empty"),
        ("metallb bundle", tenant.metallb_bundle, "NAME or NAMESPACE/NAME, or empty"),
    ):
        if not re.fullmatch(_FORMS[form], name):
            raise ConfigurationError(
                f"{setting}: {name!r} is not the name of an object: write {form}, in lower-case"
                f" letters,"
                " digits, '-' and '.'"
            )
    return settings
