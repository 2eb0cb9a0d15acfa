"""Rules for kinds that other components of a cluster serve: stored, judged, and seldom acted on.

What sets such a kind apart from others is said in one line of class attributes.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from typing_extensions import override

from envtest.builtins.rules import BuiltinRules
from envtest.patching import ZERO
from envtest.schema.errors import FieldError, Verbatim, forbidden, invalid
from envtest.server import objectmeta
from envtest.server.objectmeta import Body
from envtest.server.rules import keep_only


class ShapedRules(BuiltinRules):
    """A kind with the fields that Go always writes, and what its registry allows."""

    # Whether the registry counts generations, and what may be updated without a resourceVersion.
    counting: ClassVar[bool] = False
    conditional: ClassVar[bool] = False
    # Whether a new status takes the object's labels and annotations along.
    status_with_labels: ClassVar[bool] = False
    # Whether an update is judged as a new object is.
    judged_whole: ClassVar[bool] = True
    fields: ClassVar[frozenset[str]] = frozenset()

    @override
    def __init__(self, group: str, version: str, kind: str, *, has_status: bool) -> None:
        super().__init__(group, version, kind, has_status=has_status)
        self.counts_generations = self.counting
        self.unconditional_update = not self.conditional
        self._zero: Mapping[str, Any] = ZERO[group, kind]

    @override
    def default(self, body: Body) -> None:
        fill(body, self._zero)

    @override
    def first_status(self) -> dict[str, Any]:
        return {"status": dict(self._zero["status"])} if "status" in self._zero else {}

    @override
    def prepare_subresource(self, name: str, body: Body, old: Body) -> None:
        if name != "status" or self.status_with_labels:
            super().prepare_subresource(name, body, old)
        else:
            keep_only(body, old, "status")

    @override
    def check_update(self, body: Body, old: Body, subresource: str) -> list[FieldError]:
        if subresource:
            found = objectmeta.check_change(body["metadata"], old["metadata"])
            return found + list(self.status_problems(body))
        found = super().check_update(body, old, subresource)
        if self.judged_whole:
            found += objectmeta.check(
                body["metadata"], namespaced=self._namespaced, name_rule=self.name_rule
            )
        return found

    def status_problems(self, body: Body) -> Iterator[FieldError]:  # noqa: ARG002  # a hook
        """Yield what is wrong with a status that was sent to the subresource."""
        yield from ()

    @override
    def check_content(self, body: Body, old: Body | None) -> list[FieldError]:
        return list(self.problems(body, old))

    def problems(self, body: Body, old: Body | None) -> Iterator[FieldError]:  # noqa: ARG002
        """Yield what is wrong with an object; `old` is what an update replaces."""
        yield from ()

    @override
    def selectable(self, field: str) -> bool:
        return field in self.fields or super().selectable(field)

    @override
    def unselectable(self, field: str) -> str:
        if self.fields:
            return f"field label not supported: {field}"
        return super().unselectable(field)


def fill(body: Body, zero: Mapping[str, Any]) -> None:
    """Add what Go writes of fields that nobody set."""
    for name, value in zero.items():
        if isinstance(value, Mapping):
            fill(body.setdefault(name, {}), value)
        else:
            body.setdefault(name, value)


def changed(
    body: Body, old: Body | None, path: str, shown: Mapping[str, Any] | None = None
) -> Iterator[FieldError]:
    """Refuse another value than before at a dotted path.

    Args:
        body: the new object.
        old: what it replaces, if it does.
        path: where the value is.
        shown: the fields in Go's names and order, where the real server prints its own structure.
    """
    if old is None:
        return
    now, before = _at(body, path), _at(old, path)
    if (now or None) != (before or None):
        told = now if shown is None else Verbatim(json.dumps(shown, separators=(",", ":")))
        yield invalid(path, told, "field is immutable")


def update_forbidden(body: Body, old: Body | None, *names: str) -> Iterator[FieldError]:
    """Refuse other values than before, in the words of the storage kinds."""
    for name in names:
        if old is not None and (body.get(name) or None) != (old.get(name) or None):
            yield forbidden(name, f"updates to {name} are forbidden.")


def _at(body: Body, path: str) -> Any:
    found: Any = body
    for part in path.split("."):
        found = found.get(part) if isinstance(found, dict) else None
    return found
