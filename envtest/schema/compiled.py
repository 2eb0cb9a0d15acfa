"""A schema made ready for use.

Pruning, defaulting and validation of objects of one kind and version.
"""

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
from envtest.schema.errors import NO_FIELD, FieldError, invalid
from envtest.schema.maplists import MapListNode
from envtest.schema.pruning import AppliedDefaultNode, DefaultNode, PruneNode
from envtest.schema.rules import RuleTree
from envtest.schema.values import ValueSchema

_NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})
_RULES_SKIPPED: Final = invalid(
    NO_FIELD,
    None,
    "some validation rules were not checked because the object was invalid; correct the existing "
    "errors to complete "
    "validation",
)

# How many schemas are kept for the next server that is given them, and how long their JSON may be.
# Tests start a server each, with the same kinds: to check and to compile those of one product took
# most of the time until they were served.
KEPT: Final = 64
LONGEST_KEPT: Final = 1 << 16


class CompiledSchema:
    """The schema of one version of a kind, compiled once; all methods work on plain decoded JSON.

    The order in which a server uses it: `prune`, `default`, then `validate`.
    """

    def __init__(self, open_api_v3_schema: Mapping[str, Any]) -> None:
        self._schema = open_api_v3_schema
        self._shape = Shape(open_api_v3_schema)
        self._embedded = EmbeddedNode.compile(open_api_v3_schema)

    # Made when they are first needed: a version that is never used needs none of these.

    @cached_property
    def _prune(self) -> PruneNode:
        return PruneNode(self._schema)

    @cached_property
    def _defaults(self) -> DefaultNode:
        return DefaultNode(self._schema)

    @cached_property
    def _applied_defaults(self) -> AppliedDefaultNode:
        return AppliedDefaultNode(self._schema)

    @cached_property
    def _rules(self) -> RuleTree | None:
        return RuleTree.compile(self._schema, root=True)

    @cached_property
    def _values(self) -> ValueSchema:
        return ValueSchema(self._schema)

    @cached_property
    def _lists(self) -> MapListNode | None:
        return MapListNode.compile(self._schema)

    @staticmethod
    def compile(open_api_v3_schema: Mapping[str, Any]) -> CompiledSchema:
        """Compile the `openAPIV3Schema` of a CRD version that `validate_crd` has accepted.

        The same schema may give the same object: it does not change, and has a copy of its own.
        """
        return _compile_json(msgspec.json.encode(open_api_v3_schema).decode())

    def prune(self, obj: dict[str, Any], old: Mapping[str, Any] = _NOTHING) -> list[str]:
        """Drop unknown fields and bring metadata into shape, in place.

        Args:
            obj: the object.
            old: an object that has been through this and `default`; what both share (the very
                same value, as a merge patch leaves it) is spared a second look.

        Returns:
            The paths of the dropped fields in the server's order: metadata's, then those of the
            schema sorted.

        Raises:
            MalformedObject: an embedded object has an apiVersion, kind or metadata of the wrong
                type.
            MalformedMetadata: metadata has a field of the wrong type. Both texts are the server's,
                to be put behind `Widget in version "v1" cannot be handled as a Widget: `.
        """
        metadata = obj.get("metadata")
        problems: list[str] = []
        if metadata is not None:
            problems = objectmeta.coerce(metadata, "metadata", old.get("metadata") or _NOTHING)
        unknown: list[str] = []
        self._prune.prune_root(obj, unknown, old)
        unknown.sort()
        if self._embedded is not None:
            self._embedded.coerce(obj, "", unknown)
        return problems + unknown

    def default(self, obj: dict[str, Any], old: Mapping[str, Any] = _NOTHING) -> None:
        """Fill in defaults and drop nulls that mean «not there», in place.

        Args:
            obj: the object.
            old: as for `prune`.
        """
        self._defaults.apply(obj, old)

    def default_applied(self, obj: dict[str, Any]) -> None:
        """Fill in defaults after a server-side apply, in place; nulls stay."""
        self._applied_defaults.apply(obj)

    def validate(
        self,
        obj: Mapping[str, Any],
        old: Mapping[str, Any] | None = None,
        *,
        first: Sequence[FieldError] = (),
        also: Sequence[FieldError] = (),
        warnings: list[str] | None = None,
    ) -> list[FieldError]:
        """Return all errors of an object, in the server's order.

        Args:
            obj: the object, pruned and defaulted.
            old: what it replaces. Errors in parts that did not change are then forgiven, and rules
                that compare with the old state are evaluated.
            first: errors found before (metadata, scale); they come first in the answer and decide
                with the others whether rules are evaluated at all.
            also: errors found before that come after those of the values.
            warnings: receives the messages of rules that an unchanged part breaks.

        Returns:
            The errors; empty when the object is valid.
        """
        pair = None if old is None else Pair(self._shape, obj, old)
        errors: list[FieldError] = []
        self._values.check(obj, "", out=errors, pair=pair)
        out = [*first, *_once(errors), *also]
        if self._embedded is not None:
            self._embedded.check(obj, "", out)
        if self._lists is not None:
            self._check_lists(obj, old, out)
        if self._rules is not None:
            if out and any(error.blocks_rules for error in out):
                out.append(_RULES_SKIPPED)
            else:
                out += self._rules.check(obj, pair, warnings if warnings is not None else [])
        return out

    def _check_lists(
        self, obj: Mapping[str, Any], old: Mapping[str, Any] | None, out: list[FieldError]
    ) -> None:
        assert self._lists is not None
        errors: list[FieldError] = []
        self._lists.check(obj, "", errors)
        if errors and old is not None:
            # An object that was wrong before may stay wrong in this respect.
            before: list[FieldError] = []
            self._lists.check(old, "", before)
            if before:
                return
        out += errors


@remember_results(KEPT, LONGEST_KEPT)
def _compile_json(schema_json: str) -> CompiledSchema:
    """Compile a schema by its JSON."""
    return CompiledSchema(msgspec.json.decode(schema_json))


def _once(errors: list[FieldError]) -> list[FieldError]:
    """Return each error once, as a value may fail the same check in several branches."""
    seen: dict[tuple[str, str, str], FieldError] = {}
    for error in errors:
        seen.setdefault((error.kind, error.field, error.detail), error)
    return list(seen.values())


__all__ = ["CompiledSchema", "MalformedObject"]
