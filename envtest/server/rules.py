"""The rules by which kinds differ, as hooks of one abstract class.

Storage, patches, deletion and watches are the same for all kinds. Defaults, validation and special
fields differ. The methods of `Rules` that are not abstract fit a kind without special rules.
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
    """Hooks of a kind, in the order in which a write calls them.

    Hooks that return nothing change the object in place. `old` is the stored object.
    """

    # PUT without resourceVersion is allowed.
    allows_unconditional_update = True
    # PUT of an object that does not exist creates it.
    creates_on_update = False
    # DELETE answers with the object instead of a Status.
    returns_deleted = False
    # Custom resources: alphabetical JSON, items of lists carry their kind, no strategic patch.
    is_custom = False
    # metadata.generation counts changes of anything but metadata and status.
    counts_generations = False
    # The first DELETE marks the object as the kind needs, and ignores propagationPolicy.
    marks_deletion = False
    # The group in refusals of invalid objects; None if it is the resource's group.
    error_group: str | None = None

    @abstractmethod
    def decode(self, body: Body) -> list[str]:
        """Drop unknown fields and normalize values, in place; return the paths of unknown fields.

        Raises:
            TypedError: a value has the wrong type.
            MalformedObject: an embedded object cannot be decoded.
            MalformedMetadata: metadata cannot be decoded.
        """

    def set_defaults(self, body: Body) -> None:  # noqa: B027  # optional
        """Set the default values of absent fields."""

    def decode_update(self, body: Body, old: Body) -> list[str]:  # noqa: ARG002  # optional
        """Decode an updated body, which may share parts with the stored object.

        A kind may skip parts that are the very same Python objects in `old`, because these were
        decoded when they were stored. By default no part is skipped.
        """
        return self.decode(body)

    def set_defaults_on_update(self, body: Body, old: Body) -> None:  # noqa: ARG002  # optional
        """Set defaults in an updated body that may share parts with the stored object.

        Shared parts have their defaults already. By default no part is skipped.
        """
        self.set_defaults(body)

    def set_defaults_on_apply(self, body: Body) -> None:
        """Set defaults in the result of a server-side apply.

        Custom resources keep their nulls here, as in kube-apiserver.
        """
        self.set_defaults(body)

    def list_warnings(self, body: Body, old: Body | None) -> list[str]:  # noqa: ARG002  # a hook
        """Return warnings to the client that writes an object; `old` is None for a new object."""
        return []

    @abstractmethod
    def get_field_model(self) -> FieldModel:
        """Return the fields that managers can own, for managedFields and server-side apply."""

    def prepare_create(self, body: Body) -> None:  # noqa: B027  # optional
        """Set or drop the fields of a new object that clients cannot decide."""

    def set_fields_after_naming(self, body: Body) -> None:  # noqa: B027  # optional
        """Set fields that depend on the name of a new object, after a name was generated."""

    def prepare_update(self, body: Body, old: Body) -> None:  # noqa: B027  # optional
        """Restore the fields that an update of the main resource cannot change."""

    def prepare_subresource(self, name: str, body: Body, old: Body) -> None:
        """Restore all fields but those that an update of the subresource `name` may change."""
        if name == "status":
            restore_other_fields(body, old, "status")

    def needs_new_generation(self, body: Body, old: Body) -> bool:
        """Return whether an update changes any field but metadata and status."""
        return any(
            body.get(name) != old.get(name)
            for name in body.keys() | old.keys()
            if name not in {"metadata", "status"}
        )

    @abstractmethod
    def find_errors(self, body: Body) -> list[FieldError]:
        """Return the errors of a new object.

        The errors of its metadata are included if the kind validates its metadata itself.
        """

    @abstractmethod
    def find_update_errors(self, body: Body, old: Body, subresource: str) -> list[FieldError]:
        """Return the errors of an update; `subresource` is empty for the main resource."""

    def find_update_errors_with_warnings(
        self,
        body: Body,
        old: Body,
        subresource: str,
        warnings: list[str],  # noqa: ARG002  # optional
    ) -> list[FieldError]:
        """Return the errors of an update.

        In a kind that overrides this, errors that the stored object has as well may become
        warnings, which are added to `warnings` (ratcheting validation).
        """
        return self.find_update_errors(body, old, subresource)

    def begin_deletion(self, body: Body) -> None:  # noqa: B027  # optional
        """Change an object that becomes terminating, such as its phase."""

    def can_be_removed(self, body: Body) -> bool:
        """Return whether a terminating object can be removed, because no finalizer remains."""
        return not body["metadata"].get("finalizers")

    def is_selectable(self, field: str) -> bool:
        """Return whether field selectors may use a field."""
        return field in {"metadata.name", "metadata.namespace"}

    def read_field_value(self, body: Body, field: str) -> str:
        """Return the value that a field selector compares."""
        return read_field_text(body, field)

    def describe_unselectable(self, field: str) -> str:
        """Return the message that refuses a field selector with this field."""
        return f"field label not supported: {field}"

    @abstractmethod
    def list_columns(self) -> list[BuiltInColumn]:
        """Return the columns of tables of this kind."""

    @abstractmethod
    def build_cells(self, body: Body) -> Cells:
        """Return the values of an object, one for each column."""


def restore_other_fields(body: Body, old: Body, changeable_field: str) -> None:
    """Restore all fields of `body` from the stored object `old`, except for one top-level field.

    The managedFields and the resourceVersion of `body` are not restored either.
    """
    sent_meta = body.get("metadata") or {}
    changed = {changeable_field: body[changeable_field]} if changeable_field in body else {}
    not_restored = {changeable_field, "metadata"}
    restored = {name: value for name, value in old.items() if name not in not_restored}
    body.clear()
    body.update(restored)
    body.update(changed)
    sent_version = sent_meta.get("resourceVersion", "")
    body["metadata"] = {**old["metadata"], "resourceVersion": sent_version}
    if "managedFields" in sent_meta:
        body["metadata"]["managedFields"] = sent_meta["managedFields"]
    else:
        body["metadata"].pop("managedFields", None)


def read_field_text(body: Mapping[str, Any], path: str) -> str:
    """Return the value at a dotted path as field selectors compare it; empty if it is absent."""
    value: Any = body
    for part in path.split("."):
        if not isinstance(value, dict) or part not in value:
            return ""
        value = value[part]
    if isinstance(value, bool):
        return "true" if value else "false"
    return value if isinstance(value, str) else str(value)
