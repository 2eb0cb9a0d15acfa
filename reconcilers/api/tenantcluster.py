"""TenantCluster: a cluster that a team asks for. We give it addresses; others build it.

The schema accepts every field that Butler's does, so that objects written for Butler apply
unchanged; this project reads the network and load-balancer parts. What else Butler has in the
other parts, in a version that we do not know, is kept.
"""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Annotated, Any

from controller.conditions import is_true
from controller.markers import FieldSchema, Rule, with_config
from controller.meta import ObjectMeta
from reconcilers.api import names
from reconcilers.api.fields import (
    ADDRESS_MAX,
    FORBIDDEN,
    MODEL,
    OTHERS,
    Conditions,
    Int32,
    Int64,
    NonEmpty,
    PositiveInt32,
    in_order,
    model,
    one_family,
    words,
)
from reconcilers.api.ipallocation import (
    DISTINCT_FAMILIES,
    POLICY_OF_TWO_FAMILIES,
    IPFamilies,
    IPFamilyPolicy,
)
from reconcilers.api.tenantaddons import DEFAULT_LOAD_BALANCER, Addons
from reconcilers.api.tenantmachines import (
    ControlPlane,
    InfrastructureOverride,
    Workers,
    Workspaces,
)
from reconcilers.api.tenantnetwork import TenantNetwork

PENDING = "Pending"
PROVISIONING = "Provisioning"
INSTALLING = "Installing"
READY = "Ready"
UPDATING = "Updating"
DELETING = "Deleting"
FAILED = "Failed"

OBSERVE = "Observe"

NETWORK_READY = "NetworkReady"
"""The condition that says whether a cluster has the addresses that it asks for."""
LOAD_BALANCER_READY = "LoadBalancerReady"
"""The condition that says whether the load balancer in the tenant holds what it should."""
DEMAND_MET = "LoadBalancerDemandMet"
"""The condition that says whether no Service has waited long for an address."""
LOAD_BALANCER_SIZED = "LoadBalancerSized"
"""The condition that says whether a cluster has as many load-balancer addresses as it asks for."""
TENANT_IDENTIFIED = "TenantIdentified"
SINGLE_LOAD_BALANCER = "SingleLoadBalancer"
LOAD_BALANCER_ANNOUNCED = "LoadBalancerAnnounced"
"""The condition that is False while the identity of the tenant's cluster may not be read."""


@with_config(MODEL)
@dataclass(frozen=True, slots=True)
class LocalReference:
    """The name of an object in a namespace that is understood."""

    name: NonEmpty
    """Name."""


@with_config(MODEL)
@dataclass(frozen=True, slots=True)
class ProviderReference:
    """A ProviderConfig."""

    name: NonEmpty
    """Name."""
    namespace: str | None = None
    """Namespace; butler-system if absent."""


POOL_OF_ADDRESSES = Rule(
    "isIP(self.start) && isIP(self.end)",
    "start and end must be IP addresses, as in 10.40.0.16 or fd00::10",
)


@with_config(model(POOL_OF_ADDRESSES, one_family("start", "end"), in_order("start", "end")))
@dataclass(frozen=True, slots=True)
class LoadBalancerPool:
    """Addresses for load balancers given by hand."""

    start: Annotated[str, FieldSchema(max_length=ADDRESS_MAX)]
    """First address."""
    end: Annotated[str, FieldSchema(max_length=ADDRESS_MAX)]
    """Last address."""


@with_config(model(DISTINCT_FAMILIES, POLICY_OF_TWO_FAMILIES))
@dataclass(frozen=True, slots=True)
class Networking:
    """The tenant's networks."""

    podCIDR: str = "10.244.0.0/16"
    """Addresses of pods, within the tenant."""
    serviceCIDR: str = "10.96.0.0/12"
    """Addresses of Services, within the tenant."""
    loadBalancerPool: LoadBalancerPool | None = None
    """Load-balancer addresses given by hand; used without IPAM."""
    lbPoolSize: PositiveInt32 | None = None
    """How many load-balancer addresses to ask for, instead of the provider's default."""
    ipFamilyPolicy: IPFamilyPolicy | None = None
    """Of its allocations: SingleStack, PreferDualStack or RequireDualStack, as in a Service."""
    ipFamilies: IPFamilies = ()
    """Of its allocations: of which families they are, in order."""

    @property
    def families_text(self) -> str:
        """What it says of families, as words; empty if nothing."""
        return " ".join([*filter(None, [self.ipFamilyPolicy]), *self.ipFamilies])


@with_config(OTHERS)
@dataclass(frozen=True, slots=True)
class ManagementPolicy:
    """Who drives this cluster."""

    mode: Annotated[str, words("Active", OBSERVE, "GitOps")] = "Active"
    """Observe: another controller owns the phase; only addresses are managed here."""


@with_config(MODEL)
@dataclass(frozen=True, slots=True)
class TenantClusterSpec:
    """The cluster that is asked for."""

    kubernetesVersion: Annotated[str, FieldSchema(pattern=r"^v\d+\.\d+\.\d+$")]
    """For example v1.33.1."""
    workers: Workers
    """The worker nodes."""
    teamRef: LocalReference | None = None
    """The team that owns the cluster."""
    providerConfigRef: ProviderReference | None = None
    """Where it is built; the platform's default if absent."""
    controlPlane: ControlPlane | None = None
    """The control plane."""
    networking: Networking | None = None
    """The tenant's networks."""
    managementPolicy: ManagementPolicy | None = None
    """Who drives this cluster."""
    addons: Addons | None = None
    """What is installed in it."""
    timeServers: tuple[str, ...] = ()
    """NTP servers of its nodes."""
    infrastructureOverride: InfrastructureOverride | None = None
    """Provider settings of this cluster alone."""
    workspaces: Workspaces | None = None
    """Developer workspaces in it."""


@with_config(OTHERS)
@dataclass(frozen=True, slots=True)
class ObservedWorkers:
    """Worker nodes as seen."""

    desired: Int32 | None = None
    """How many are asked for."""
    ready: Int32 | None = None
    """How many are ready."""
    nodes: Annotated[
        tuple[Any, ...],
        FieldSchema(json_schema_extra={"items": {"type": "string"}}),
    ] = ()
    """Their names."""


@with_config(OTHERS)
@dataclass(frozen=True, slots=True)
class ObservedAddon:
    """An addon as seen."""

    name: str
    """Name."""
    version: str | None = None
    """Version."""
    status: (
        Annotated[str, words("Pending", "Installing", "Healthy", "Degraded", "Failed")] | None
    ) = None
    """How it is doing."""
    managedBy: Annotated[str, words("butler", "flux", "argocd", "manual")] | None = None
    """Who installs it."""


@with_config(OTHERS)
@dataclass(frozen=True, slots=True)
class ObservedState:
    """The cluster as seen."""

    kubernetesVersion: str | None = None
    """Version it runs."""
    workers: ObservedWorkers | None = None
    """Its nodes."""
    addons: tuple[ObservedAddon, ...] = ()
    """Its addons."""


@with_config(OTHERS)
@dataclass(frozen=True, slots=True)
class TenantClusterStatus:
    """How far the cluster has come."""

    conditions: Conditions = ()
    """NetworkReady, Ready and others."""
    phase: (
        Annotated[str, words(PENDING, PROVISIONING, INSTALLING, READY, UPDATING, DELETING, FAILED)]
        | None
    ) = None
    """Where it stands."""
    tenantNamespace: str | None = None
    """Namespace that holds the cluster's objects, the kubeconfig Secret among them."""
    controlPlaneEndpoint: str | None = None
    """Address of its API server."""
    kubeconfigSecretRef: LocalReference | None = None
    """The Secret with its kubeconfig."""
    observedGeneration: Int64 | None = None
    """The generation of spec that this status describes."""
    lastTransitionTime: datetime | None = None
    """When the phase changed last."""
    observedState: ObservedState | None = None
    """The cluster as seen."""
    workerNodesReady: Int32 | None = None
    """Ready worker nodes."""
    workerNodesDesired: Int32 | None = None
    """Worker nodes asked for."""
    ipAllocationRef: LocalReference | None = None
    """The IPAllocation with its node addresses."""
    lbAllocationRef: LocalReference | None = None
    """The IPAllocation with its first load-balancer addresses."""
    imageSyncRef: LocalReference | None = None
    """Written by others."""
    network: TenantNetwork | None = None
    """The cluster's addresses, quota, and what it waits for."""


_NEW, _OLD = "self.spec.providerConfigRef", "oldSelf.spec.providerConfigRef"
# Whether a reference that appears, goes, or loses its namespace still means the same one depends
# on the platform's defaults, so the webhook validates that. CEL reserves `namespace`, hence
# __namespace__; kube-apiserver's cost estimator finds no bound under the plain name.
KEEPS_PROVIDER = Rule(
    "!has(oldSelf.status)"
    " || !(has(oldSelf.status.lbAllocationRef) || has(oldSelf.status.ipAllocationRef))"
    f" || !has({_NEW}) || !has({_OLD}) || ({_NEW}.name == {_OLD}.name"
    f" && (!has({_NEW}.__namespace__) || !has({_OLD}.__namespace__)"
    f" || {_NEW}.__namespace__ == {_OLD}.__namespace__))",
    "providerConfigRef cannot be changed while the cluster has addresses of its pools",
    ".spec.providerConfigRef",
    FORBIDDEN,
)


@with_config(model(KEEPS_PROVIDER))
@dataclass(frozen=True, slots=True)
class TenantCluster:
    """A Kubernetes cluster for a team."""

    metadata: ObjectMeta
    spec: TenantClusterSpec
    """The cluster that is asked for."""
    status: TenantClusterStatus = field(default_factory=TenantClusterStatus)
    """How far it has come."""

    @property
    def networking(self) -> Networking:
        """The networks, with defaults where the spec says nothing."""
        return self.spec.networking or Networking()

    @property
    def load_balancer_provider(self) -> str:
        """Which load balancer serves its Services, as spec.addons.loadBalancer.provider says."""
        addon = self.spec.addons.loadBalancer if self.spec.addons is not None else None
        return addon.provider if addon is not None else DEFAULT_LOAD_BALANCER

    @property
    def observed_only(self) -> bool:
        """Whether another controller owns the phase."""
        policy = self.spec.managementPolicy
        return policy is not None and policy.mode == OBSERVE

    @property
    def is_ready(self) -> bool:
        """Whether the cluster has reached the phase Ready."""
        return self.status.phase == READY

    @property
    def projection_noted(self) -> bool:
        """Whether it is noted that something was projected into the tenant, or may have been."""
        return names.ANNOTATION_PROJECTION_BEGUN in self.metadata.annotations

    @property
    def projection_begun(self) -> bool:
        """Whether something was projected into the tenant, or may have been.

        The status says so, too: people replace annotations, as by `kubectl replace`.
        """
        return self.projection_noted or is_true(self.status.conditions, LOAD_BALANCER_READY)

    def reference(self) -> dict[str, str]:
        """Return the tenantClusterRef that its allocations carry."""
        return {"name": self.metadata.name, "namespace": self.metadata.namespace}
