"""The parts of a TenantCluster's spec that describe machines. Accepted; read by others."""

from dataclasses import dataclass
from typing import Annotated

from controller.markers import with_config
from reconcilers.api.fields import OTHERS, Int32, NonEmpty, PositiveInt32, Quantity, int32, words


@with_config(OTHERS)
@dataclass(frozen=True, slots=True)
class NamedReference:
    """The name of an object in a namespace that is understood."""

    name: NonEmpty
    """Name."""


@with_config(OTHERS)
@dataclass(frozen=True, slots=True)
class Quantities:
    """Amounts of cpu and memory."""

    cpu: Quantity | None = None
    """For example 500m."""
    memory: Quantity | None = None
    """For example 512Mi."""


@with_config(OTHERS)
@dataclass(frozen=True, slots=True)
class ComponentResources:
    """Requests and limits of one component."""

    requests: Quantities | None = None
    """What is set aside."""
    limits: Quantities | None = None
    """What is the most."""


@with_config(OTHERS)
@dataclass(frozen=True, slots=True)
class ControlPlaneResources:
    """Requests and limits of the control plane's components."""

    apiServer: ComponentResources | None = None
    """kube-apiserver."""
    controllerManager: ComponentResources | None = None
    """kube-controller-manager."""
    scheduler: ComponentResources | None = None
    """kube-scheduler."""


@with_config(OTHERS)
@dataclass(frozen=True, slots=True)
class ControlPlane:
    """The control plane."""

    replicas: Annotated[int, int32(1, 3)] = 1
    """How many."""
    dataStoreRef: NamedReference | None = None
    """Where its state is kept."""
    serviceType: Annotated[str, words("LoadBalancer", "NodePort", "ClusterIP")] | None = None
    """How it is reached."""
    certSANs: tuple[str, ...] = ()
    """Further names in its certificate."""
    externalCloudProvider: bool = True
    """Whether a cloud controller manager runs outside."""
    resources: ControlPlaneResources | None = None
    """Requests and limits."""


@with_config(OTHERS)
@dataclass(frozen=True, slots=True)
class Talos:
    """Settings of Talos machines."""

    installDisk: str = "/dev/vda"
    """Disk to install on."""
    installerImage: str | None = None
    """Installer image."""
    version: str = "v1.9.3"
    """Version of Talos."""


@with_config(OTHERS)
@dataclass(frozen=True, slots=True)
class OperatingSystem:
    """The machines' operating system."""

    type: Annotated[str, words("rocky", "flatcar", "talos", "kairos", "bottlerocket")] = "rocky"
    """Which one."""
    version: str = "9.5"
    """Its version."""
    imageRef: str | None = None
    """Image."""
    schematicID: str | None = None
    """Image factory schematic."""
    sshAuthorizedKey: str | None = None
    """Key that may log in."""
    talos: Talos | None = None
    """Settings of Talos machines."""


@with_config(OTHERS)
@dataclass(frozen=True, slots=True)
class MachineTemplate:
    """What a worker machine looks like."""

    cpu: PositiveInt32 = 4
    """Cores."""
    memory: Quantity = "16Gi"
    """Memory."""
    diskSize: Quantity = "100Gi"
    """Disk."""
    os: OperatingSystem | None = None
    """Operating system."""


@with_config(OTHERS)
@dataclass(frozen=True, slots=True)
class Workers:
    """The worker nodes."""

    replicas: PositiveInt32
    """How many."""
    machineTemplate: MachineTemplate | None = None
    """What each looks like."""


@with_config(OTHERS)
@dataclass(frozen=True, slots=True)
class HarvesterOverride:
    """Settings for Harvester."""

    namespace: str | None = None
    """Namespace."""
    networkName: str | None = None
    """Network."""
    imageName: str | None = None
    """Image."""


@with_config(OTHERS)
@dataclass(frozen=True, slots=True)
class NutanixOverride:
    """Settings for Nutanix."""

    clusterUUID: str | None = None
    """Cluster."""
    subnetUUID: str | None = None
    """Subnet."""
    imageUUID: str | None = None
    """Image."""
    storageContainerUUID: str | None = None
    """Storage container."""


@with_config(OTHERS)
@dataclass(frozen=True, slots=True)
class ProxmoxOverride:
    """Settings for Proxmox."""

    node: str | None = None
    """Node."""
    storage: str | None = None
    """Storage."""
    templateID: Int32 | None = None
    """Template."""


@with_config(OTHERS)
@dataclass(frozen=True, slots=True)
class GcpOverride:
    """Settings for Google Cloud."""

    zone: str | None = None
    """Zone."""
    machineType: str | None = None
    """Machine type."""
    image: str | None = None
    """Image."""
    imageFamily: str | None = None
    """Image family."""
    subnetwork: str | None = None
    """Subnetwork."""


@with_config(OTHERS)
@dataclass(frozen=True, slots=True)
class InfrastructureOverride:
    """Provider settings of one cluster."""

    harvester: HarvesterOverride | None = None
    """Harvester."""
    nutanix: NutanixOverride | None = None
    """Nutanix."""
    proxmox: ProxmoxOverride | None = None
    """Proxmox."""
    gcp: GcpOverride | None = None
    """Google Cloud."""


@with_config(OTHERS)
@dataclass(frozen=True, slots=True)
class WorkspaceQuota:
    """The most that workspaces may use."""

    maxCPU: str = "16"
    """Cores."""
    maxMemory: str = "32Gi"
    """Memory."""
    maxStorage: str = "500Gi"
    """Storage."""


@with_config(OTHERS)
@dataclass(frozen=True, slots=True)
class Workspaces:
    """Developer workspaces in the cluster."""

    enabled: bool = False
    """Whether there are any."""
    defaultImage: str | None = None
    """Image of a workspace that names none."""
    maxWorkspaces: Int32 = 20
    """How many at the most."""
    resourceQuota: WorkspaceQuota | None = None
    """The most that they may use."""
    autoDeleteAfter: str = "720h"
    """When an idle one is deleted."""
