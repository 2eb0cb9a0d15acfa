"""ProviderConfig: where clusters are built, and which pools their addresses come from."""

from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Annotated, Any, Literal

from controller.markers import FieldSchema, Rule, rules, with_config
from controller.meta import ObjectMeta
from reconcilers.api.fields import (
    FORBIDDEN,
    MODEL,
    REQUIRED,
    BigNumber,
    Conditions,
    Int32,
    NonEmpty,
    PositiveInt32,
    model,
    words,
)
from reconcilers.api.providerblocks import (
    Aws,
    Azure,
    Gcp,
    Harvester,
    Local,
    Nutanix,
    Proxmox,
)

FamilyName = Literal["IPv4", "IPv6"]

IPAM = "ipam"
CLOUD = "cloud"
STATIC = "static"
ELASTIC = "elastic"
LOCAL = "local"
CLOUDS = ("azure", "aws", "gcp")
"""Providers with load balancers of their own."""
PROVIDERS = ("harvester", "nutanix", "proxmox", *CLOUDS, LOCAL)
DEFAULT_POOL_SIZE = 8
DEFAULT_INITIAL_SIZE = 2


@with_config(MODEL)
@dataclass(frozen=True, slots=True)
class CredentialsReference:
    """The Secret with the provider's credentials."""

    name: NonEmpty
    """Name."""
    namespace: str | None = None
    """Namespace; the ProviderConfig's own if absent."""
    key: str | None = None
    """Which key of the Secret, where only one is needed."""


@with_config(MODEL)
@dataclass(frozen=True, slots=True)
class TeamReference:
    """A team."""

    name: NonEmpty
    """Name."""


TEAM_NAMED = Rule(
    "self.type != 'team' || has(self.teamRef)",
    'teamRef is required when scope type is "team"',
    ".teamRef",
    REQUIRED,
)


@with_config(model(TEAM_NAMED))
@dataclass(frozen=True, slots=True)
class Scope:
    """Who may use the provider."""

    type: Annotated[str, words("platform", "team")] = "platform"
    """All teams (platform), or one."""
    teamRef: TeamReference | None = None
    """The team."""


@with_config(MODEL)
@dataclass(frozen=True, slots=True)
class PoolPreference:
    """A NetworkPool in the ProviderConfig's namespace, and when to try it."""

    name: NonEmpty
    """Name of the pool."""
    priority: Int32 = 0
    """Lower is tried first; ties in list order."""


@with_config(MODEL)
@dataclass(frozen=True, slots=True)
class LoadBalancerSizing:
    """How many load-balancer addresses a tenant gets, and when."""

    defaultPoolSize: PositiveInt32 = DEFAULT_POOL_SIZE
    """Static mode: addresses for each tenant."""
    allocationMode: Annotated[str, words(STATIC, ELASTIC)] = STATIC
    """static: a fixed number; elastic: grows and shrinks with demand."""
    initialPoolSize: PositiveInt32 = DEFAULT_INITIAL_SIZE
    """Elastic mode: addresses to start with; none where the cluster's addons.ingress.enabled is
    false, until a Service there asks for one."""
    growthIncrement: PositiveInt32 = 2
    """Elastic mode: addresses added at a time."""


@with_config(MODEL)
@dataclass(frozen=True, slots=True)
class Quota:
    """The most that one tenant may hold."""

    maxNodeIPs: PositiveInt32 | None = None
    """Node addresses; no limit if absent."""
    maxLoadBalancerIPs: PositiveInt32 | None = None
    """Load-balancer addresses; no limit if absent."""


HAS_POOLS = Rule(
    f"self.mode != '{IPAM}' || (has(self.poolRefs) && size(self.poolRefs) > 0)",
    'at least one poolRef is required when network mode is "ipam"',
    ".poolRefs",
    REQUIRED,
)


@with_config(model(HAS_POOLS))
@dataclass(frozen=True, slots=True)
class ProviderNetwork:
    """How clusters of this provider get their addresses."""

    mode: Annotated[str, words(IPAM, CLOUD)] = CLOUD
    """ipam: from NetworkPools; cloud: the provider's own load balancers."""
    poolRefs: tuple[PoolPreference, ...] = ()
    """The pools, with priorities."""
    subnet: str | None = None
    """Name of the machines' network."""
    gateway: str | None = None
    """Its gateway."""
    dnsServers: tuple[str, ...] = ()
    """Its name servers."""
    timeServers: tuple[str, ...] = ()
    """Its time servers."""
    loadBalancer: LoadBalancerSizing | None = None
    """How many load-balancer addresses a tenant gets."""
    quotaPerTenant: Quota | None = None
    """The most that one tenant may hold."""

    @property
    def sizing(self) -> LoadBalancerSizing:
        """The load-balancer sizing, with defaults where the spec says nothing."""
        return self.loadBalancer or LoadBalancerSizing()

    @property
    def quota(self) -> Quota:
        """The quota; no limits where the spec says nothing."""
        return self.quotaPerTenant or Quota()

    def pools_in_order(self) -> tuple[str, ...]:
        """Return the names of the pools, first choice first, each once."""
        ranked = sorted(self.poolRefs, key=lambda pool: pool.priority)
        return tuple(dict.fromkeys(pool.name for pool in ranked))


@with_config(MODEL)
@dataclass(frozen=True, slots=True)
class Limits:
    """The most that one team may have."""

    maxClustersPerTeam: PositiveInt32 | None = None
    """Clusters."""
    maxNodesPerTeam: PositiveInt32 | None = None
    """Nodes."""


@with_config(MODEL)
@dataclass(frozen=True, slots=True)
class ProviderConfigSpec:
    """Where clusters are built."""

    provider: Annotated[str, words(*PROVIDERS)]
    """Which kind of infrastructure."""
    credentialsRef: CredentialsReference | None = None
    """The Secret with the credentials; not needed for local."""
    harvester: Harvester | None = None
    """Settings of Harvester."""
    nutanix: Nutanix | None = None
    """Settings of Nutanix."""
    proxmox: Proxmox | None = None
    """Settings of Proxmox."""
    azure: Azure | None = None
    """Settings of Azure."""
    aws: Aws | None = None
    """Settings of AWS."""
    gcp: Gcp | None = None
    """Settings of Google Cloud."""
    local: Local | None = None
    """Settings of local clusters."""
    scope: Scope | None = None
    """Who may use it."""
    network: ProviderNetwork | None = None
    """How its clusters get addresses."""
    limits: Limits | None = None
    """The most that one team may have."""

    @property
    def networking(self) -> ProviderNetwork:
        """The network settings; cloud mode where the spec says nothing."""
        return self.network or ProviderNetwork()


@with_config(MODEL)
@dataclass(frozen=True, slots=True)
class FamilyCapacity:
    """What the provider's pools still hold of one family."""

    family: FamilyName
    """IPv4 or IPv6."""
    availableIPs: Int32 = 0
    """Free addresses. At most 2147483647, see exactAvailableIPs."""
    exactAvailableIPs: BigNumber | None = None
    """Free addresses, as text; only if there are more than 2147483647."""
    estimatedTenants: Int32 = 0
    """How many more tenants of default size these suffice for."""


@with_config(MODEL)
@dataclass(frozen=True, slots=True)
class Capacity:
    """What the provider's pools still hold."""

    availableIPs: Int32 = 0
    """Free addresses of its pools' cidr. At most 2147483647; PoolAvailable's message has all."""
    estimatedTenants: Int32 = 0
    """How many more tenants of default size these suffice for."""
    families: Annotated[tuple[FamilyCapacity, ...], FieldSchema(max_length=2)] = ()
    """The same of each family, secondary blocks included; only if its pools have both families."""

    def to_patch(self, before: "Capacity | None") -> dict[str, Any]:
        """Return the capacity as a merge patch of the capacity before; None if there was none."""
        counts = {"availableIPs": self.availableIPs, "estimatedTenants": self.estimatedTenants}
        if not self.families and not (before and before.families):
            return counts
        families = [
            {name: value for name, value in asdict(family).items() if value is not None}
            for family in self.families
        ]
        return counts | {"families": families or None}


@with_config(MODEL)
@dataclass(frozen=True, slots=True)
class ProviderConfigStatus:
    """Whether the provider can be used."""

    conditions: Conditions = ()
    """CredentialsValid, PoolAvailable and others."""
    validated: bool | None = None
    """Whether the credentials are complete."""
    lastValidationTime: datetime | None = None
    """When they were found so."""
    providerVersion: str | None = None
    """Written by others."""
    ready: bool | None = None
    """Whether clusters can be built."""
    lastProbeTime: datetime | None = None
    """When the result of the last look changed."""
    capacity: Capacity | None = None
    """What its pools still hold."""


NEEDS_CREDENTIALS = Rule(
    f"self.provider == '{LOCAL}' || (has(self.credentialsRef) && self.credentialsRef.name != '')",
    "credentialsRef with a non-empty name is required for all providers except local",
)
NEEDS_SETTINGS = {
    cloud: Rule(
        f"self.provider != '{cloud}' || has(self.{cloud})",
        f'{cloud} settings are required when provider is "{cloud}"',
        f".{cloud}",
        REQUIRED,
    )
    for cloud in CLOUDS
}
NO_IPAM_IN_CLOUDS = Rule(
    f"!(self.provider in {list(CLOUDS)}) || !has(self.network) || self.network.mode != '{IPAM}'",
    "IPAM mode is not supported for cloud providers",
    ".network.mode",
    FORBIDDEN,
)
_SPEC = rules(NEEDS_CREDENTIALS, *NEEDS_SETTINGS.values(), NO_IPAM_IN_CLOUDS)


@with_config(MODEL)
@dataclass(frozen=True, slots=True)
class ProviderConfig:
    """Where clusters are built, and which pools their addresses come from."""

    metadata: ObjectMeta
    spec: Annotated[ProviderConfigSpec, FieldSchema(json_schema_extra=_SPEC)]
    """Where clusters are built."""
    status: ProviderConfigStatus = field(default_factory=ProviderConfigStatus)
    """Whether it can be used."""
