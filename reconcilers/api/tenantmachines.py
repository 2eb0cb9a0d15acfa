"""The parts of a TenantCluster's spec that describe machines: the schema of what others read."""

from typing import Annotated

from controller.markers import ApiType, with_config
from reconcilers.api.fields import OTHERS, Int32, NonEmpty, PositiveInt32, Quantity, int32, words


@with_config(OTHERS)
class NamedReference(ApiType, frozen=True):
    """The name of an object in a namespace that is understood."""

    name: NonEmpty
    """Name of the object."""


@with_config(OTHERS)
class Quantities(ApiType, frozen=True):
    """Amounts of cpu and memory."""

    cpu: Quantity | None = None
    """CPU, for example 500m."""
    memory: Quantity | None = None
    """Memory, for example 512Mi."""


@with_config(OTHERS)
class ComponentResources(ApiType, frozen=True):
    """Requests and limits of one component."""

    requests: Quantities | None = None
    """CPU and memory that are reserved for the component."""
    limits: Quantities | None = None
    """The most CPU and memory of the component."""


@with_config(OTHERS)
class ControlPlaneResources(ApiType, frozen=True):
    """Requests and limits of the control plane's components."""

    apiServer: ComponentResources | None = None
    """Requests and limits of kube-apiserver."""
    controllerManager: ComponentResources | None = None
    """Requests and limits of kube-controller-manager."""
    scheduler: ComponentResources | None = None
    """Requests and limits of kube-scheduler."""


@with_config(OTHERS)
class TenantControlPlane(ApiType, frozen=True):
    """The control plane."""

    replicas: Annotated[int, int32(1, 3)] = 1
    """Number of control-plane replicas."""
    dataStoreRef: NamedReference | None = None
    """The datastore of the control plane."""
    serviceType: Annotated[str, words("LoadBalancer", "NodePort", "ClusterIP")] | None = None
    """Type of the Service of the API server."""
    certSANs: tuple[str, ...] = ()
    """Further host names and addresses in the certificate of the API server."""
    externalCloudProvider: bool = True
    """Whether a cloud controller manager runs outside of the cluster."""
    resources: ControlPlaneResources | None = None
    """Requests and limits of the components."""


@with_config(OTHERS)
class Talos(ApiType, frozen=True):
    """Settings of Talos machines."""

    installDisk: str = "/dev/vda"
    """Disk that Talos is installed on."""
    installerImage: str | None = None
    """Installer image."""
    version: str = "v1.9.3"
    """Talos version."""


@with_config(OTHERS)
class OperatingSystem(ApiType, frozen=True):
    """The machines' operating system."""

    type: Annotated[str, words("rocky", "flatcar", "talos", "kairos", "bottlerocket")] = "rocky"
    """Operating system of the machines."""
    version: str = "9.5"
    """Version of the operating system."""
    imageRef: str | None = None
    """Image of the machines."""
    schematicID: str | None = None
    """Schematic of the image factory."""
    sshAuthorizedKey: str | None = None
    """Public SSH key that can log in."""
    talos: Talos | None = None
    """Settings of Talos machines."""


@with_config(OTHERS)
class MachineTemplate(ApiType, frozen=True):
    """What a worker machine looks like."""

    cpu: PositiveInt32 = 4
    """Number of CPU cores."""
    memory: Quantity = "16Gi"
    """Memory, for example 16Gi."""
    diskSize: Quantity = "100Gi"
    """Size of the disk, for example 100Gi."""
    os: OperatingSystem | None = None
    """Operating system of the machines."""


@with_config(OTHERS)
class Workers(ApiType, frozen=True):
    """The worker nodes."""

    replicas: PositiveInt32
    """Number of worker nodes."""
    machineTemplate: MachineTemplate | None = None
    """Size and operating system of each worker node."""


@with_config(OTHERS)
class HarvesterOverride(ApiType, frozen=True):
    """Settings for Harvester."""

    namespace: str | None = None
    """Namespace of the virtual machines."""
    networkName: str | None = None
    """Network of the machines as namespace/name."""
    imageName: str | None = None
    """Image of the virtual machines as namespace/name."""


@with_config(OTHERS)
class NutanixOverride(ApiType, frozen=True):
    """Settings for Nutanix."""

    clusterUUID: str | None = None
    """UUID of the Nutanix cluster."""
    subnetUUID: str | None = None
    """UUID of the subnet of the machines."""
    imageUUID: str | None = None
    """UUID of the image of the machines."""
    storageContainerUUID: str | None = None
    """UUID of the storage container of the disks."""


@with_config(OTHERS)
class ProxmoxOverride(ApiType, frozen=True):
    """Settings for Proxmox."""

    node: str | None = None
    """Name of the Proxmox node."""
    storage: str | None = None
    """Storage of the disks."""
    templateID: Int32 | None = None
    """VM ID of the template of the machines."""


@with_config(OTHERS)
class GcpOverride(ApiType, frozen=True):
    """Settings for Google Cloud."""

    zone: str | None = None
    """Zone, for example europe-west3-a."""
    machineType: str | None = None
    """Machine type, for example e2-standard-4."""
    image: str | None = None
    """Image of the machines."""
    imageFamily: str | None = None
    """Image family of the machines."""
    subnetwork: str | None = None
    """Name of the subnetwork."""


@with_config(OTHERS)
class InfrastructureOverride(ApiType, frozen=True):
    """Provider settings of one cluster."""

    harvester: HarvesterOverride | None = None
    """Settings of Harvester."""
    nutanix: NutanixOverride | None = None
    """Settings of Nutanix."""
    proxmox: ProxmoxOverride | None = None
    """Settings of Proxmox."""
    gcp: GcpOverride | None = None
    """Settings of Google Cloud."""


@with_config(OTHERS)
class WorkspaceQuota(ApiType, frozen=True):
    """The most that workspaces may use."""

    maxCPU: str = "16"
    """The most CPU cores."""
    maxMemory: str = "32Gi"
    """The most memory, for example 32Gi."""
    maxStorage: str = "500Gi"
    """The most storage, for example 500Gi."""


@with_config(OTHERS)
class Workspaces(ApiType, frozen=True):
    """Developer workspaces in the cluster."""

    enabled: bool = False
    """Whether workspaces can be created."""
    defaultImage: str | None = None
    """Container image of a workspace that names none."""
    maxWorkspaces: Int32 = 20
    """The most workspaces at a time."""
    resourceQuota: WorkspaceQuota | None = None
    """The most resources of all workspaces together."""
    autoDeleteAfter: str = "720h"
    """How long an idle workspace is kept, for example 720h."""
