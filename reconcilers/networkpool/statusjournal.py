"""The journal of a NetworkPool: the part of its status that other replicas rely on.

`status.assignments` has the open promises, `status.allocationsRevision` the revision up to which a
reader must have read the IPAllocations.
"""

from collections.abc import Iterator
from dataclasses import fields
from typing import Any

from controller.meta import Key
from reconcilers.addressing import familychoice, statusranges
from reconcilers.api.networkpool import Assignment, NetworkPool
from reconcilers.networkpool.facts import KIND
from reconcilers.networkpool.view import View
from reconcilers.promises.journal import Journal, Promise, PromisedRange
from reconcilers.promises.settling import settle


def memory(pool: NetworkPool) -> int | None:
    """Return the pool's allocationsRevision; None if it has none, or one that is no number."""
    text = pool.status.allocationsRevision
    return int(text) if text.isdecimal() else None


def read_journal(pool: NetworkPool) -> Journal:
    """Return the journal of a pool, without promises that an edit by hand made unusable."""
    revision = memory(pool)
    revisions = {} if revision is None else {KIND: revision}
    return Journal(revisions, tuple(_promises(pool)))


def _promises(pool: NetworkPool) -> Iterator[Promise]:
    for assignment in pool.status.assignments:
        promised = statusranges.list_promised_ranges(assignment)
        if promised and assignment.resourceVersion.isdecimal():
            yield Promise(
                KIND,
                Key(pool.metadata.namespace, assignment.name),
                assignment.uid,
                assignment.resourceVersion,
                tuple(
                    PromisedRange(part, familychoice.FAMILY_NAMES[part.family])
                    for part in promised
                ),
                assignment.choice or "",
            )


def settle_pool(pool: NetworkPool, view: View) -> Journal:
    """Return the journal of a pool without the promises that are over, as the view shows."""
    return settle_journal(read_journal(pool), view)


def settle_journal(journal: Journal, view: View) -> Journal:
    """Return a journal without the promises that are over, as the view shows."""
    return settle(journal, KIND, view)


def render_journal(journal: Journal) -> dict[str, Any]:
    """Return the fields of a pool's status that carry its journal.

    A journal without memory is rendered without revision: only a fence may give a pool memory.
    """
    rendered: dict[str, Any] = {"assignments": list(map(_rendered, journal.promises))}
    if KIND in journal.revisions:
        rendered["allocationsRevision"] = str(journal.revisions[KIND])
    return rendered


def _rendered(promise: Promise) -> dict[str, str]:
    first, *others = (part.range for part in promise.ranges)
    second = others[0] if others else None
    assignment = Assignment(
        name=promise.key.name,
        uid=promise.uid,
        resourceVersion=promise.resourceVersion,
        startAddress=first.start_text,
        endAddress=first.end_text,
        secondaryStartAddress=second.start_text if second else None,
        secondaryEndAddress=second.end_text if second else None,
        choice=promise.choice or None,
    )
    # Not by asdict, which copies each text: a status has hundreds of promises.
    values = ((name, getattr(assignment, name)) for name in _FIELDS)
    return {name: value for name, value in values if value is not None}


_FIELDS = tuple(field.name for field in fields(Assignment))
