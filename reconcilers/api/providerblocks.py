"""The settings of each kind of infrastructure. Accepted and validated; used by others."""

from dataclasses import dataclass
from typing import Annotated

from controller.markers import FieldSchema, with_config
from reconcilers.api.fields import OTHERS, Int32, NonEmpty, int32

Url = Annotated[str, FieldSchema(pattern=r"^https?://")]


@with_config(OTHERS)
@dataclass(frozen=True, slots=True)
class Harvester:
    """Settings of Harvester."""

    networkName: Annotated[str, FieldSchema(pattern=r"^[a-z0-9-]+/[a-z0-9-]+$")]
    """Network as namespace/name."""
    endpoint: str | None = None
    """Address of its API."""
    namespace: str = "default"
    """Namespace of machines."""
    imageName: str | None = None
    """Image of machines."""
    storageClassName: str | None = None
    """Storage class of disks."""


@with_config(OTHERS)
@dataclass(frozen=True, slots=True)
class Nutanix:
    """Settings of Nutanix."""

    endpoint: Url
    """Address of its API."""
    clusterUUID: NonEmpty
    """Cluster."""
    subnetUUID: NonEmpty
    """Subnet."""
    port: Int32 = 9440
    """Port of its API."""
    insecure: bool = False
    """Whether its certificate goes unchecked."""
    imageUUID: str | None = None
    """Image of machines."""
    storageContainerUUID: str | None = None
    """Storage container of disks."""


@with_config(OTHERS)
@dataclass(frozen=True, slots=True)
class MachineNumbers:
    """Numbers that machines get."""

    start: Annotated[int, int32(100)]
    """First."""
    end: Annotated[int, int32(100)]
    """Last."""


@with_config(OTHERS)
@dataclass(frozen=True, slots=True)
class Proxmox:
    """Settings of Proxmox."""

    endpoint: Url
    """Address of its API."""
    nodes: Annotated[tuple[str, ...], FieldSchema(min_length=1)]
    """Nodes that machines run on."""
    storage: NonEmpty
    """Storage of disks."""
    insecure: bool = False
    """Whether its certificate goes unchecked."""
    templateID: Int32 | None = None
    """Template of machines."""
    vmidRange: MachineNumbers | None = None
    """Numbers that machines get."""


@with_config(OTHERS)
@dataclass(frozen=True, slots=True)
class Azure:
    """Settings of Azure."""

    subscriptionID: NonEmpty
    """Subscription."""
    resourceGroup: NonEmpty
    """Resource group."""
    location: str | None = None
    """Location."""
    vnetName: str | None = None
    """Virtual network."""
    subnetName: str | None = None
    """Subnet."""
    vmSize: str | None = None
    """Size of machines."""
    imageURN: str | None = None
    """Image of machines."""


@with_config(OTHERS)
@dataclass(frozen=True, slots=True)
class Aws:
    """Settings of AWS."""

    region: NonEmpty
    """Region."""
    vpcID: str | None = None
    """Virtual private cloud."""
    subnetIDs: tuple[str, ...] = ()
    """Subnets."""
    securityGroupIDs: tuple[str, ...] = ()
    """Security groups."""


@with_config(OTHERS)
@dataclass(frozen=True, slots=True)
class Gcp:
    """Settings of Google Cloud."""

    projectID: NonEmpty
    """Project."""
    region: NonEmpty
    """Region."""
    zone: str | None = None
    """Zone."""
    network: str | None = None
    """Network."""
    subnetwork: str | None = None
    """Subnetwork."""
    machineType: str | None = None
    """Machine type."""
    imageProject: str | None = None
    """Project of the image."""
    imageFamily: str | None = None
    """Image family."""
    image: str | None = None
    """Image."""
    serviceAccount: str | None = None
    """Service account of machines."""
    tags: tuple[str, ...] = ()
    """Network tags."""


@with_config(OTHERS)
@dataclass(frozen=True, slots=True)
class Local:
    """Settings of local clusters."""

    kindNodeImage: str | None = None
    """Node image."""
