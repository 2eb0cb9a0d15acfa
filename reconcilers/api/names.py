"""Every name that others see: group, labels, annotations, finalizers, managers."""

from hashlib import sha256

GROUP = "butler.butlerlabs.dev"
VERSION = "v1alpha1"
API_VERSION = f"{GROUP}/{VERSION}"
DEFAULT_NAMESPACE = "butler-system"


def _own(name: str) -> str:
    return f"{GROUP}/{name}"


LABEL_TEAM = _own("team")
LABEL_TENANT = _own("tenant")
LABEL_POOL = _own("network-pool")
LABEL_TYPE = _own("allocation-type")
LABEL_ROLE = _own("allocation-role")
LABEL_PLATFORM_LB = _own("platform-lb")
LABEL_MANAGED_BY = "app.kubernetes.io/managed-by"
MANAGED_BY = "butler"
ROLE_INITIAL = "initial"
ROLE_GROWTH = "growth"

LEASE_NAME = "butler-ipam"
WEBHOOK_CONFIGURATION = "butler-ipam"
"""The ValidatingWebhookConfiguration that registers the webhooks."""

METALLB_POOL = "default-pool"
METALLB_ADVERTISEMENT = "default"
METALLB_MARKER = "butler-ipam-marker"

TYPE_NODES = "nodes"
TYPE_LOADBALANCER = "loadbalancer"

ANNOTATION_TENANT_UID = _own("tenant-uid")
ANNOTATION_LOAD_BALANCER = _own("load-balancer-provider")
ANNOTATION_LEAVING_BALANCER = _own("leaving-load-balancer")
ANNOTATION_REQUESTED_AT = _own("requested-at")
ANNOTATION_REPLACES = _own("replaces")
ANNOTATION_RELEASING = _own("releasing")
ANNOTATION_MARKER_CREATION = _own("marker-creation")
ANNOTATION_RELEASE_ANYWAY = _own("release-anyway")
ANNOTATION_PROJECTION_BASIS = _own("projection-basis")
ANNOTATION_PROJECTION_SEEN = _own("projection-seen")
ANNOTATION_PROJECTION_OWNER = _own("projection-owner")
ANNOTATION_PROJECTION_OWNER_UID = _own("projection-owner-uid")
ANNOTATION_PROJECTION_MANAGEMENT = _own("projection-management")
ANNOTATION_ALLOCATION_UID = _own("allocation-uid")
ANNOTATION_RELEASE_NOTE = _own("release-note")
ANNOTATION_EMPTIED_UNDER = _own("emptied-under")
ANNOTATION_TENANT_IDENTITY = _own("tenant-identity")
ANNOTATION_TENANT_MOVED = _own("tenant-moved")
ANNOTATION_PROJECTION_BEGUN = _own("projection-begun")
ANNOTATION_IDLE_SINCE = _own("idle-since")
ANNOTATION_GROWN_IN_VAIN = _own("grown-in-vain")
ANNOTATION_METALLB_BUNDLE = _own("metallb-bundle")
ANNOTATION_MOVING = _own("moving-requests")
ANNOTATION_PROMISES = _own("address-promises")
ANNOTATION_PROMISES_VOID = _own("promises-void-since")
ANNOTATION_RELEASED_AT = _own("released-at")
ANNOTATION_RESTORED_ADDRESS = _own("restored-address")
ANNOTATION_MADE_FOR = _own("made-for")

FINALIZER_POOL = _own("networkpool")
FINALIZER_ALLOCATION = _own("ipallocation")
FINALIZER_TENANT = _own("tenantcluster-ipam")
FINALIZER_PROVIDER = _own("providerconfig")

KIND_CLAIMS = "ipaddressclaims.ipam.cluster.x-k8s.io"
"""The full name of Cluster API's IPAddressClaims, in journals and as holders."""
KIND_ADDRESSES = "ipaddresses.ipam.cluster.x-k8s.io"
"""The full name of Cluster API's IPAddresses, in journals."""

ALLOCATED_BY = "networkpool-controller"
FIELD_MANAGER = "butler-ipam"
INFRASTRUCTURE_FIELD_MANAGER = "butler-controller/infra-allocation"
TENANT_FIELD_MANAGER = "butler-controller/ipam"
COMPONENT = "butler-controller"

LABEL_VALUE_MAX = 63
NAME_MAX = 253
DNS_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
DNS_SUBDOMAIN = rf"{DNS_LABEL}(\.{DNS_LABEL})*"
"""A pattern of the names that most objects may have, without their length."""
_HASH_LENGTH = 8


def compute_short_hash(value: str) -> str:
    """Return eight hexadecimal digits that identify a string."""
    return sha256(value.encode()).hexdigest()[:_HASH_LENGTH]


def shorten(value: str, limit: int) -> str:
    """Return a string of at most `limit` characters.

    A longer string is cut, and ends in a hash of the whole string, so that it stays unique.
    """
    if len(value) <= limit:
        return value
    # In a DNS name, no dash may follow a dot.
    return f"{value[: limit - _HASH_LENGTH - 1].rstrip('-._')}-{compute_short_hash(value)}"


def make_label_value(value: str) -> str:
    """Return a string as a label value: at most 63 characters, the end hashed if it is longer."""
    return shorten(value, LABEL_VALUE_MAX)
