"""The CustomResourceDefinitions of our kinds, which the framework makes of the models.

What a schema cannot say of one object alone is said by CEL rules on the models.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from controller.resource import Resource
from controller.scaffold.definitions import Column, CustomKind, create_crd
from controller.scaffold.schemas import Schema
from reconcilers.api import names
from reconcilers.api.ipallocation import IPAllocation
from reconcilers.api.networkpool import NetworkPool
from reconcilers.api.providerconfig import ProviderConfig
from reconcilers.api.tenantcluster import TenantCluster


@dataclass(frozen=True)
class CrdKind:
    """What a CRD says beyond the schema.

    Attributes:
        model: the class of its objects.
        plural: its name in paths.
        short: the short name that Butler gives it.
        alias: a second short name, for a kind whose `short` means another kind to kubectl.
        columns: the columns of its table in kubectl.
        selectable: fields that field selectors may name.
        shadowed_by: the built-in kind that kubectl takes `short` for, if there is one.
        group: its API group.
        version: the one version that is served.
        namespaced: whether its objects have a namespace.
        categories: by which `kubectl get` lists it along with others.
        labels: the labels of the CustomResourceDefinition.
    """

    model: type[Any]
    plural: str
    short: str
    columns: tuple[Column, ...]
    selectable: tuple[str, ...] = field(default=())
    alias: str = ""
    shadowed_by: str = ""
    group: str = names.GROUP
    version: str = names.VERSION
    namespaced: bool = True
    categories: tuple[str, ...] = ("butler", "all-butler")
    labels: Mapping[str, str] = field(default_factory=dict)

    @property
    def kind(self) -> str:
        """The kind's name: the model's."""
        return self.model.__name__

    @property
    def short_names(self) -> list[str]:
        """All its short names."""
        return [name for name in (self.short, self.alias) if name]

    @property
    def crd_name(self) -> str:
        """The name of its CustomResourceDefinition."""
        return f"{self.plural}.{self.group}"


_READY = '.status.conditions[?(@.type=="Ready")].status'
_REASON = '.status.conditions[?(@.type=="Ready")].reason'
_AGE = Column("Age", "date", ".metadata.creationTimestamp")

KINDS: tuple[CrdKind, ...] = (
    CrdKind(
        NetworkPool,
        "networkpools",
        short="np",
        columns=(
            Column("CIDR", "string", ".spec.cidr"),
            Column("Available", "integer", ".status.availableIPs"),
            Column("Allocated", "integer", ".status.allocatedIPs"),
            Column("Total", "integer", ".status.totalIPs"),
            Column("Used %", "integer", ".status.utilizationPercent"),
            Column("Ready", "string", _READY),
            Column("Largest", "integer", ".status.largestFreeBlock", wide=True),
            Column("Fragmentation", "integer", ".status.fragmentationPercent", wide=True),
            Column("Allocations", "integer", ".status.allocationCount", wide=True),
            Column("Secondary", "string", ".spec.secondary.cidr", wide=True),
            Column("2nd Available", "integer", ".status.secondary.availableIPs", wide=True),
            Column("2nd Used %", "integer", ".status.secondary.utilizationPercent", wide=True),
            Column("Reason", "string", _REASON, wide=True),
            _AGE,
        ),
    ),
    CrdKind(
        IPAllocation,
        "ipallocations",
        short="ipa",
        columns=(
            Column("Pool", "string", ".spec.poolRef.name"),
            Column("Cluster", "string", ".spec.tenantClusterRef.name"),
            Column("Type", "string", ".spec.type"),
            Column("Phase", "string", ".status.phase"),
            Column("Start", "string", ".status.startAddress"),
            Column("End", "string", ".status.endAddress"),
            Column("Range", "string", ".status.cidr", wide=True),
            Column("Count", "integer", ".status.allocatedCount", wide=True),
            Column("2nd Range", "string", ".status.families[1].cidr", wide=True),
            Column("Tenant", "string", ".spec.tenantClusterRef.namespace", wide=True),
            Column("Reason", "string", _REASON, wide=True),
            _AGE,
        ),
        selectable=(".spec.poolRef.name",),
    ),
    CrdKind(
        TenantCluster,
        "tenantclusters",
        short="tc",
        columns=(
            Column("Phase", "string", ".status.phase"),
            Column("LB IPs", "integer", ".status.network.loadBalancer.addresses"),
            Column("Waiting", "integer", ".status.network.loadBalancer.servicesWaiting"),
            Column("K8s Version", "string", ".spec.kubernetesVersion"),
            Column("Workers", "integer", ".status.observedState.workers.ready"),
            Column("Endpoint", "string", ".status.controlPlaneEndpoint"),
            Column("Node IPs", "integer", ".status.network.nodes.addresses", wide=True),
            Column("LB Quota", "integer", ".status.network.loadBalancer.quota", wide=True),
            Column(
                "Network",
                "string",
                '.status.conditions[?(@.type=="NetworkReady")].message',
                wide=True,
            ),
            _AGE,
        ),
    ),
    CrdKind(
        ProviderConfig,
        "providerconfigs",
        short="pc",
        columns=(
            Column("Provider", "string", ".spec.provider"),
            Column("Scope", "string", ".spec.scope.type"),
            Column("Ready", "boolean", ".status.ready"),
            Column("Validated", "boolean", ".status.validated"),
            Column("Available", "integer", ".status.capacity.availableIPs", wide=True),
            Column("Tenants", "integer", ".status.capacity.estimatedTenants", wide=True),
            _AGE,
        ),
        alias="bpc",
        shadowed_by="PriorityClass",
    ),
)


def build_crds() -> list[Schema]:
    """Return the CustomResourceDefinitions of all kinds."""
    return [build_crd(kind) for kind in KINDS]


def build_crd(kind: CrdKind) -> Schema:
    """Return the CustomResourceDefinition of a kind."""
    resource = Resource(
        kind.group,
        kind.version,
        kind.kind,
        kind.plural,
        kind.model,
        namespaced=kind.namespaced,
    )
    return create_crd(
        CustomKind(
            resource,
            columns=kind.columns,
            short_names=tuple(kind.short_names),
            categories=kind.categories,
            selectable=kind.selectable,
            labels=kind.labels,
            required=("spec",),
        )
    )


def build_crds_by_name(
    requested_names: Iterable[str] = (), integrated: Sequence[CrdKind] = ()
) -> list[Schema]:
    """Return the CRDs of the requested kinds, in the order of their names.

    Args:
        requested_names: kinds, plurals or short names, in any case; all our own kinds if there
            are none.
        integrated: kinds of integrations, which are found by their names only.

    Raises:
        KeyError: no kind has one of these names.
    """
    kinds_by_name = {
        name.lower(): kind
        for kind in (*KINDS, *integrated)
        for name in (kind.kind, kind.plural, *kind.short_names)
    }
    requested_kinds = [kinds_by_name[name.lower()] for name in requested_names]
    return [build_crd(kind) for kind in requested_kinds or KINDS]
