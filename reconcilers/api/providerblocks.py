"""The settings of each kind of infrastructure: the schema of what other controllers read."""

from typing import Annotated

from controller.markers import ApiType, FieldSchema, with_config
from reconcilers.api.fields import OTHERS, Int32, NonEmpty, int32

Url = Annotated[str, FieldSchema(pattern=r"^https?://")]


@with_config(OTHERS)
class Harvester(ApiType, frozen=True):
    """Settings of Harvester."""

    networkName: Annotated[str, FieldSchema(pattern=r"^[a-z0-9-]+/[a-z0-9-]+$")]
    """Network of the machines as namespace/name."""
    endpoint: str | None = None
    """URL of the Harvester API."""
    namespace: str = "default"
    """Namespace of the virtual machines."""
    imageName: str | None = None
    """Image of the virtual machines as namespace/name."""
    storageClassName: str | None = None
    """StorageClass of the disks."""


@with_config(OTHERS)
class Nutanix(ApiType, frozen=True):
    """Settings of Nutanix."""

    endpoint: Url
    """URL of Prism Central, for example https://prism.example.com."""
    clusterUUID: NonEmpty
    """UUID of the Nutanix cluster."""
    subnetUUID: NonEmpty
    """UUID of the subnet of the machines."""
    port: Int32 = 9440
    """TCP port of Prism Central."""
    insecure: bool = False
    """Whether the certificate of the API is accepted unchecked."""
    imageUUID: str | None = None
    """UUID of the image of the machines."""
    storageContainerUUID: str | None = None
    """UUID of the storage container of the disks."""


@with_config(OTHERS)
class MachineNumbers(ApiType, frozen=True):
    """Numbers that machines get."""

    start: Annotated[int, int32(100)]
    """The lowest VM ID."""
    end: Annotated[int, int32(100)]
    """The highest VM ID."""


@with_config(OTHERS)
class Proxmox(ApiType, frozen=True):
    """Settings of Proxmox."""

    endpoint: Url
    """URL of the Proxmox API, for example https://pve.example.com:8006."""
    nodes: Annotated[tuple[str, ...], FieldSchema(min_length=1)]
    """Names of the Proxmox nodes that machines run on."""
    storage: NonEmpty
    """Storage of the disks."""
    insecure: bool = False
    """Whether the certificate of the API is accepted unchecked."""
    templateID: Int32 | None = None
    """VM ID of the template of the machines."""
    vmidRange: MachineNumbers | None = None
    """The VM IDs that machines get."""


@with_config(OTHERS)
class Azure(ApiType, frozen=True):
    """Settings of Azure."""

    subscriptionID: NonEmpty
    """ID of the subscription."""
    resourceGroup: NonEmpty
    """Name of the resource group."""
    location: str | None = None
    """Azure region, for example westeurope."""
    vnetName: str | None = None
    """Name of the virtual network."""
    subnetName: str | None = None
    """Name of the subnet."""
    vmSize: str | None = None
    """Size of the machines, for example Standard_D4s_v5."""
    imageURN: str | None = None
    """URN of the image of the machines."""


@with_config(OTHERS)
class Aws(ApiType, frozen=True):
    """Settings of AWS."""

    region: NonEmpty
    """AWS region, for example eu-central-1."""
    vpcID: str | None = None
    """ID of the VPC."""
    subnetIDs: tuple[str, ...] = ()
    """IDs of the subnets."""
    securityGroupIDs: tuple[str, ...] = ()
    """IDs of the security groups of the machines."""


@with_config(OTHERS)
class Gcp(ApiType, frozen=True):
    """Settings of Google Cloud."""

    projectID: NonEmpty
    """ID of the project."""
    region: NonEmpty
    """Region, for example europe-west3."""
    zone: str | None = None
    """Zone, for example europe-west3-a."""
    network: str | None = None
    """Name of the VPC network."""
    subnetwork: str | None = None
    """Name of the subnetwork."""
    machineType: str | None = None
    """Machine type, for example e2-standard-4."""
    imageProject: str | None = None
    """Project that owns the image."""
    imageFamily: str | None = None
    """Image family of the machines."""
    image: str | None = None
    """Image of the machines."""
    serviceAccount: str | None = None
    """Email address of the machines' service account."""
    tags: tuple[str, ...] = ()
    """Network tags of the machines."""


@with_config(OTHERS)
class Local(ApiType, frozen=True):
    """Settings of local clusters."""

    kindNodeImage: str | None = None
    """Container image of the kind nodes."""
