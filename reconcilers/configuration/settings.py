"""Every interval and threshold, with the reference's defaults, in one frozen place.

Seconds unless a name says otherwise. The command line offers each as a flag, so that tests and
demonstrations can shorten what takes minutes in production.
"""

import re
from dataclasses import dataclass

from controller.errors import ConfigurationError
from reconcilers.api.names import DEFAULT_NAMESPACE

CLUSTER_API = "clusterapi"
KUBERMATIC = "kubermatic"
VITISTACK = "vitistack"
INTEGRATIONS = (CLUSTER_API, KUBERMATIC, VITISTACK)
"""The platforms whose kinds can be served."""


@dataclass(frozen=True, slots=True)
class PoolSettings:
    """Intervals and thresholds of NetworkPools."""

    resync: float = 60.0
    """Between two passes over a pool at rest."""
    requeue_after_work: float = 5.0
    """Until the next pass after ranges were handed out."""
    requeue_deleting: float = 10.0
    """Between two passes over a deleted pool that waits for its allocations to go."""
    quiet_period: float = 60.0
    """How long nothing was assigned before settled assignments are dropped by an own write."""
    foreign_patience: float = 2.0
    """How long an assignment that another replica made stays unchanged before we complete it."""
    cache_patience: float = 1.0
    """How long to wait for the cache to reach the revision in the journal before listing."""
    foreign_silence: float = 120.0
    """How long another controller must not have written our statuses before ranges go out."""
    contents_check: float = 600.0
    """Between two checks of what is kept of a pool's allocations against the allocations."""
    event_interval: float = 600.0
    """Between two events about one pool entering, or leaving, one tier of utilization."""
    max_addresses: int = 1_048_576
    """The largest pool of IPv4, in addresses; a pool of IPv6 is of any size."""
    gather: float = 0.1
    """How long releases, and ranges known to be written, wait to be counted by one pass."""
    batch: int = 256
    """Ranges handed out with one write of a pool."""
    width: int = 32
    """Status writes of allocations in flight at once, of all pools together."""
    namespaces: tuple[str, ...] = ()
    """The namespaces, separated by commas, that may hold NetworkPools and ProviderConfigs; what
    lies elsewhere hands out nothing. Repeated flags add up; empty for all."""


@dataclass(frozen=True, slots=True)
class AllocationSettings:
    """Intervals of IPAllocations."""

    requeue_stale: float = 0.7
    """After a write from an outdated cache; the event that updates the cache comes first."""
    requeue_pending: float = 15.0
    """Backstop while the pool is missing, unreadable or being deleted."""
    requeue_idle: float = 300.0
    """Backstop for allocations that hold a range, or wait for the pass over their pool."""
    requeue_releasing: float = 5.0
    """Between two checks whether the tenant has released the range of a deleted one."""


@dataclass(frozen=True, slots=True)
class TenantSettings:
    """Intervals, thresholds and options of TenantClusters."""

    requeue_waiting: float = 10.0
    """While addresses are waited for."""
    requeue_not_ready: float = 30.0
    """While the cluster is not Ready."""
    requeue_young: float = 60.0
    """Ready for less than an hour."""
    requeue_grown: float = 300.0
    """Ready for less than a day."""
    requeue_old: float = 900.0
    """Ready for longer."""
    requeue_deleting: float = 5.0
    """While a deleted cluster gives its addresses back."""
    teardown_grace: float = 600.0
    """How long a deleted cluster's tenant may hold on before its addresses count as free."""
    growth_after: float = 30.0
    """How long a Service goes without an address before its elastic tenant grows."""
    growth_when_exhausted: float = 0.0
    """The same where every address of the tenant's pool is in use; 0 to wait as long as ever."""
    growth_in_flight: int = 8
    """The most growth allocations of one tenant that wait for a range, or for a first user."""
    shrink_after: float = 600.0
    """How long a growth allocation is out of use, and how old it is, before it is given back."""
    service_watches: int = 200
    """The most tenants whose Services are watched at once, and as many whose pools are; the others
    are read in each pass."""
    load_balancer_class: str = ""
    """The spec.loadBalancerClass of Services that MetalLB in tenants serves; empty for none."""
    platform_service: str = "traefik/traefik"
    """The Service of the platform's ingress in elastic tenants, which is labelled as such."""
    request_timeout: float = 15.0
    """The most that one request to a tenant may take: longer than the 10 s that an API server
    waits for a webhook, so that one whose node is down is not taken for silence of the tenant."""
    answer_limit: int = 32 * 1024 * 1024
    """The most bytes that a tenant's answer may have, or a list in pages, or the events of a watch
    before everything is listed again; `controller.watch` says what an object and a page count."""
    metallb_namespace: str = "metallb-system"
    """Where MetalLB lives in tenants."""
    metallb_wait: float = 10.0
    """How long a range is out of the pool of a MetalLB before 0.15, which cannot show that it has
    read it, before the range is free."""
    metallb_bundle: str = ""
    """The ConfigMap, `name` or `namespace/name`, with manifests that install MetalLB; or none."""
    metallb_recheck: float = 3600.0
    """Between two checks whether what was installed is still there."""
    backfill_nodes: bool = False
    """Whether a cluster that was Ready without a nodes allocation gets one."""
    allow_proxy: bool = False
    """Whether a tenant's kubeconfig may name a proxy."""
    allow_insecure: bool = False
    """Whether a tenant's kubeconfig may switch off the check of its certificate."""


@dataclass(frozen=True, slots=True)
class ProviderSettings:
    """Intervals of ProviderConfigs."""

    resync: float = 300.0
    """Between two passes."""
    requeue_invalid: float = 30.0
    """Between two passes while credentials are missing or incomplete."""
    requeue_deleting: float = 10.0
    """While a deleted one is still referenced."""


@dataclass(frozen=True, slots=True)
class OrphanSettings:
    """Intervals and limits of the collection of orphans."""

    resync: float = 60.0
    """Between two sweeps."""
    most: int = 10
    """More owners gone from a pool in a minute stop collection, if above the share too."""
    percent: int = 10
    """The share of a pool's owners, in percent, whose orphans may be collected in a minute; with 0
    their number alone counts."""
    batch: int = 256
    """Allocations on which one sweep notes the owner, or repairs labels."""


@dataclass(frozen=True, slots=True)
class KubermaticSettings:
    """Which clusters the integration with KKP serves."""

    worker_name: str = ""
    """The label `worker-name` of the Clusters that are served, as KKP's own flag; empty for those
    without."""
    observe: bool = False
    """Whether KKP allocates by itself: nothing of KKP is written, and NetworkPools keep clear of
    the addresses of its IPAMAllocations."""


@dataclass(frozen=True, slots=True)
class VitistackSettings:
    """Whose networks the integration with vitistack serves."""

    provider: str = "butler-ipam"
    """The `ipAllocation.provider` of NetworkNamespaces that are served, in letters of any case."""
    unnamed: bool = True
    """Whether those that name no provider are served; no where static-ip-operator runs, too."""


@dataclass(frozen=True, slots=True)
class Settings:
    """All of them, and where the defaults live."""

    namespace: str = DEFAULT_NAMESPACE
    """What references without a namespace mean, and where the lease is."""
    concurrency: int = 10
    """Keys of one kind that are worked on at once."""
    integration: tuple[str, ...] = ()
    """Platform whose kinds are served, too, once they are installed; may be repeated."""
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


def checked(settings: Settings) -> Settings:
    """Return the settings if the names in them can be names of objects.

    Raises:
        ConfigurationError: one cannot: it would be looked for, and not found, for ever.
    """
    tenant = settings.tenant
    for what, text, form in (
        *(("pool namespaces", namespace, "NAME") for namespace in settings.pool.namespaces),
        ("namespace", settings.namespace, "NAME"),
        ("metallb namespace", tenant.metallb_namespace, "NAME"),
        ("platform service", tenant.platform_service, "NAMESPACE/NAME, or empty"),
        ("metallb bundle", tenant.metallb_bundle, "NAME or NAMESPACE/NAME, or empty"),
    ):
        if not re.fullmatch(_FORMS[form], text):
            raise ConfigurationError(
                f"{what}: {text!r} is not as objects are named: write {form}, in small letters,"
                " digits, '-' and '.'"
            )
    return settings
