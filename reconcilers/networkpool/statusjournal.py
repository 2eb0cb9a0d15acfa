"""The journal of a NetworkPool: the part of its status that other replicas rely on.

`status.assignments` has the open promises. `status.revisions` has, by the full name of a kind, the
revision up to which a reader must have read the objects of that kind. `status.journalOf` has two
parts. The uid of the pool that the journal was written for: a restore from a backup can write a
status to another object, where the resourceVersions belong to another history. And a checksum of
the two other fields: a writer may drop or replace one of them, and leave the rest.
"""

from collections.abc import Iterable, Mapping
from operator import attrgetter
from typing import Any

from msgspec.structs import fields

from controller.meta import Key, parse_revision
from reconcilers.addressing import statusranges
from reconcilers.api import names
from reconcilers.api.networkpool import MAX_ASSIGNMENTS, Assignment, NetworkPool
from reconcilers.networkpool.facts import KIND, SHOWN_KINDS, name_spaces
from reconcilers.networkpool.view import AllocationsView
from reconcilers.promises.journal import Journal, Promise, compute_checksum
from reconcilers.promises.reading import Behind
from reconcilers.promises.settling import settle

UNSERVED_RETRY = 5.0
"""Seconds until the next pass over a pool whose journal names a kind that is not served."""
FORGOTTEN_REVISION = ""
"""The revision of a kind whose memory was lost: it is fenced before anything is allocated."""
JOURNAL_FIELDS = frozenset({"assignments", "revisions", "journalOf"})
"""The fields of a pool's status that carry its journal."""


class StatusJournal:
    """Reads and writes journals that are a part of the status of their NetworkPool."""

    subresource = "status"

    def read(self, pool: NetworkPool) -> Journal:
        """Return the journal of a pool; an empty one if it is lost.

        It is lost if it was written for another uid, or for none, if it does not match its
        checksum, or if a promise in it cannot be parsed. A revision that is no number is left out,
        so the kind has no memory.
        """
        if not is_intact(pool):
            return Journal()
        status, meta = pool.status, pool.metadata
        promises = []
        for assignment in status.assignments:
            promise = _parse_assignment(meta.namespace, assignment)
            if promise is None:
                return Journal()
            promises.append(promise)
        revisions = {
            kind: revision
            for kind, revision_text in status.revisions.items()
            if (revision := parse_revision(revision_text)) is not None
        }
        return Journal(revisions, tuple(promises))

    def build_patch_fields(self, pool: NetworkPool, journal: Journal) -> dict[str, Any]:
        """Return the fields of a status patch that write the journal of a pool.

        A merge patch leaves keys of a map alone that it does not name. A revision that belongs to
        a lost journal would then be believed together with the new uid, so it is removed.

        While a journal is lost, each kind that it named keeps its name, without a revision. Kinds
        are fenced one after the other, and this write makes the journal intact. Without the name,
        a process that does not serve the other kinds would believe that they hold nothing.

        Args:
            pool: as it is stored.
            journal: to write. A kind without revision gets none: only a fence gives memory.
        """
        numbers = {kind: str(revision) for kind, revision in journal.revisions.items()}
        forgotten: set[str] = set() if is_intact(pool) else list_stored_kinds(pool)
        revisions = dict.fromkeys(sorted(forgotten), FORGOTTEN_REVISION) | numbers
        assignments = [*map(_make_assignment, journal.promises)]
        return {
            "assignments": list(map(_render_assignment, assignments)),
            "revisions": dict.fromkeys(pool.status.revisions) | revisions,
            "journalOf": compute_seal(pool.metadata.uid, revisions, assignments),
        }

    def patch(self, pool: NetworkPool, journal: Journal) -> Mapping[str, Any]:
        """Return the JSON merge patch that writes the journal of a pool."""
        return {"status": self.build_patch_fields(pool, journal)}

    def is_stored(self, answer: NetworkPool, journal: Journal) -> bool:
        """Return whether the API server stored a journal as it was written.

        It shows each promise with its kind, version and ranges, each revision, and the uid. The
        words that tell how a range was chosen decide nothing.
        """
        stored = self.read(answer)
        return stored.revisions == journal.revisions and (
            [*map(_list_decisive_fields, stored.promises)]
            == [*map(_list_decisive_fields, journal.promises)]
        )

    def count_room(self, journal: Journal) -> int:
        """Return how many further promises, of up to two ranges each, a status has room for."""
        return MAX_ASSIGNMENTS - len(journal.promises)


STATUS_JOURNALS = StatusJournal()
KNOWN_KINDS = frozenset({KIND, names.KIND_CLAIMS, names.KIND_ADDRESSES})
"""The kinds that a journal of this version names, by full name."""


def compute_seal(uid: str, revisions: Mapping[str, str], assignments: Iterable[Assignment]) -> str:
    """Return the value of `status.journalOf`: the pool of a journal, and its checksum.

    The words that tell how a range was chosen are left out: they decide nothing.

    Args:
        uid: of the pool.
        revisions: as the status has them.
        assignments: as the status has them.
    """
    sealed_fields = [*map(_get_sealed_fields, assignments)]
    return f"{uid}/{compute_checksum(sorted(revisions.items()), sealed_fields)}"


def is_intact(pool: NetworkPool) -> bool:
    """Return whether a pool has a journal that was written for it, and is as it was written."""
    status, uid = pool.status, pool.metadata.uid
    return bool(uid and status.journalOf.startswith(uid)) and (
        status.journalOf == compute_seal(uid, status.revisions, status.assignments)
    )


def list_stored_kinds(pool: NetworkPool) -> set[str]:
    """Return the kinds that a pool's journal names, by full name, even if the journal is lost."""
    of_promises = {assignment.kind or KIND for assignment in pool.status.assignments}
    return of_promises.union(pool.status.revisions)


def raise_if_unknown_kinds(pool: NetworkPool) -> None:
    """Raise if a pool's journal names a kind of requests that this version does not know.

    Requests of such a kind may hold ranges that this version does not read, and promises to them
    would never be settled. A lost journal counts as well: a fence would drop these promises
    without voiding them.

    Raises:
        Behind: the journal names an unknown kind, so the pool waits for a version that knows it.
    """
    unknown = sorted(list_stored_kinds(pool) - KNOWN_KINDS)
    if unknown:
        reason = (
            f"status.revisions or status.assignments names {', '.join(unknown)}, which this"
            " version does not know; run a version that does, or set both fields to null if no"
            " controller does"
        )
        raise Behind(UNSERVED_RETRY, reason)


def has_journal(pool: NetworkPool) -> bool:
    """Return whether our controllers ever wrote this status, even for another pool object."""
    return bool(pool.status.journalOf or pool.status.revisions)


def count_promises(pool: NetworkPool) -> int:
    """Return how many promises the journal of a pool has, to requests of all kinds.

    They are not parsed: each scrape of the metrics counts those of all pools.
    """
    return len(pool.status.assignments) if is_intact(pool) else 0


def read_allocations_revision(pool: NetworkPool) -> int | None:
    """Return the revision up to which IPAllocations must be read, by a pool's journal.

    None if the journal is lost or has no such revision. Then it is not known which promises to
    allocations were made before.
    """
    return STATUS_JOURNALS.read(pool).revisions.get(KIND)


def settle_pool_journal(pool: NetworkPool, view: AllocationsView) -> Journal:
    """Return the journal of a pool without the promises that are over, as the view shows."""
    return settle_journal(STATUS_JOURNALS.read(pool), view)


def settle_journal(journal: Journal, view: AllocationsView) -> Journal:
    """Return a journal without the promises that are over, as the view shows.

    Each kind is settled by its own position. If the view has no claims, promises to them stay.
    """
    settled, claims = settle(journal, KIND, view), view.claims
    if claims is None:
        return settled
    return settle(settled, names.KIND_CLAIMS, claims, claims.effects)


def get_shown_kind(promise: Promise) -> str:
    """Return the kind of the request of a promise, for messages."""
    return SHOWN_KINDS.get(promise.kind, promise.kind)


def _parse_assignment(namespace: str, assignment: Assignment) -> Promise | None:
    """Return an assignment as a promise; None if an edit by hand made it unusable.

    No pass writes two ranges of one family, or a promise without name or uid.

    Args:
        namespace: of the pool; its requests are in it.
        assignment: as the status has it.
    """
    promised = statusranges.list_promised_ranges(assignment)
    families = {part.family for part in promised}
    is_usable = (
        bool(promised)
        and len(families) == len(promised)
        and bool(assignment.name and assignment.uid)
        and parse_revision(assignment.resourceVersion) is not None
    )
    if not is_usable:
        return None
    return Promise(
        assignment.kind or KIND,
        Key(namespace, assignment.name),
        uid=assignment.uid,
        resourceVersion=assignment.resourceVersion,
        ranges=name_spaces(promised),
        choice=assignment.choice or "",
    )


def _list_decisive_fields(promise: Promise) -> tuple[object, ...]:
    """Return the fields of a promise that other replicas rely on: all but `choice`."""
    return promise.kind, promise.key, promise.identity, promise.ranges


def _make_assignment(promise: Promise) -> Assignment:
    """Return a promise as an entry of the status.

    An entry without `kind` is of an IPAllocation. `choice` says in words how the range was chosen;
    it is left out if that is not recorded.

    Raises:
        ValueError: it has more than two ranges, which an entry cannot show.
    """
    first, *others = (part.range for part in promise.ranges)
    if len(others) > 1:
        raise ValueError(f"{promise.key}: an entry of the status has room for two ranges")
    second = others[0] if others else None
    return Assignment(
        name=promise.key.name,
        uid=promise.uid,
        resourceVersion=promise.resourceVersion,
        startAddress=first.start_text,
        endAddress=first.end_text,
        secondaryStartAddress=second.start_text if second else None,
        secondaryEndAddress=second.end_text if second else None,
        choice=promise.choice or None,
        kind=None if promise.kind == KIND else promise.kind,
    )


def _render_assignment(assignment: Assignment) -> dict[str, str]:
    """Return an entry of the status as JSON has it."""
    # Not by asdict, which copies each text: a status has hundreds of promises.
    values = ((name, getattr(assignment, name)) for name in _ASSIGNMENT_FIELDS)
    return {name: value for name, value in values if value is not None}


_ASSIGNMENT_FIELDS = tuple(field.name for field in fields(Assignment))
_get_sealed_fields = attrgetter(*(name for name in _ASSIGNMENT_FIELDS if name != "choice"))
