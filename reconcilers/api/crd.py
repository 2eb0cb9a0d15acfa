"""CustomResourceDefinitions made of the models, so that the two can never tell different stories.

Pydantic's JSON schema is turned into a structural schema as apiextensions.k8s.io/v1 wants it:
references written out, no titles, optional instead of "or null", no defaults that would
materialise empty values. What a schema cannot say of one object alone is said by CEL rules on
the models.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import msgspec

from reconcilers.api import names
from reconcilers.api.ipallocation import IPAllocation
from reconcilers.api.networkpool import NetworkPool
from reconcilers.api.providerconfig import ProviderConfig
from reconcilers.api.tenantcluster import TenantCluster

Schema = dict[str, Any]


@dataclass(frozen=True)
class Column:
    """A printer column of `kubectl get`; `wide` shows it with -o wide only."""

    name: str
    type: str
    path: str
    wide: bool = False

    def to_schema(self) -> Schema:
        """Return the column as an entry of additionalPrinterColumns."""
        column: Schema = {"name": self.name, "type": self.type, "jsonPath": self.path}
        return column | {"priority": 1} if self.wide else column


@dataclass(frozen=True)
class Kind:
    """What a CRD says beyond the schema.

    Attributes:
        model: of its objects.
        plural: its name in paths.
        short: its short name; Butler's.
        alias: a short name of ours, where kubectl takes Butler's for another kind.
        columns: of its table.
        selectable: fields that field selectors may name.
        shadowed_by: the built-in kind that kubectl takes `short` for, if there is one.
        group: its API group.
        version: the one version that is served.
        namespaced: whether its objects have a namespace.
        categories: by which `kubectl get` lists it along with others.
        labels: of the definition.
    """

    model: type
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

KINDS: tuple[Kind, ...] = (
    Kind(
        NetworkPool,
        "networkpools",
        "np",
        (
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
    Kind(
        IPAllocation,
        "ipallocations",
        "ipa",
        (
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
    Kind(
        TenantCluster,
        "tenantclusters",
        "tc",
        (
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
    Kind(
        ProviderConfig,
        "providerconfigs",
        "pc",
        (
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


def crds() -> list[Schema]:
    """Return the CustomResourceDefinitions of all kinds."""
    return [definition(kind) for kind in KINDS]


def definition(kind: Kind) -> Schema:
    """Return the CustomResourceDefinition of a kind."""
    version: Schema = {
        "name": kind.version,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": structural_schema(kind.model)},
        "subresources": {"status": {}},
        "additionalPrinterColumns": [column.to_schema() for column in kind.columns],
    }
    if kind.selectable:
        version["selectableFields"] = [{"jsonPath": path} for path in kind.selectable]
    metadata: Schema = {"name": kind.crd_name}
    if kind.labels:
        metadata["labels"] = dict(kind.labels)
    called: Schema = {
        "kind": kind.kind,
        "listKind": f"{kind.kind}List",
        "plural": kind.plural,
        "singular": kind.kind.lower(),
    }
    if kind.short_names:
        called["shortNames"] = kind.short_names
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": metadata,
        "spec": {
            "group": kind.group,
            "scope": "Namespaced" if kind.namespaced else "Cluster",
            "names": called | {"categories": list(kind.categories)},
            "versions": [version],
        },
    }


def structural_schema(model: type) -> Schema:
    """Return the structural OpenAPI v3 schema of a kind's model, for the caller to keep."""
    schema: Schema = msgspec.json.decode(_structural_schema(model))
    return schema


def plain_schema(model: type) -> Schema:
    """Return the schema of any model with references written out, as `structural_schema` does."""
    # Here, as it takes longer to load than many a command that needs the kinds' names only.
    from pydantic import TypeAdapter  # noqa: PLC0415

    whole = TypeAdapter(model).json_schema()
    return _structural(whole, whole.pop("$defs", {}))


@cache
def _structural_schema(model: type) -> bytes:
    whole = plain_schema(model)
    spec, status = whole["properties"]["spec"], _without_defaults(whole["properties"]["status"])
    rules = {name: whole[name] for name in ("x-kubernetes-validations",) if name in whole}
    schema = {
        "description": " ".join((model.__doc__ or "").split()),
        "type": "object",
        "required": ["spec"],
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": {"type": "object"},
            "spec": spec,
            "status": status,
        },
        **rules,
    }
    return msgspec.json.encode(schema)


def _structural(schema: Mapping[str, Any], definitions: Mapping[str, Schema]) -> Schema:
    """Return a JSON schema as a structural one: references resolved, titles removed."""
    merged = _resolve(schema, definitions)
    result = {key: value for key, value in merged.items() if key not in {"title", "default"}}
    default = merged.get("default")
    if isinstance(default, bool | int) or (isinstance(default, str) and default):
        result["default"] = default
    if "properties" in result:
        result["properties"] = {
            name: _structural(part, definitions) for name, part in result["properties"].items()
        }
    for inner in ("items", "additionalProperties"):
        if isinstance(result.get(inner), Mapping):
            result[inner] = _structural(result[inner], definitions)
    if result.get("additionalProperties") is True:
        del result["additionalProperties"]
    return result


def _resolve(schema: Mapping[str, Any], definitions: Mapping[str, Schema]) -> Schema:
    """Resolve a reference, drop the "or null" of an optional field, turn a const into an enum."""
    merged = dict(schema)
    for choice in merged.pop("anyOf", ()):
        if choice.get("type") != "null":
            merged = {**choice, **merged}
    reference = merged.pop("$ref", None)
    if reference is not None:
        target = _resolve(definitions[reference.rsplit("/", 1)[-1]], definitions)
        merged = {**target, **merged}
    if "const" in merged:
        merged["enum"] = [merged.pop("const")]
    return merged


def _without_defaults(schema: Any) -> Any:
    if isinstance(schema, Mapping):
        return {k: _without_defaults(v) for k, v in schema.items() if k != "default"}
    if isinstance(schema, list):
        return [_without_defaults(item) for item in schema]
    return schema


def by_name(requested_names: Iterable[str] = (), integrated: Sequence[Kind] = ()) -> list[Schema]:
    """Return the CRDs whose kind, plural or a short name is in `wanted`.

    Args:
        requested_names: the names; our own kinds if there are none.
        integrated: kinds of integrations, which are found by their names only.

    Raises:
        KeyError: no kind has one of these names.
    """
    known = {
        name.lower(): kind
        for kind in (*KINDS, *integrated)
        for name in (kind.kind, kind.plural, *kind.short_names)
    }
    chosen = [known[name.lower()] for name in requested_names]
    return [definition(kind) for kind in chosen or KINDS]
