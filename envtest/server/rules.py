"""What makes one kind different from another, behind one set of hooks.

Storage, patches, deletion and watches are the same for all kinds; defaulting, validation and
special fields are not. `Rules` holds the answers of a kind without specialities.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from controller.managedfields import FieldModel
from envtest.schema.errors import FieldError
from envtest.server.objectmeta import Body

Cells = list[Any]


@dataclass(frozen=True, slots=True)
class BuiltInColumn:
    """One column of a table."""

    name: str
    type: str
    description: str
    format: str = ""
    priority: int = 0

    def as_dict(self) -> dict[str, Any]:
        """Return the entry of `columnDefinitions`."""
        return {
            "name": self.name,
            "type": self.type,
            "format": self.format,
            "description": self.description,
            "priority": self.priority,
        }


class Rules(ABC):
    """Hooks of a kind, in the order in which a write meets them."""

    # PUT without resourceVersion is allowed.
    unconditional_update = True
    # PUT of an object that does not exist creates it.
    create_on_update = False
    # DELETE answers with the object instead of a Status.
    returns_deleted = False
    # Custom resources: alphabetical JSON, items of lists carry their kind, no strategic patch.
    custom = False
    # metadata.generation counts changes of anything but metadata and status.
    counts_generations = False
    # DELETE marks an object in a way of the kind's own, whatever the options say of propagation.
    marks_deletion = False
    # The group that refusals name, where it is not the resource's own.
    error_group: str | None = None

    @abstractmethod
    def decode(self, body: Body) -> list[str]:
        """Drop what the kind has no place for; return the paths of unknown fields."""

    def default(self, body: Body) -> None:  # noqa: B027  # optional
        """Fill in what a client may leave out."""

    def decode_changed(self, body: Body, old: Body) -> list[str]:  # noqa: ARG002  # optional
        """Decode like `decode` a body that may share parts with the stored object it replaces.

        The stored object has been decoded and defaulted, so a kind may skip the parts of `body`
        that are the very same objects in `old`. By default all of it is decoded.
        """
        return self.decode(body)

    def default_changed(self, body: Body, old: Body) -> None:  # noqa: ARG002  # optional
        """Default like `default` a body that may share parts with the stored object."""
        self.default(body)

    def default_applied(self, body: Body) -> None:
        """Default like `default` the result of a server-side apply, whose nulls stay."""
        self.default(body)

    def warnings(self, body: Body, old: Body | None) -> list[str]:  # noqa: ARG002  # a hook
        """Return warnings for the writer of an object."""
        return []

    @abstractmethod
    def model(self) -> FieldModel:
        """Return the ownable fields, for managedFields and server-side apply."""

    def prepare_create(self, body: Body) -> None:  # noqa: B027  # optional
        """Drop and set what a client cannot decide at creation."""

    def complete_new(self, body: Body) -> None:  # noqa: B027  # optional
        """Set what depends on the name of a new object, which may be a generated one."""

    def prepare_update(self, body: Body, old: Body) -> None:  # noqa: B027  # optional
        """Restore what an update of the main resource cannot change."""

    def prepare_subresource(self, name: str, body: Body, old: Body) -> None:
        """Restore everything but what a subresource may change."""
        if name == "status":
            keep_only(body, old, "status")

    def is_new_generation(self, body: Body, old: Body) -> bool:
        """Return whether an update changes what the generation counts."""
        return any(
            body.get(name) != old.get(name)
            for name in body.keys() | old.keys()
            if name not in {"metadata", "status"}
        )

    @abstractmethod
    def check(self, body: Body) -> list[FieldError]:
        """Validate an object that is to be created, and its metadata where the kind does so."""

    @abstractmethod
    def check_update(self, body: Body, old: Body, subresource: str) -> list[FieldError]:
        """Validate an update."""

    def check_update_with_warnings(
        self,
        body: Body,
        old: Body,
        subresource: str,
        warnings: list[str],  # noqa: ARG002  # optional
    ) -> list[FieldError]:
        """Validate an update; append to `warnings` what is accepted as it was wrong before."""
        return self.check_update(body, old, subresource)

    def begin_deletion(self, body: Body) -> None:  # noqa: B027  # optional
        """Mark an object whose deletion waits for finalizers."""

    def is_finished(self, body: Body) -> bool:
        """Return whether a terminating object may go now."""
        return not body["metadata"].get("finalizers")

    def selectable(self, field: str) -> bool:
        """Return whether a field selector may name a field."""
        return field in {"metadata.name", "metadata.namespace"}

    def field_value(self, body: Body, field: str) -> str:
        """Return the value that a field selector compares."""
        return value_at(body, field)

    def unselectable(self, field: str) -> str:
        """Return the refusal of a field that cannot be selected."""
        return f"field label not supported: {field}"

    @abstractmethod
    def columns(self) -> list[BuiltInColumn]:
        """Return the columns of its tables."""

    @abstractmethod
    def cells(self, body: Body) -> Cells:
        """Return one row of its tables."""


def keep_only(body: Body, old: Body, part: str) -> None:
    """Make a body the old object but for one part, its managedFields and its resourceVersion."""
    meta = body.get("metadata") or {}
    kept = {name: body[name] for name in (part,) if name in body}
    restored = {name: value for name, value in old.items() if name not in {part, "metadata"}}
    body.clear()
    body.update(restored)
    body.update(kept)
    body["metadata"] = {**old["metadata"], "resourceVersion": meta.get("resourceVersion", "")}
    if "managedFields" in meta:
        body["metadata"]["managedFields"] = meta["managedFields"]
    else:
        body["metadata"].pop("managedFields", None)


def value_at(body: Mapping[str, Any], path: str) -> str:
    """Return the value that a field selector compares: the text at a dotted path, or nothing."""
    value: Any = body
    for part in path.split("."):
        if not isinstance(value, dict) or part not in value:
            return ""
        value = value[part]
    if isinstance(value, bool):
        return "true" if value else "false"
    return value if isinstance(value, str) else str(value)
