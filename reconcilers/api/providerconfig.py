"""ProviderConfig: where clusters are built, and which pools their addresses come from."""

from datetime import datetime
from typing import Annotated, Any, Literal

import msgspec
from msgspec.structs import asdict

from controller.markers import ApiType, FieldSchema, Rule, SchemaOf, rules, with_config
from controller.meta import ObjectMeta
from reconcilers.api.fields import (
    FORBIDDEN,
    MODEL,
    REQUIRED,
    BigNumber,
    Conditions,
    Int32,
    NonEmpty,
    Opaque,
    PositiveInt32,
    model,
    words,
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
BLOCKS = "reconcilers.api.providerblocks"
"""The module with the types of the settings of each kind of infrastructure."""
DEFAULT_POOL_SIZE = 8
DEFAULT_INITIAL_SIZE = 2


@with_config(MODEL)
class CredentialsReference(ApiType, frozen=True):
    """The Secret with the provider's credentials."""

    name: NonEmpty
    """Name of the Secret."""
    namespace: str | None = None
    """Namespace of the Secret. If it is absent, the namespace of the ProviderConfig counts."""
    key: str | None = None
    """The key of the Secret that has the credentials, for providers that need only one."""


@with_config(MODEL)
class TeamReference(ApiType, frozen=True):
    """A team."""

    name: NonEmpty
    """Name of the team."""


TEAM_NAMED = Rule(
    "self.type != 'team' || has(self.teamRef)",
    'teamRef is required when scope type is "team"',
    at=".teamRef",
    reason=REQUIRED,
)


@with_config(model(TEAM_NAMED))
class ProviderScope(ApiType, frozen=True):
    """Who may use the provider."""

    type: Annotated[str, words("platform", "team")] = "platform"
    """platform: all teams may use the provider. team: only teamRef may."""
    teamRef: TeamReference | None = None
    """The team that may use the provider. Required if type is team."""


@with_config(MODEL)
class PoolPreference(ApiType, frozen=True):
    """A NetworkPool in the ProviderConfig's namespace, and when to try it."""

    name: NonEmpty
    """Name of a NetworkPool in the namespace of the ProviderConfig."""
    priority: Int32 = 0
    """Pools with a lower number are tried first. Pools with the same number are tried in the order
    of the list."""


@with_config(MODEL)
class LoadBalancerSizing(ApiType, frozen=True):
    """How many load-balancer addresses a tenant gets, and when."""

    defaultPoolSize: PositiveInt32 = DEFAULT_POOL_SIZE
    """Number of load-balancer addresses of each tenant in static mode."""
    allocationMode: Annotated[str, words(STATIC, ELASTIC)] = STATIC
    """static: each tenant has a fixed number of addresses. elastic: the number grows if a Service
    has no address, and shrinks if a range is unused."""
    initialPoolSize: PositiveInt32 = DEFAULT_INITIAL_SIZE
    """Number of addresses that a tenant starts with in elastic mode. A tenant with
    addons.ingress.enabled false starts without addresses and gets them when a Service needs
    one."""
    growthIncrement: PositiveInt32 = 2
    """Number of addresses that a tenant grows by in elastic mode."""


@with_config(MODEL)
class Quota(ApiType, frozen=True):
    """The most that one tenant may hold."""

    maxNodeIPs: PositiveInt32 | None = None
    """The most node addresses of one tenant. Absent means no limit."""
    maxLoadBalancerIPs: PositiveInt32 | None = None
    """The most load-balancer addresses of one tenant. Absent means no limit."""


HAS_POOLS = Rule(
    f"self.mode != '{IPAM}' || (has(self.poolRefs) && size(self.poolRefs) > 0)",
    'at least one poolRef is required when network mode is "ipam"',
    at=".poolRefs",
    reason=REQUIRED,
)


@with_config(model(HAS_POOLS))
class ProviderNetwork(ApiType, frozen=True):
    """How clusters of this provider get their addresses."""

    mode: Annotated[str, words(IPAM, CLOUD)] = CLOUD
    """ipam: tenants get addresses of the NetworkPools in poolRefs. cloud: the provider has load
    balancers of its own, and butler-ipam allocates nothing."""
    poolRefs: tuple[PoolPreference, ...] = ()
    """The NetworkPools that tenants get addresses of. At least one is required in mode ipam."""
    subnet: str | None = None
    """Name of the network of the machines. Read by the controller that builds the cluster, not by
    butler-ipam."""
    gateway: str | None = None
    """Gateway of the network of the machines. Read by the controller that builds the cluster, not
    by butler-ipam."""
    dnsServers: tuple[str, ...] = ()
    """Addresses of the name servers of the machines. Read by the controller that builds the
    cluster, not by butler-ipam."""
    timeServers: tuple[str, ...] = ()
    """Addresses of the NTP servers of the machines. Read by the controller that builds the
    cluster, not by butler-ipam."""
    loadBalancer: LoadBalancerSizing | None = None
    """How many load-balancer addresses a tenant gets. Absent means 8 in static mode."""
    quotaPerTenant: Quota | None = None
    """The most addresses that one tenant may have. A tenant that asks for more gets no more than
    its quota, and its TenantCluster reports that."""

    @property
    def sizing(self) -> LoadBalancerSizing:
        """The load-balancer sizing, with defaults where the spec says nothing."""
        return self.loadBalancer or LoadBalancerSizing()

    @property
    def quota(self) -> Quota:
        """The quota; no limits where the spec says nothing."""
        return self.quotaPerTenant or Quota()

    def list_pools_in_order(self) -> tuple[str, ...]:
        """Return the names of the pools, first choice first, each once."""
        ranked = sorted(self.poolRefs, key=lambda pool: pool.priority)
        return tuple(dict.fromkeys(pool.name for pool in ranked))


@with_config(MODEL)
class TeamLimits(ApiType, frozen=True):
    """The most that one team may have."""

    maxClustersPerTeam: PositiveInt32 | None = None
    """The most clusters of one team; absent means no limit. Read by the controller that builds the
    cluster, not by butler-ipam."""
    maxNodesPerTeam: PositiveInt32 | None = None
    """The most nodes of one team; absent means no limit. Read by the controller that builds the
    cluster, not by butler-ipam."""


@with_config(MODEL)
class ProviderConfigSpec(ApiType, frozen=True):
    """Where clusters are built."""

    provider: Annotated[str, words(*PROVIDERS)]
    """The kind of infrastructure: harvester, nutanix, proxmox, azure, aws, gcp or local. The block
    of settings with the same name belongs to it."""
    credentialsRef: CredentialsReference | None = None
    """The Secret with the credentials of the provider. Required unless provider is local. If the
    Secret or a key is missing, the condition CredentialsValid says so."""
    harvester: Annotated[Opaque, SchemaOf(BLOCKS, "Harvester")] | None = None
    """Settings of Harvester."""
    nutanix: Annotated[Opaque, SchemaOf(BLOCKS, "Nutanix")] | None = None
    """Settings of Nutanix."""
    proxmox: Annotated[Opaque, SchemaOf(BLOCKS, "Proxmox")] | None = None
    """Settings of Proxmox."""
    azure: Annotated[Opaque, SchemaOf(BLOCKS, "Azure")] | None = None
    """Settings of Azure. Required if provider is azure."""
    aws: Annotated[Opaque, SchemaOf(BLOCKS, "Aws")] | None = None
    """Settings of AWS. Required if provider is aws."""
    gcp: Annotated[Opaque, SchemaOf(BLOCKS, "Gcp")] | None = None
    """Settings of Google Cloud. Required if provider is gcp."""
    local: Annotated[Opaque, SchemaOf(BLOCKS, "Local")] | None = None
    """Settings of local clusters."""
    scope: ProviderScope | None = None
    """Which teams may use the provider. Absent means all."""
    network: ProviderNetwork | None = None
    """How tenants get addresses. Absent means mode cloud."""
    limits: TeamLimits | None = None
    """The most clusters and nodes that one team may have."""

    @property
    def networking(self) -> ProviderNetwork:
        """The network settings; cloud mode where the spec says nothing."""
        return self.network or ProviderNetwork()


@with_config(MODEL)
class FamilyCapacity(ApiType, frozen=True):
    """What the provider's pools still hold of one family."""

    family: FamilyName
    """IPv4 or IPv6."""
    availableIPs: Int32 = 0
    """Number of free addresses of this family. At most 2147483647; exactAvailableIPs has larger
    numbers."""
    exactAvailableIPs: BigNumber | None = None
    """Number of free addresses as text; only present if it is above 2147483647."""
    estimatedTenants: Int32 = 0
    """How many more tenants of default size the free addresses suffice for."""


@with_config(MODEL)
class ProviderCapacity(ApiType, frozen=True):
    """What the provider's pools still hold."""

    availableIPs: Int32 = 0
    """Number of free addresses of the pools' spec.cidr. At most 2147483647; the message of the
    condition PoolAvailable has larger numbers."""
    estimatedTenants: Int32 = 0
    """How many more tenants of default size the free addresses suffice for."""
    families: Annotated[tuple[FamilyCapacity, ...], FieldSchema(max_length=2)] = ()
    """The same counts for each address family, with the secondary blocks; only present if the
    pools have both families."""

    def to_patch(self, earlier: "ProviderCapacity | None") -> dict[str, Any]:
        """Return the merge patch that turns an earlier capacity into this one.

        `families` is null, which deletes the field, if only the earlier capacity has families.

        Args:
            earlier: the capacity in the status; None if there is none.
        """
        counts = {"availableIPs": self.availableIPs, "estimatedTenants": self.estimatedTenants}
        if not self.families and not (earlier and earlier.families):
            return counts  # there is no field to delete
        families = [
            {name: value for name, value in asdict(family).items() if value is not None}
            for family in self.families
        ]
        return counts | {"families": families or None}


@with_config(MODEL)
class ProviderConfigStatus(ApiType, frozen=True):
    """Whether the provider can be used."""

    conditions: Conditions = ()
    """CredentialsValid, PoolAvailable and others."""
    validated: bool | None = None
    """Whether the Secret with the credentials has everything that the provider needs."""
    lastValidationTime: datetime | None = None
    """When the credentials were last found complete."""
    providerVersion: str | None = None
    """Version of the provider. Written by another controller."""
    ready: bool | None = None
    """Whether the provider can be used; the same as validated."""
    lastProbeTime: datetime | None = None
    """When the result of the check last changed."""
    capacity: ProviderCapacity | None = None
    """Number of addresses that are free in the provider's pools."""


NEEDS_CREDENTIALS = Rule(
    f"self.provider == '{LOCAL}' || (has(self.credentialsRef) && self.credentialsRef.name != '')",
    "credentialsRef with a non-empty name is required for all providers except local",
)
NEEDS_SETTINGS = {
    cloud: Rule(
        f"self.provider != '{cloud}' || has(self.{cloud})",
        f'{cloud} settings are required when provider is "{cloud}"',
        at=f".{cloud}",
        reason=REQUIRED,
    )
    for cloud in CLOUDS
}
NO_IPAM_IN_CLOUDS = Rule(
    f"!(self.provider in {list(CLOUDS)}) || !has(self.network) || self.network.mode != '{IPAM}'",
    "IPAM mode is not supported for cloud providers",
    at=".network.mode",
    reason=FORBIDDEN,
)
_SPEC = rules(NEEDS_CREDENTIALS, *NEEDS_SETTINGS.values(), NO_IPAM_IN_CLOUDS)


@with_config(MODEL)
class ProviderConfig(ApiType, frozen=True):
    """Where clusters are built, and which pools their addresses come from."""

    metadata: ObjectMeta
    spec: Annotated[ProviderConfigSpec, FieldSchema(json_schema_extra=_SPEC)]
    """The infrastructure, and the NetworkPools of its tenants."""
    status: ProviderConfigStatus = msgspec.field(default_factory=ProviderConfigStatus)
    """Whether the provider can be used."""
