"""Who owns which field after a create, an update or a patch.

The rule: the manager that changes a field owns it, its previous owners lose it, and the time of
an entry moves only when a write of its manager changed something.
"""

from typing import Any

from controller.managedfields import entries, fieldset
from controller.managedfields.compare import Comparison, compare
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
        """Take what is known of the type; without `versions`, there is one version."""
        self.model = model
        self.api_version = api_version
        self.ignored: Fields = model.reset.get(subresource, {})
        self._versions = versions

    def model_of(self, api_version: str) -> FieldModel | None:
        """Return the model of a version, None if a built-in kind has no such version.

        Raises:
            ModelError: a custom resource has no such version, or it is no version at all.
        """
        if api_version == self.api_version:
            return self.model
        model = self._versions.model(api_version) if self._versions else None
        if model is None and (self.model.is_custom or api_version.count("/") > 1):
            message = f"request to convert CR to an invalid group/version: {api_version}"
            raise ModelError([message])
        return model

    def convert(self, obj: dict[str, Any], api_version: str) -> dict[str, Any]:
        """Return an object as it reads in a version that has a model."""
        here = obj.get("apiVersion", self.api_version)
        if here == api_version or self._versions is None:
            return obj
        return self._versions.convert(obj, api_version)

    def compare(self, old: dict[str, Any], new: dict[str, Any]) -> Comparison:
        """Compare two objects of the version of the request."""
        comparison = compare(self.model.root, old, new)
        comparison.without(self.ignored)
        return comparison

    def compare_in(
        self, api_version: str, old: dict[str, Any], new: dict[str, Any]
    ) -> Comparison | None:
        """Compare two objects as they read in another version, None if it is not served."""
        model = self.model_of(api_version)
        if model is None:
            return None
        before, after = self.convert(old, api_version), self.convert(new, api_version)
        return compare(model.root, before, after)

    def reconcile(self, managed: Managed) -> Managed:
        """Return the entries as the models of today see them, without those of lost versions."""
        reconciled: Managed = {}
        for manager, owned in managed.items():
            model = self.model_of(owned.api_version)
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
        """Return the fields that each manager lost to this write, and those that were removed.

        Args:
            managed: the entries.
            old: the object before.
            new: the object after.
            change: their comparison in the version of the request.
            writer: the entry, if it is among them, that gets back all it loses but what has no
                owner.
        """
        seen: dict[str, Comparison | None] = {self.api_version: change}
        lost: dict[EntryManager, Fields] = {}
        gone: dict[EntryManager, Fields] = {}
        for manager, owned in managed.items():
            if owned.api_version not in seen:
                seen[owned.api_version] = self.compare_in(owned.api_version, old, new)
            written_fields = seen[owned.api_version]
            if written_fields is None:
                continue
            written = written_fields.list_written()
            if manager == writer:
                written = fieldset.intersection(written, UNOWNED)
            common = fieldset.intersection(owned.fields, written)
            if common:
                lost[manager] = common
            if written_fields.removed:
                gone[manager] = written_fields.removed
        return lost, gone


def subtract(managed: Managed, *losses: dict[EntryManager, Fields]) -> None:
    """Subtract what managers have lost; an entry without fields goes."""
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

    Entries share parts with those of the live object: treat both as read-only.

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
    before = (live.get("metadata") or {}).get("managedFields") if live else None
    writer = entries.manager(manager, UPDATE, api_version=api_version, subresource=subresource)
    sent = metadata.pop("managedFields", None)
    managed = _starting_point(before, sent, is_subresource=bool(subresource))
    if not managed and live is not None:
        return  # tracking was reset by a client; the first apply starts it again
    write = TrackedWrite(fields, api_version, subresource=subresource, versions=versions)
    old = live if live is not None else dict(fields.zero)
    try:
        managed = update(write, old, new=new, managed=managed, manager=writer, now=now)
    except ModelError:
        return  # no ownership at all rather than a wrong one
    if managed:
        metadata["managedFields"] = entries.encode_entries(managed)


def _starting_point(before: Any, sent: Any, *, is_subresource: bool) -> Managed:
    """Return the entries that a write starts from: the client's if they make sense, else live."""
    if not is_subresource and sent is not before and sent is not None and sent != before:
        if _is_reset(sent):
            return {}
        try:
            managed = entries.decode_entries(sent)
        except (ValueError, TypeError):
            managed = {}
        if managed:
            return managed
    return entries.read_trusted(before or [])


def _with(previous: Owned | None, own: Fields) -> Fields:
    """Return the fields that a manager owned or owns now; the same set if none is new."""
    if previous is None:
        return fieldset.order_elements(own)
    if fieldset.covers(previous.fields, own):
        return previous.fields
    return fieldset.order_elements(fieldset.union(own, previous.fields))


def _is_reset(sent: Any) -> bool:
    """Return whether a client resets ownership: by an empty list, or one empty entry."""
    if not isinstance(sent, list) or len(sent) > 1:
        return False
    entry = sent[0] if sent else None
    return entry is None or (
        isinstance(entry, dict) and all(value in {"", None} for value in _scalars(entry))
    )


def _scalars(entry: dict[str, Any]) -> list[Any]:
    """Return the values of an entry, with containers standing for something that is not empty."""
    return [True if isinstance(value, dict | list) else value for value in entry.values()]


def update(
    write: TrackedWrite,
    old: dict[str, Any],
    new: dict[str, Any],
    managed: Managed,
    manager: EntryManager,
    now: str,
) -> Managed:
    """Return the entries after a write that has already been merged into `new`.

    Raises:
        ModelError: the objects do not fit the model.
    """
    managed = write.reconcile(managed)
    change = write.compare(old, new)
    lost, gone = write.find_losses(managed, old, new=new, change=change, writer=manager)
    own = fieldset.difference(change.list_written(), UNOWNED)
    subtract(managed, lost, gone)
    if own:
        managed[manager] = Owned(_with(managed.get(manager), own), write.api_version, now)
    entries.cap(managed)
    return managed
