"""TenantCluster: a cluster that a team asks for. We give it addresses; others build it.

The schema accepts every field that Butler's does, so that objects written for Butler apply
unchanged; this project reads the network and load-balancer parts. What else Butler has in the
other parts, in a version that we do not know, is kept.
"""

from datetime import datetime
from typing import Annotated

import msgspec

from controller.conditions import is_true
from controller.markers import ApiType, FieldSchema, Rule, SchemaOf, with_config
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
    Opaque,
    PositiveInt32,
    model,
    require_one_family,
    require_order,
    words,
)
from reconcilers.api.ipallocation import (
    DISTINCT_FAMILIES,
    POLICY_OF_TWO_FAMILIES,
    IPFamilies,
    IPFamilyPolicy,
)
from reconcilers.api.tenantaddons import (
    CILIUM,
    DEFAULT_LOAD_BALANCER,
    Addons,
    ServiceSelector,
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

MACHINES = "reconcilers.api.tenantmachines"
"""The module with the types of what describes machines."""

NETWORK_READY = "NetworkReady"
"""The condition that says whether a cluster has the addresses that it asks for."""
LOAD_BALANCER_READY = "LoadBalancerReady"
"""The condition that says whether the load balancer in the tenant holds what it should."""
DEMAND_MET = "LoadBalancerDemandMet"
"""The condition that says whether no Service has waited long for an address."""
LOAD_BALANCER_SIZED = "LoadBalancerSized"
"""The condition that says whether a cluster has as many load-balancer addresses as it asks for."""
TENANT_IDENTIFIED = "TenantIdentified"
"""The condition that is False while the identity of the tenant's cluster may not be read."""
SINGLE_LOAD_BALANCER = "SingleLoadBalancer"
"""The condition that is False while another load balancer in the tenant has pools."""
LOAD_BALANCER_ANNOUNCED = "LoadBalancerAnnounced"
"""The condition that is False while nothing announces the addresses of the tenant's Services."""


@with_config(MODEL)
class LocalReference(ApiType, frozen=True):
    """The name of an object in a namespace that is understood."""

    name: NonEmpty
    """Name of the object."""


@with_config(MODEL)
class ProviderReference(ApiType, frozen=True):
    """A ProviderConfig."""

    name: NonEmpty
    """Name of the ProviderConfig."""
    namespace: str | None = None
    """Namespace of the ProviderConfig. If it is absent, butler-system counts."""


POOL_OF_ADDRESSES = Rule(
    "isIP(self.start) && isIP(self.end)",
    "start and end must be IP addresses, as in 10.40.0.16 or fd00::10",
)


@with_config(
    model(POOL_OF_ADDRESSES, require_one_family("start", "end"), require_order("start", "end"))
)
class LoadBalancerPool(ApiType, frozen=True):
    """Addresses for load balancers given by hand."""

    start: Annotated[str, FieldSchema(max_length=ADDRESS_MAX)]
    """The first address, for example 10.40.1.0."""
    end: Annotated[str, FieldSchema(max_length=ADDRESS_MAX)]
    """The last address, which belongs to the pool."""


@with_config(model(DISTINCT_FAMILIES, POLICY_OF_TWO_FAMILIES))
class Networking(ApiType, frozen=True):
    """The tenant's networks."""

    podCIDR: str = "10.244.0.0/16"
    """Addresses of the pods inside the tenant. They do not come from a NetworkPool."""
    serviceCIDR: str = "10.96.0.0/12"
    """Cluster addresses of the Services inside the tenant. They do not come from a NetworkPool."""
    loadBalancerPool: LoadBalancerPool | None = None
    """Load-balancer addresses that a person chose. They are used if the provider has no
    NetworkPools (mode cloud)."""
    lbPoolSize: PositiveInt32 | None = None
    """Number of load-balancer addresses, instead of the default of the ProviderConfig. The quota
    of the ProviderConfig limits it."""
    ipFamilyPolicy: IPFamilyPolicy | None = None
    """Number of address families of the cluster's addresses, as in a Service: SingleStack (the
    default), PreferDualStack or RequireDualStack."""
    ipFamilies: IPFamilies = ()
    """The address families of the cluster's addresses in order of preference: IPv4, IPv6."""

    @property
    def families_text(self) -> str:
        """The fields ipFamilyPolicy and ipFamilies as text; empty if neither is set."""
        return " ".join([*filter(None, [self.ipFamilyPolicy]), *self.ipFamilies])


@with_config(OTHERS)
class ManagementPolicy(ApiType, frozen=True):
    """Who drives this cluster."""

    mode: Annotated[str, words("Active", OBSERVE, "GitOps")] = "Active"
    """Active: the phase of the cluster is written here. Observe: another controller writes the
    phase, and butler-ipam manages addresses only. GitOps is treated as Active."""


@with_config(MODEL)
class TenantClusterSpec(ApiType, frozen=True):
    """The cluster to build."""

    kubernetesVersion: Annotated[str, FieldSchema(pattern=r"^v\d+\.\d+\.\d+$")]
    """Kubernetes version of the cluster, for example v1.33.1."""
    workers: Annotated[Opaque, SchemaOf(MACHINES, "Workers")]
    """The worker nodes. Their number does not change how many node addresses the cluster gets; the
    defaults of its NetworkPool do."""
    teamRef: LocalReference | None = None
    """The team that owns the cluster."""
    providerConfigRef: ProviderReference | None = None
    """The ProviderConfig whose infrastructure and NetworkPools the cluster uses. If it is absent,
    the default of the platform counts. It cannot be changed while the cluster has addresses."""
    controlPlane: Annotated[Opaque, SchemaOf(MACHINES, "TenantControlPlane")] | None = None
    """The control plane. Read by the controller that builds the cluster, not by butler-ipam."""
    networking: Networking | None = None
    """The networks of the cluster, and how many addresses it gets."""
    managementPolicy: ManagementPolicy | None = None
    """Which controller writes the phase of the cluster."""
    addons: Addons | None = None
    """What is installed in the cluster."""
    timeServers: tuple[str, ...] = ()
    """Addresses of the NTP servers of the nodes. Read by the controller that builds the cluster,
    not by butler-ipam."""
    infrastructureOverride: (
        Annotated[Opaque, SchemaOf(MACHINES, "InfrastructureOverride")] | None
    ) = None
    """Settings of the provider for this cluster alone. Read by the controller that builds the
    cluster, not by butler-ipam."""
    workspaces: Annotated[Opaque, SchemaOf(MACHINES, "Workspaces")] | None = None
    """Developer workspaces in the cluster. Read by the controller that builds the cluster, not by
    butler-ipam."""


@with_config(OTHERS)
class TenantClusterStatus(ApiType, frozen=True):
    """How far the cluster has come."""

    conditions: Conditions = ()
    """NetworkReady, LoadBalancerReady, LoadBalancerDemandMet, Ready and others."""
    phase: (
        Annotated[str, words(PENDING, PROVISIONING, INSTALLING, READY, UPDATING, DELETING, FAILED)]
        | None
    ) = None
    """Lifecycle phase of the cluster."""
    tenantNamespace: str | None = None
    """Namespace of the objects that belong to the cluster, such as the Secret with its kubeconfig.
    Written by the controller that builds the cluster."""
    controlPlaneEndpoint: str | None = None
    """Address of the API server of the cluster. Written by the controller that builds the
    cluster."""
    kubeconfigSecretRef: LocalReference | None = None
    """The Secret with the kubeconfig of the cluster. Written by the controller that builds the
    cluster."""
    observedGeneration: Int64 | None = None
    """The metadata.generation of the spec that this status describes."""
    lastTransitionTime: datetime | None = None
    """When the phase last changed."""
    observedState: (
        Annotated[Opaque, SchemaOf("reconcilers.api.tenantobserved", "ObservedState")] | None
    ) = None
    """State of the running cluster. Written by the controller that builds the cluster."""
    workerNodesReady: Int32 | None = None
    """Number of worker nodes that are ready. Written by the controller that builds the cluster."""
    workerNodesDesired: Int32 | None = None
    """Number of worker nodes that the spec asks for. Written by the controller that builds the
    cluster."""
    ipAllocationRef: LocalReference | None = None
    """The IPAllocation with the node addresses."""
    lbAllocationRef: LocalReference | None = None
    """The IPAllocation with the first load-balancer addresses."""
    imageSyncRef: LocalReference | None = None
    """An image synchronization. Written by another controller."""
    network: TenantNetwork | None = None
    """The addresses, the quota, and what the cluster waits for."""


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
    at=".spec.providerConfigRef",
    reason=FORBIDDEN,
)


@with_config(model(KEEPS_PROVIDER))
class TenantCluster(ApiType, frozen=True):
    """A Kubernetes cluster for a team."""

    metadata: ObjectMeta
    spec: TenantClusterSpec
    """The cluster, as its team asks for it."""
    status: TenantClusterStatus = msgspec.field(default_factory=TenantClusterStatus)
    """The addresses of the cluster, and how far it has come."""

    @property
    def networking(self) -> Networking:
        """The networks, with defaults where the spec says nothing."""
        return self.spec.networking or Networking()

    @property
    def load_balancer_provider(self) -> str:
        """Which load balancer serves its Services: spec.addons.loadBalancer.provider.

        Without that addon it is DEFAULT_LOAD_BALANCER.
        """
        addon = self.spec.addons.loadBalancer if self.spec.addons is not None else None
        return addon.provider if addon is not None else DEFAULT_LOAD_BALANCER

    @property
    def service_selector(self) -> ServiceSelector | None:
        """Which Services Cilium's LB-IPAM may serve.

        None if all Services may be served, or if the load balancer is not Cilium.
        """
        addon = self.spec.addons.loadBalancer if self.spec.addons is not None else None
        if addon is None or addon.provider != CILIUM or addon.cilium is None:
            return None
        selector = addon.cilium.serviceSelector
        return selector if selector is not None and not selector.is_empty else None

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
        """Whether an annotation notes that ranges were, or may have been, written into the tenant.

        To write ranges to the load balancer in the tenant is called to *project* them.
        """
        return names.ANNOTATION_PROJECTION_BEGUN in self.metadata.annotations

    @property
    def projection_begun(self) -> bool:
        """Whether ranges were, or may have been, written to the load balancer in the tenant.

        The condition LoadBalancerReady counts, too, because people may drop the annotation, for
        example by `kubectl replace`.
        """
        return self.projection_noted or is_true(self.status.conditions, LOAD_BALANCER_READY)

    def build_reference(self) -> dict[str, str]:
        """Return the tenantClusterRef that its allocations carry."""
        return {"name": self.metadata.name, "namespace": self.metadata.namespace}
