"""Who owns which field after a create, an update or a patch.

The rule: the manager that changes a field owns it, and its previous owners lose it. The time of an
entry moves only when a write of its manager changed something.
"""

from typing import Any

from controller.managedfields import entries, fieldset
from controller.managedfields.compare import Comparison, compare_objects
from controller.managedfields.entries import UNOWNED, UPDATE, EntryManager, Managed, Owned
from controller.managedfields.errors import ModelError
from controller.managedfields.fieldmodel import FieldModel, Versions
from controller.managedfields.fieldset import Fields
from controller.managedfields.model import reconcile


class TrackedWrite:
    """One write, compared in each version in which a manager owns fields."""

    def __init__(
        self,
        model: FieldModel,
        api_version: str,
        subresource: str,
        versions: Versions | None,
    ) -> None:
        """Take the request's version and the models; without `versions`, the kind has one version.

        `ignored` are the fields that a write to this subresource cannot change.
        """
        self.model = model
        self.api_version = api_version
        self.ignored: Fields = model.reset.get(subresource, {})
        self._versions = versions

    def get_model(self, api_version: str) -> FieldModel | None:
        """Return the model of a version, None if a built-in kind has no such version.

        Raises:
            ModelError: a custom resource has no such version, or the text is not an apiVersion.
        """
        if api_version == self.api_version:
            return self.model
        model = self._versions.model(api_version) if self._versions else None
        if model is None and (self.model.is_custom or api_version.count("/") > 1):
            message = f"request to convert CR to an invalid group/version: {api_version}"
            raise ModelError([message])
        return model

    def convert(self, obj: dict[str, Any], api_version: str) -> dict[str, Any]:
        """Return an object converted to a version that has a model.

        Return the object itself if it is in that version already, or if the kind has one version.
        """
        current_version = obj.get("apiVersion", self.api_version)
        if current_version == api_version or self._versions is None:
            return obj
        return self._versions.convert(obj, api_version)

    def compare(self, old: dict[str, Any], new: dict[str, Any]) -> Comparison:
        """Compare two objects in the version of the request, without the ignored fields."""
        comparison = compare_objects(self.model.root, old, new)
        comparison.drop_ignored(self.ignored)
        return comparison

    def compare_in(
        self, api_version: str, old: dict[str, Any], new: dict[str, Any]
    ) -> Comparison | None:
        """Compare two objects in another version; None if that version does not exist."""
        model = self.get_model(api_version)
        if model is None:
            return None
        converted_old = self.convert(old, api_version)
        converted_new = self.convert(new, api_version)
        return compare_objects(model.root, converted_old, converted_new)

    def reconcile(self, managed: Managed) -> Managed:
        """Return the entries adapted to the present models.

        Entries of versions that no longer exist are left out.
        """
        reconciled: Managed = {}
        for manager, owned in managed.items():
            model = self.get_model(owned.api_version)
            if model is not None:
                fields = reconcile(model.root, owned.fields)
                if fields is not owned.fields:
                    reconciled[manager] = Owned(fields, owned.api_version, owned.time)
                else:
                    reconciled[manager] = owned
        return reconciled

    def find_losses(
        self,
        managed: Managed,
        old: dict[str, Any],
        new: dict[str, Any],
        change: Comparison,
        writer: EntryManager | None = None,
    ) -> tuple[dict[EntryManager, Fields], dict[EntryManager, Fields]]:
        """Return two maps by manager: its fields that this write set, and all removed fields.

        The second map has, for each manager, all fields that the write removed, whether the
        manager owns them or not. They are in the version of the manager's entry.

        Args:
            managed: the entries.
            old: the object before.
            new: the object after.
            change: their comparison in the version of the request.
            writer: the manager of this write, if its entry is in `managed`. It keeps the fields
                that it sets, except fields that nobody may own.
        """
        changes_by_version: dict[str, Comparison | None] = {self.api_version: change}
        lost: dict[EntryManager, Fields] = {}
        removed: dict[EntryManager, Fields] = {}
        for manager, owned in managed.items():
            version = owned.api_version
            if version not in changes_by_version:
                changes_by_version[version] = self.compare_in(version, old, new)
            version_change = changes_by_version[version]
            if version_change is None:
                continue  # without a model, nothing is known of this manager's fields
            written = version_change.list_written()
            if manager == writer:
                written = fieldset.intersection(written, UNOWNED)
            common = fieldset.intersection(owned.fields, written)
            if common:
                lost[manager] = common
            if version_change.removed:
                removed[manager] = version_change.removed
        return lost, removed


def subtract_losses(managed: Managed, *losses: dict[EntryManager, Fields]) -> None:
    """Subtract lost fields from entries in place, and delete the entries that own nothing."""
    for loss in losses:
        for manager, fields in loss.items():
            owned = managed[manager]
            remaining = fieldset.difference(owned.fields, fields)
            if remaining is not owned.fields:
                managed[manager] = Owned(remaining, owned.api_version, owned.time)
    for manager in [manager for manager, owned in managed.items() if not owned.fields]:
        del managed[manager]


def track_update(  # noqa: PLR0913  # the parts of a request, nearly all by name
    live: dict[str, Any] | None,
    new: dict[str, Any],
    *,
    manager: str,
    fields: FieldModel,
    api_version: str,
    subresource: str = "",
    now: str,
    versions: Versions | None = None,
) -> None:
    """Set metadata.managedFields of an object that is about to be stored.

    The object gets no managedFields if a client has reset ownership, or if an object does not fit
    the model. Entries share parts with those of the live object: treat both as read-only.

    Args:
        live: the stored object, None on create.
        new: the object to store, defaulted and pruned, changed in place.
        manager: the name of the writer, `unknown` if empty.
        fields: the model of the type.
        api_version: the version of the request.
        subresource: the subresource that is written through; its body's managedFields are ignored.
        now: the time, RFC 3339 in whole seconds.
        versions: the other versions of the type.
    """
    metadata = new.setdefault("metadata", {})
    live_entries = (live.get("metadata") or {}).get("managedFields") if live else None
    writer = entries.create_manager(
        manager, UPDATE, api_version=api_version, subresource=subresource
    )
    sent_entries = metadata.pop("managedFields", None)
    managed = _choose_entries(live_entries, sent_entries, is_subresource=bool(subresource))
    if not managed and live is not None:
        return  # tracking was reset by a client; the first apply starts it again
    write = TrackedWrite(fields, api_version, subresource=subresource, versions=versions)
    old = live if live is not None else dict(fields.zero)
    try:
        managed = update_entries(write, old, new=new, managed=managed, manager=writer, now=now)
    except ModelError:
        return  # no ownership at all rather than a wrong one
    if managed:
        metadata["managedFields"] = entries.encode_entries(managed)


def _choose_entries(live: Any, sent: Any, *, is_subresource: bool) -> Managed:
    """Return the entries that a write starts from.

    1. Empty if the client resets ownership.
    2. The entries that the client sent, if they differ from the live ones and can be decoded.
    3. The live entries otherwise, and for each write to a subresource.

    Args:
        live: metadata.managedFields of the stored object; None on create.
        sent: metadata.managedFields in the request.
    """
    # Most clients send no entries, or the live ones, which `is` tells without comparing them.
    if not is_subresource and sent is not None and sent is not live and sent != live:
        if _is_reset(sent):
            return {}
        try:
            managed = entries.decode_entries(sent)
        except (ValueError, TypeError):
            managed = {}  # malformed entries never fail an update: the live ones replace them
        if managed:
            return managed
    return entries.read_trusted_entries(live or [])


def _add_fields(previous: Owned | None, written: Fields) -> Fields:
    """Return the fields of a manager after it wrote some; the previous set if none is new."""
    if previous is None:
        return fieldset.order_elements(written)
    if fieldset.covers(previous.fields, written):
        return previous.fields
    return fieldset.order_elements(fieldset.union(written, previous.fields))


def _is_reset(sent: Any) -> bool:
    """Return whether a client resets ownership: by an empty list, or one empty entry."""
    if not isinstance(sent, list) or len(sent) > 1:
        return False
    entry = sent[0] if sent else None
    return entry is None or (
        isinstance(entry, dict)
        and all(value in {"", None} for value in _list_hashable_values(entry))
    )


def _list_hashable_values(entry: dict[str, Any]) -> list[Any]:
    """Return the values of an entry with True in place of objects and lists.

    The caller looks the values up in a set of empty values, and objects and lists have no hash.
    True stands for them, because it is not empty.
    """
    return [True if isinstance(value, dict | list) else value for value in entry.values()]


def update_entries(
    write: TrackedWrite,
    old: dict[str, Any],
    new: dict[str, Any],
    managed: Managed,
    manager: EntryManager,
    now: str,
) -> Managed:
    """Return the entries after a write that has already been merged into `new`.

    The writer's entry gets the fields that the write changed; other entries lose them.

    Args:
        write: the request and the versions of the type.
        old: the object before.
        new: the object after.
        managed: the entries before.
        manager: the writer.
        now: the time of the writer's entry if the write changed a field.

    Raises:
        ModelError: the objects do not fit the model.
    """
    managed = write.reconcile(managed)
    change = write.compare(old, new)
    lost, removed = write.find_losses(managed, old, new=new, change=change, writer=manager)
    written = fieldset.difference(change.list_written(), UNOWNED)
    subtract_losses(managed, lost, removed)
    if written:
        fields = _add_fields(managed.get(manager), written)
        managed[manager] = Owned(fields, write.api_version, now)
    entries.merge_oldest(managed)
    return managed
