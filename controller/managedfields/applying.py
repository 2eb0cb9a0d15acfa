"""Server-side apply: merges an applied object into the live one, and settles who owns which field.

The claims of an applier are the fields of the object that it applies. A conflict is a field that
an apply would take from another owner. The annotation is kubectl's `last-applied-configuration`:
client-side apply stores the object in it. So it proves which fields kubectl applied before it used
server-side apply.
"""

import json
from typing import Any, NamedTuple

from controller.managedfields import entries, fieldset, gotext
from controller.managedfields.compare import are_equal, list_claims
from controller.managedfields.entries import APPLY, UNOWNED, UPDATE, EntryManager, Managed, Owned
from controller.managedfields.errors import (
    ApplyConflict,
    FieldCause,
    ModelError,
    create_bad_request,
    create_unclassified_error,
)
from controller.managedfields.fieldmodel import FieldModel, Versions
from controller.managedfields.fieldset import Fields
from controller.managedfields.merging import check_object, merge_objects
from controller.managedfields.pruning import prune
from controller.managedfields.tracking import TrackedWrite, subtract_losses, update_entries

ANNOTATION = "kubectl.kubernetes.io/last-applied-configuration"
KUBECTL = "kubectl"
_MAX_ANNOTATIONS = 256 * 1024  # bytes, all keys and values together


def _get_annotations(obj: dict[str, Any]) -> dict[str, Any]:
    """Return the annotations of an object; empty if they are absent or malformed."""
    metadata = obj.get("metadata")
    annotations = metadata.get("annotations") if isinstance(metadata, dict) else None
    return annotations if isinstance(annotations, dict) else {}


def read_annotation(write: TrackedWrite, live: dict[str, Any]) -> Fields | None:
    """Return the fields whose live values equal the values in kubectl's annotation.

    None if the annotation is absent, cannot be parsed or is of another version, or if one of the
    two objects does not fit the model.
    """
    root = write.model.root
    try:
        last_applied = json.loads(_get_annotations(live).get(ANNOTATION) or "null")
        if (
            not isinstance(last_applied, dict)
            or last_applied.get("apiVersion") != write.api_version
        ):
            return None  # fields of another version may have other names
        check_object(root, live)
        check_object(root, last_applied)
    except (ValueError, ModelError):
        return None
    # From the annotation to the live object: fields that were written or removed differ.
    change = write.compare(last_applied, live)
    fields = fieldset.difference(list_claims(root, last_applied), change.list_written())
    return fieldset.difference(fields, change.removed)


def renew_annotation(obj: dict[str, Any], applied: dict[str, Any], manager: str) -> dict[str, Any]:
    """Return the object with the applied object in kubectl's annotation.

    An object without the annotation, or applied by another manager, is returned unchanged. The
    annotation is removed if the annotations would become larger than the server allows.
    """
    present = _get_annotations(obj)
    if manager != KUBECTL or not present.get(ANNOTATION):
        return obj
    metadata = dict(applied.get("metadata") or {})
    if "annotations" in metadata:
        # An annotation that contained itself would grow with each apply.
        applied_annotations = _get_annotations(applied)
        metadata["annotations"] = {
            name: value for name, value in applied_annotations.items() if name != ANNOTATION
        }
    encoded = gotext.encode_json({**applied, "metadata": metadata}) + "\n"
    annotations = {**present, ANNOTATION: encoded}
    size = sum(len(name.encode()) + len(value.encode()) for name, value in annotations.items())
    if size > _MAX_ANNOTATIONS:
        del annotations[ANNOTATION]  # validation rejects an object with annotations of this size
    return {**obj, "metadata": {**obj["metadata"], "annotations": annotations}}


class Conflicts(Exception):
    """Fields that an apply would take from others, by owner; there is at least one field."""

    def __init__(self, lost: dict[EntryManager, Fields]) -> None:
        super().__init__("conflicts")
        self.lost = lost

    def create_refusal(self) -> ApplyConflict:
        """Return the 409 answer: owners in the order of their identifiers, fields in tree order.

        The real server sorts its message in the same way, but lists the causes of several owners
        in random order.
        """
        owners = sorted(self.lost, key=EntryManager.format_identifier)
        fields_by_manager = {
            manager: [
                fieldset.format_path(path) for path in fieldset.list_paths(self.lost[manager])
            ]
            for manager in owners
        }
        causes = [
            FieldCause("FieldManagerConflict", f"conflict with {manager.describe()}", field)
            for manager in owners
            for field in fields_by_manager[manager]
        ]
        if len(causes) == 1:
            message = f"1 conflict: {causes[0].message}: {causes[0].field}"
        else:
            lines = [
                "\n".join(
                    [
                        f"conflicts with {manager.describe()}:",
                        *(f"- {field}" for field in fields_by_manager[manager]),
                    ]
                )
                for manager in owners
            ]
            message = f"{len(causes)} conflicts: " + "\n".join(lines)
        return ApplyConflict(f"Apply failed with {message}", causes)


# The manager that owns all present fields of an object if its first apply finds no managedFields.
FIRST = "before-first-apply"


class _Applied(NamedTuple):
    """The result of an apply: the object with stale managedFields, and who owns what."""

    obj: dict[str, Any]
    managed: Managed


def apply(  # noqa: PLR0913  # the parts of a request, nearly all by name
    live: dict[str, Any] | None,
    applied: dict[str, Any],
    *,
    manager: str,
    force: bool,
    fields: FieldModel,
    subresource: str = "",
    now: str,
    versions: Versions | None = None,
    kind: tuple[str, str] | None = None,
) -> dict[str, Any]:
    """Return the object after an apply; parts are shared with the inputs, which stay unchanged.

    The caller defaults and validates the result, and compares it with the live object by
    `are_equal_except_times` to see whether anything is to be stored.

    Args:
        live: the stored object, None if there is none yet.
        applied: what the manager wants, as the client sent it.
        manager: the name of the applier.
        force: take fields of others over instead of refusing.
        fields: the model of the type.
        subresource: the subresource that is applied through.
        now: the time, RFC 3339 in whole seconds.
        versions: the other versions of the type.
        kind: apiVersion and kind that the request is for; by default those of the live object.

    Raises:
        ApplyConflict: fields belong to others.
        PatchError: 400 or 500 if the applied object is not one of this type.
    """
    api_version, kind_name = _check_version_and_kind(
        applied, kind or (_read_version_and_kind(live) if live else None)
    )
    # An object that is created is merged into the JSON of its empty Go struct (FieldModel.zero).
    base = (
        live if live is not None else {"apiVersion": api_version, "kind": kind_name, **fields.zero}
    )
    try:
        managed = entries.decode_entries((base.get("metadata") or {}).get("managedFields"))
    except ValueError as error:
        raise create_unclassified_error(f"failed to decode managed fields: {error}") from None
    request = _ApplyRequest(
        TrackedWrite(fields, api_version, subresource=subresource, versions=versions),
        base,
        applied,
    )
    owner = entries.create_manager(
        manager, APPLY, api_version=api_version, subresource=subresource
    )
    if not managed:
        # Without entries, nobody owns the present fields, and an apply would never conflict.
        managed = request.create_first_entries(
            entries.create_manager(
                FIRST, UPDATE, api_version=api_version, subresource=subresource
            ),
            now,
        )
    try:
        result = request.run(managed, owner, now, force=force)
    except Conflicts as conflicts:
        request.require_forcible(conflicts, manager)
        result = request.run(managed, owner, now, force=True)  # all conflicts may be forced
    return _complete_object(result, applied, manager)


def _check_version_and_kind(
    applied: dict[str, Any], expected: tuple[str, str] | None
) -> tuple[str, str]:
    """Return apiVersion and kind of an applied object.

    Raises:
        PatchError: one of them is empty or is not `expected`, or the object has a list of
            managedFields, even an empty one. (`managedFields: null` is allowed.)
    """
    version_and_kind = _read_version_and_kind(applied)
    is_other_kind = expected is not None and version_and_kind != expected
    if is_other_kind or not all(version_and_kind):
        raise create_bad_request(f"invalid object type: {_format_kind(*version_and_kind)}")
    metadata = applied.get("metadata")
    managed = metadata.get("managedFields") if isinstance(metadata, dict) else None
    # A value of another type is left to the check of the object against the model.
    if isinstance(managed, list) and all(isinstance(entry, dict) for entry in managed):
        raise create_bad_request("metadata.managedFields must be nil")
    return version_and_kind


def _read_version_and_kind(obj: dict[str, Any]) -> tuple[str, str]:
    """Return apiVersion and kind; each is empty if it is absent or not a string."""
    return _get_text(obj.get("apiVersion")), _get_text(obj.get("kind"))


def _format_kind(api_version: str, kind: str) -> str:
    """Return apiVersion and kind as Go prints them; the core group is an empty text: `/v1`."""
    version = api_version if "/" in api_version else "/" + api_version
    return f"{version}, Kind={kind}"


def _get_text(value: Any) -> str:
    """Return the value if it is a string, otherwise an empty string."""
    return value if isinstance(value, str) else ""


def _complete_object(result: _Applied, applied: dict[str, Any], manager: str) -> dict[str, Any]:
    """Return the object to store: with its managedFields, and kubectl's annotation renewed."""
    obj = renew_annotation(result.obj, applied, manager)
    metadata = dict(obj.get("metadata") or {})
    metadata.pop("managedFields", None)
    if result.managed:
        metadata["managedFields"] = entries.encode_entries(result.managed)
    return {**obj, "metadata": metadata}


class _ApplyRequest:
    """One apply: the live object, and the object that is merged into it.

    Both are in the version of the write. `apply` calls `run` a second time, with force, if all
    conflicts may be forced.
    """

    def __init__(self, write: TrackedWrite, live: dict[str, Any], applied: dict[str, Any]) -> None:
        self._write = write
        self._live = live
        self._applied = applied

    def create_first_entries(self, manager: entries.EntryManager, now: str) -> Managed:
        """Return entries in which `manager` owns all fields of the live object.

        This manager stands for all earlier writers of an object without managedFields. To get all
        fields, the live object is compared with an empty one.
        """
        model = self._write.model
        blank = {"apiVersion": self._live.get("apiVersion"), "kind": self._live.get("kind")}
        try:
            return update_entries(
                self._write,
                {**blank, **model.zero},
                new=self._live,
                managed={},
                manager=manager,
                now=now,
            )
        except ModelError as error:
            raise create_unclassified_error(
                f"failed to create manager for existing fields: {error}"
            ) from None

    def require_forcible(self, conflicts: Conflicts, manager: str) -> None:
        """Raise unless kubectl's own client-side apply set all fields in conflict.

        kubectl's annotation lists the fields that client-side apply set. Another manager's entry
        owns these fields, but kubectl may take them. So a user can change from client-side to
        server-side apply.

        Raises:
            ApplyConflict: with the conflicts that may not be forced: fields that are not in the
                annotation, and all fields if the applier is not kubectl.
        """
        allowed = read_annotation(self._write, self._live) if manager == KUBECTL else None
        remaining = conflicts.lost
        if allowed is not None:
            remaining = {
                owner: fieldset.difference(fields, allowed)
                for owner, fields in conflicts.lost.items()
            }
        if any(remaining.values()):
            raise Conflicts(
                {owner: fields for owner, fields in remaining.items() if fields}
            ).create_refusal()

    def run(
        self, before: Managed, manager: entries.EntryManager, now: str, *, force: bool
    ) -> _Applied:
        """Merge, remove fields that the manager no longer applies, and settle ownership.

        Return the object and its new entries. The object is the live object itself if nothing in
        it changes.

        Args:
            before: the entries of the live object.
            manager: the applier.
            now: the time of the applier's entry if the apply changes the object.
            force: whether to take fields of others over.

        Raises:
            Conflicts: fields belong to others and nothing is forced.
            PatchError: the applied object does not fit the model.
        """
        write, live = self._write, self._live
        self._check_applied()
        try:
            managed = write.reconcile(before)
        except ModelError as error:
            raise create_unclassified_error(str(error)) from None
        merged = merge_objects(write.model.root, live, self._applied)
        previous_entry = managed.get(manager)
        previous_time = previous_entry.time if previous_entry else None
        claims = list_claims(write.model.root, self._applied)
        claims = fieldset.subtract_trees(claims, write.ignored)
        # `prune` and `subtract` read the new claims, so they are entered before those calls. The
        # end of this method replaces the entry by the fields that the manager really owns.
        managed[manager] = Owned(claims, write.api_version, previous_time)
        new = (
            prune(write, merged, managed=managed, previous=previous_entry)
            if previous_entry and previous_entry.fields
            else merged
        )
        comparison = write.compare(live, new)
        others = {other: owned for other, owned in managed.items() if other != manager}
        lost, removed = write.find_losses(others, live, new=new, change=comparison)
        if lost and not force:
            raise Conflicts(lost)
        subtract_losses(managed, lost, removed)
        changed = not are_equal(live, new)
        owned_fields = fieldset.difference(claims, UNOWNED)
        managed.pop(manager, None)
        if owned_fields:
            # An apply that changes nothing keeps the time of the manager's previous apply.
            time = now if changed else previous_time
            managed[manager] = Owned(
                fieldset.order_elements(owned_fields), write.api_version, time
            )
        return _Applied(new if changed else live, managed)

    def _check_applied(self) -> None:
        """Check that the applied object fits the model.

        Raises:
            PatchError: 500 with all misfits; the real server calls them an internal error.
        """
        try:
            check_object(self._write.model.root, self._applied)
        except ModelError as error:
            metadata = self._applied.get("metadata")
            metadata_map = metadata if isinstance(metadata, dict) else {}
            kind = _format_kind(*_read_version_and_kind(self._applied))
            name = (
                f"{_get_text(metadata_map.get('namespace'))}/{_get_text(metadata_map.get('name'))}"
            )
            raise create_unclassified_error(
                f"failed to create typed patch object ({name}; {kind}): {error}"
            ) from None


def are_equal_except_times(first: dict[str, Any], second: dict[str, Any]) -> bool:
    """Return whether two objects are equal except for the times of their managedFields.

    If a write changes nothing but these times, the real server stores nothing and keeps the old
    times.
    """
    for name, value in first.items():
        if name != "metadata" and second.get(name) != value:
            return False  # most writes differ outside metadata, and this comparison is cheap
    return are_equal(_drop_times(first), _drop_times(second))


def _drop_times(obj: dict[str, Any]) -> dict[str, Any]:
    """Return an object without the times of its managedFields."""
    metadata = dict(obj.get("metadata") or {})
    managed = metadata.get("managedFields")
    if managed:
        metadata["managedFields"] = [
            {key: value for key, value in entry.items() if key != "time"} for entry in managed
        ]
    return {**obj, "metadata": metadata}
