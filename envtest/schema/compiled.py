"""Compiled schemas, which prune, default and validate objects of one kind and version."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from types import MappingProxyType
from typing import Any, Final

import msgspec

from envtest.memo import remember_results
from envtest.schema import objectmeta
from envtest.schema.correlation import Pair, Shape
from envtest.schema.embedded import EmbeddedNode, MalformedObject
from envtest.schema.errors import NO_FIELD, FieldError, build_invalid_error
from envtest.schema.maplists import MapListNode
from envtest.schema.pruning import AppliedDefaultNode, DefaultNode, PruneNode
from envtest.schema.rules import RuleTree
from envtest.schema.values import ValueSchema

_NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})
_RULES_SKIPPED: Final = build_invalid_error(
    NO_FIELD,
    None,
    "some validation rules were not checked because the object was invalid; correct the existing "
    "errors to complete "
    "validation",
)

# The number of schemas that are cached for the next server, and the longest JSON of one. Most
# tests start a server of their own with the same kinds. Validating and compiling their schemas
# took most of the time until they were served.
CACHED_SCHEMAS: Final = 64
LONGEST_CACHED_SCHEMA: Final = 1 << 16


class CompiledSchema:
    """The schema of one version of a kind, compiled once; all methods work on plain decoded JSON.

    The order in which a server uses it: `prune`, `set_defaults`, then `validate`.
    """

    def __init__(self, open_api_v3_schema: Mapping[str, Any]) -> None:
        self._schema = open_api_v3_schema
        self._shape = Shape(open_api_v3_schema)
        self._embedded = EmbeddedNode.compile(open_api_v3_schema)

    # Built on first use, because many versions are never used.

    @cached_property
    def _prune(self) -> PruneNode:
        """The schema, compiled for dropping unknown fields."""
        return PruneNode(self._schema)

    @cached_property
    def _defaults(self) -> DefaultNode:
        """The schema, compiled for setting defaults."""
        return DefaultNode(self._schema)

    @cached_property
    def _applied_defaults(self) -> AppliedDefaultNode:
        """The schema, compiled for setting defaults after a server-side apply."""
        return AppliedDefaultNode(self._schema)

    @cached_property
    def _rules(self) -> RuleTree | None:
        """The compiled rules of the schema; None if it has none."""
        return RuleTree.compile(self._schema, root=True)

    @cached_property
    def _values(self) -> ValueSchema:
        """The schema, compiled for validating values."""
        return ValueSchema(self._schema)

    @cached_property
    def _lists(self) -> MapListNode | None:
        """The set and map lists of the schema; None if it has none."""
        return MapListNode.compile(self._schema)

    @staticmethod
    def compile(open_api_v3_schema: Mapping[str, Any]) -> CompiledSchema:
        """Compile the `openAPIV3Schema` of a CRD version that `validate_crd` has accepted.

        Equal schemas may share one object, which never changes and has its own copy of the schema.
        """
        return _compile_json(msgspec.json.encode(open_api_v3_schema).decode())

    def prune(self, obj: dict[str, Any], old: Mapping[str, Any] = _NOTHING) -> list[str]:
        """Drop unknown fields and normalize metadata, in place.

        Args:
            obj: the object.
            old: an object that was pruned and defaulted. Parts of `obj` that are the very same
                Python object there, as after a merge patch, are skipped.

        Returns:
            The paths of the dropped fields in the server's order: metadata's, then those of the
            schema sorted.

        Raises:
            MalformedObject: an embedded object has an apiVersion, kind or metadata of the wrong
                type.
            MalformedMetadata: metadata has a field of the wrong type. The messages of both are the
                server's; they follow `Widget in version "v1" cannot be handled as a Widget: `.
        """
        metadata = obj.get("metadata")
        problems: list[str] = []
        if metadata is not None:
            problems = objectmeta.coerce_metadata(
                metadata, "metadata", old.get("metadata") or _NOTHING
            )
        unknown: list[str] = []
        self._prune.prune_root(obj, unknown, old)
        unknown.sort()
        if self._embedded is not None:
            self._embedded.coerce_objects(obj, "", unknown)
        return problems + unknown

    def set_defaults(self, obj: dict[str, Any], old: Mapping[str, Any] = _NOTHING) -> None:
        """Set defaults, and drop nulls where the schema does not allow null, in place.

        Args:
            obj: the object.
            old: an object that was pruned and defaulted; parts that are the same Python object
                there are skipped.
        """
        self._defaults.apply_defaults(obj, old)

    def set_defaults_on_apply(self, obj: dict[str, Any]) -> None:
        """Set defaults after a server-side apply, in place; nulls without a default stay."""
        self._applied_defaults.apply_defaults(obj)

    def validate(
        self,
        obj: Mapping[str, Any],
        old: Mapping[str, Any] | None = None,
        *,
        first: Sequence[FieldError] = (),
        warnings: list[str] | None = None,
    ) -> list[FieldError]:
        """Return all errors of an object, in the server's order.

        Args:
            obj: the object, pruned and defaulted.
            old: the object that it replaces; None for a new one. Errors in parts
                that equal the old ones are then left out, and rules may read oldSelf.
            first: errors of the caller that come first in the result. Like all others, they decide
                whether rules are evaluated.
            warnings: a list; messages of rules that an unchanged part breaks are added to it.

        Returns:
            The errors; empty when the object is valid.
        """
        pair = None if old is None else Pair(self._shape, obj, old)
        errors: list[FieldError] = []
        self._values.add_errors(obj, "", out=errors, pair=pair)
        out = [*first, *_drop_repeated(errors)]
        if self._embedded is not None:
            self._embedded.add_errors(obj, "", out)
        if self._lists is not None:
            self._add_list_errors(obj, old, out)
        if self._rules is not None:
            # Rules may rely on the schema: they are not evaluated over values of another shape.
            if out and any(error.blocks_rules for error in out):
                out.append(_RULES_SKIPPED)
            else:
                out += self._rules.evaluate_rules(
                    obj, pair, warnings if warnings is not None else []
                )
        return out

    def _add_list_errors(
        self, obj: Mapping[str, Any], old: Mapping[str, Any] | None, out: list[FieldError]
    ) -> None:
        """Append the errors of set and map lists, unless the old object has such errors, too."""
        assert self._lists is not None
        errors: list[FieldError] = []
        self._lists.add_errors(obj, "", errors)
        if errors and old is not None:
            # Ratcheting: an update need not correct lists that were stored with duplicates.
            old_errors: list[FieldError] = []
            self._lists.add_errors(old, "", old_errors)
            if old_errors:
                return
        out += errors


@remember_results(CACHED_SCHEMAS, LONGEST_CACHED_SCHEMA)
def _compile_json(schema_json: str) -> CompiledSchema:
    """Compile a schema by its JSON."""
    return CompiledSchema(msgspec.json.decode(schema_json))


def _drop_repeated(errors: list[FieldError]) -> list[FieldError]:
    """Return each error once; a value may fail the same check in several branches of a schema."""
    unique: dict[tuple[str, str, str], FieldError] = {}
    for error in errors:
        unique.setdefault((error.error_type, error.field, error.detail), error)
    return list(unique.values())


__all__ = ["CompiledSchema", "MalformedObject"]
