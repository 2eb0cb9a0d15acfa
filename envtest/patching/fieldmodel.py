"""The field model of one kind in one version, with what belongs to no single field of it."""

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from envtest.kinds import catalogue
from envtest.patching import schemas
from envtest.patching.fieldset import Fields
from envtest.patching.model import UNKNOWN, Node
from envtest.patching.zeros import RESET, ZERO


@dataclass(frozen=True, slots=True)
class FieldModel:
    """What server-side apply and ownership tracking need to know of a type.

    Attributes:
        root: how the fields of an object are owned.
        zero: the object that a new one is compared with: what Go writes of a struct that nobody
            filled in, so that an empty `spec` of a Service is nobody's; {} for custom resources.
        reset: by subresource ("" is the object itself), the fields that a write there cannot
            change and therefore does not own.
        is_custom: whether the kind is a custom resource, which takes it ill if an entry is of a
            version that it does not have; built-in kinds just drop such entries.
    """

    root: Node
    zero: Mapping[str, Any] = field(default_factory=dict)
    reset: Mapping[str, Fields] = field(default_factory=dict)
    is_custom: bool = False

    @classmethod
    def from_schema(
        cls,
        open_api_v3: Mapping[str, Any] | None,
        *,
        preserve_unknown: bool = False,
        status_subresource: bool = True,
    ) -> Self:
        """Return the model of a custom resource version.

        Args:
            open_api_v3: its structural schema, None for a version without one.
            preserve_unknown: the old `spec.preserveUnknownFields` of the CRD.
            status_subresource: whether the version has one; if so, only writes there own status.
        """
        reset: dict[str, Fields] = {}
        if status_subresource:
            reset = {"": {"f:status": {}}, "status": {"f:metadata": {}, "f:spec": {}}}
        if open_api_v3 is None:
            return cls(UNKNOWN, {}, reset, is_custom=True)
        root = schemas.custom_resource(open_api_v3, _definitions(), preserve=preserve_unknown)
        return cls(root, {}, reset, is_custom=True)

    @classmethod
    def builtin(cls, group: str, kind: str, version: str | None = None) -> Self:
        """Return the model of a kind that every server has.

        Raises:
            KeyError: there is no such kind.
        """
        root = _builtin_root(group, kind, version)
        zero: Mapping[str, Any] = ZERO.get((group, kind), {"metadata": {}})
        reset: Mapping[str, Fields] = RESET.get((group, kind), {})
        return cls(root, zero, reset)


@functools.cache
def _definitions() -> schemas.Definitions:
    """Return the built-in definitions, made into nodes as they are asked for."""
    return schemas.Definitions(catalogue.schemas())


@functools.cache
def builtin_schema_name(group: str, kind: str, version: str | None = None) -> str:
    """Return the name of the schema of a built-in kind; the newest version if none is given.

    Raises:
        KeyError: there is no such kind.
    """
    names = {
        gvk["version"]: name
        for name, schema in catalogue.schemas().items()
        for gvk in schema.get("x-kubernetes-group-version-kind", ())
        if (gvk["group"], gvk["kind"]) == (group, kind)
    }
    if not names or (version is not None and version not in names):
        raise KeyError(f"there is no built-in kind {kind} in group {group!r} version {version}")
    return names[version or max(names)]


@functools.cache
def _builtin_root(group: str, kind: str, version: str | None) -> Node:
    """Return the node of a built-in kind."""
    return _definitions().node(builtin_schema_name(group, kind, version))


@dataclass(frozen=True, slots=True)
class Versions:
    """The other versions of a kind, for objects whose fields were written through several.

    Attributes:
        model: the model of an apiVersion, None if there is no such version, served or not.
        convert: an object as it reads in an apiVersion; must not change its argument.
    """

    model: Callable[[str], FieldModel | None]
    convert: Callable[[dict[str, Any], str], dict[str, Any]]
