"""CustomResourceDefinitions created from types, so that schema and type always agree."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from controller.resource import Resource
from controller.scaffold.schemas import Schema, create_structural_schema


@dataclass(frozen=True)
class Column:
    """A printer column of `kubectl get`.

    Args:
        name: the header.
        type: the type of the values: `string`, `integer`, `number`, `boolean` or `date`.
        path: the simple JSONPath of a value: `.status.replicas`.
        wide: show the column with `-o wide` only.
    """

    name: str
    type: str
    path: str
    wide: bool = False

    def to_schema(self) -> Schema:
        """Return the column as an entry of additionalPrinterColumns."""
        column: Schema = {"name": self.name, "type": self.type, "jsonPath": self.path}
        return column | {"priority": 1} if self.wide else column


AGE = Column("Age", "date", ".metadata.creationTimestamp")
"""The column that `kubectl get` shows of every built-in kind."""
READY = Column("Ready", "string", '.status.conditions[?(@.type=="Ready")].status')
"""Whether the condition Ready holds."""


@dataclass(frozen=True)
class ScalePaths:
    """The paths of the subresource `scale`, for `kubectl scale` and autoscalers.

    Args:
        replicas: the path of the desired number, in the spec.
        current: the path of the present number, in the status.
        selector: the path of a label selector as text, in the status; empty for none.
    """

    replicas: str = ".spec.replicas"
    current: str = ".status.replicas"
    selector: str = ""

    def to_schema(self) -> Schema:
        """Return the paths as the CRD's `subresources.scale`."""
        paths = {"specReplicasPath": self.replicas, "statusReplicasPath": self.current}
        return paths | ({"labelSelectorPath": self.selector} if self.selector else {})


@dataclass(frozen=True)
class CustomKind:
    """A kind and version, and the fields of its CRD that the type does not give.

    Args:
        resource: its group, version and names, and the type from which the schema is created.
        columns: the printer columns of `kubectl get`.
        short_names: the names that kubectl accepts in place of the plural.
        categories: the names under which `kubectl get` lists the kind together with others.
        selectable: fields that field selectors may name, for example `.spec.pool`.
        labels: the labels of the CustomResourceDefinition.
        scale: the subresource `scale`; None for none.
        is_served: whether the version is served.
        required: fields such as `spec` that the server requires although the type has a default
            for them, so that the type can decode objects without.
    """

    resource: Resource[Any]
    columns: tuple[Column, ...] = ()
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    selectable: tuple[str, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    scale: ScalePaths | None = None
    is_served: bool = True
    required: tuple[str, ...] = ()


def create_crd(
    kind: CustomKind, *older: CustomKind, conversion: Mapping[str, Any] | None = None
) -> Schema:
    """Return the CustomResourceDefinition of a kind.

    A type with a field `status` gets the subresource `status`.

    Args:
        kind: the version that is stored; names, categories and labels are taken from it.
        older: other served or stored versions of the kind.
        conversion: `spec.conversion`, for versions whose schemas differ; None for none.

    Raises:
        ValueError: an older version is of another kind, or of the same version.
        TypeError, ImportError: as for `create_structural_schema`.
    """
    resource = kind.resource
    for older_version in older:
        older_kind = older_version.resource
        if (older_kind.full_name, older_kind.kind) != (resource.full_name, resource.kind):
            raise ValueError(f"{older_kind.kind} is not a version of {resource.kind}")
    versions = [version.resource.version for version in (kind, *older)]
    if len(set(versions)) < len(versions):
        raise ValueError(f"{resource.kind} has a version twice: {', '.join(versions)}")
    metadata: Schema = {"name": resource.full_name}
    if kind.labels:
        metadata["labels"] = dict(kind.labels)
    names: Schema = {
        "kind": resource.kind,
        "listKind": f"{resource.kind}List",
        "plural": resource.plural,
        "singular": resource.kind.lower(),
    }
    if kind.short_names:
        names["shortNames"] = list(kind.short_names)
    if kind.categories:
        names["categories"] = list(kind.categories)
    spec: Schema = {
        "group": resource.group,
        "scope": "Namespaced" if resource.namespaced else "Cluster",
        "names": names,
        "versions": [_create_version(version, kind) for version in (kind, *older)],
    }
    if conversion is not None:
        spec["conversion"] = dict(conversion)
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": metadata,
        "spec": spec,
    }


def _create_version(version: CustomKind, stored: CustomKind) -> Schema:
    """Return one version of a CustomResourceDefinition.

    Args:
        version: the version to define.
        stored: the version in which the server stores the objects.
    """
    schema = create_structural_schema(version.resource.type)
    required = dict.fromkeys((*schema.get("required", ()), *version.required))
    if required:
        # Rebuilt in the order in which `create_structural_schema` writes these keys, because the
        # order is that of the printed manifest.
        parts = {"type": "object", "required": list(required), "properties": schema["properties"]}
        schema = {name: schema[name] for name in schema if name == "description"} | parts | schema
        schema["required"] = list(required)  # not the shorter list, which `schema` had
    definition: Schema = {
        "name": version.resource.version,
        "served": version.is_served,
        "storage": version is stored,
        "schema": {"openAPIV3Schema": schema},
    }
    subresources: Schema = {"status": {}} if "status" in schema["properties"] else {}
    if version.scale is not None:
        subresources["scale"] = version.scale.to_schema()
    if subresources:
        definition["subresources"] = subresources
    if version.columns:
        definition["additionalPrinterColumns"] = [column.to_schema() for column in version.columns]
    if version.selectable:
        definition["selectableFields"] = [{"jsonPath": path} for path in version.selectable]
    return definition
