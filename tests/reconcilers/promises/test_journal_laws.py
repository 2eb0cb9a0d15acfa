"""Laws of a journal, wherever it is stored: in the status of a pool, or as an annotation."""

import copy
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import msgspec
import pytest

from allocator import AddressRange
from controller.meta import Key, MetadataOnly
from controller.testing.patches import apply_merge_patch
from reconcilers.api.networkpool import MAX_ASSIGNMENTS, NetworkPool
from reconcilers.networkpool import statusjournal
from reconcilers.networkpool.facts import KIND
from reconcilers.networkpool.statusjournal import STATUS_JOURNALS, count_promises
from reconcilers.promises.journal import (
    ANNOTATION,
    MOST_RANGES,
    AnnotatedJournal,
    Journal,
    JournalStore,
    Promise,
    PromisedRange,
)
from tests.reconcilers import make

Json = dict[str, Any]
CLAIMS, ADDRESSES = "ipaddressclaims.ipam.cluster.x-k8s.io", "ipaddresses.ipam.cluster.x-k8s.io"


def promise(kind: str, number: int, *texts: str, space: str = "") -> Promise:
    """Return a promise of single addresses."""
    parsed = (AddressRange.parse(address, address) for address in texts)
    spaces = {4: "IPv4", 6: "IPv6"}
    ranges = tuple(
        PromisedRange(part, spaces[part.family] if space == "family" else space) for part in parsed
    )
    return Promise(
        kind,
        Key("team", f"r{number}"),
        uid=f"uid-{number}",
        resourceVersion=str(number),
        ranges=ranges,
    )


@dataclass(frozen=True)
class Place:
    """Where journals are stored.

    Args:
        store: reads and writes them.
        decode: returns a pool, given its document.
        journal: with at least one promise, and a revision above 0 of each kind.
        earlier: another one, which may have revisions of further kinds.
        room: how many promises of the usual number of ranges there is room for.
        fields: returns the fields of a document that carry the journal.
        replace_fields: puts others in their place.
    """

    store: JournalStore[Any]
    decode: Callable[[Json], Any]
    journal: Journal
    earlier: Journal
    room: int
    fields: Callable[[Json], Json]
    replace_fields: Callable[[Json, Json], None]

    def document(self, uid: str) -> Json:
        """Return a pool without journal."""
        meta = {"name": "p", "namespace": "team", "uid": uid}
        return {"metadata": meta, "spec": {"cidr": "10.0.0.0/24"}}

    def write_journal(self, journal: Journal, before: Json | None = None) -> Json:
        """Return a pool after a journal was written.

        Args:
            journal: what is written.
            before: the pool as it was; one without journal if it is not given.
        """
        document = before or self.document("u")
        patch = self.store.patch(self.decode(document), journal)
        changed: Json = apply_merge_patch(copy.deepcopy(document), dict(patch))
        return changed

    def read(self, document: Json) -> Journal:
        """Return the journal that a pool has."""
        return self.store.read(self.decode(document))


def pool_of(document: Json) -> NetworkPool:
    return msgspec.convert(document, NetworkPool)


def metadata_of(document: Json) -> MetadataOnly:
    return msgspec.convert(document, MetadataOnly)


def set_status(document: Json, status: Json) -> None:
    document["status"] = status


def annotated_fields(document: Json) -> Json:
    decoded: Json = msgspec.json.decode(document["metadata"]["annotations"][ANNOTATION])
    return decoded


def set_annotated_fields(document: Json, fields: Json) -> None:
    document["metadata"]["annotations"][ANNOTATION] = msgspec.json.encode(fields).decode()


BOTH = ("10.0.0.1", "fd00::1")
STATUS = Place(
    STATUS_JOURNALS,
    pool_of,
    journal=Journal(
        {KIND: 17, CLAIMS: 9},
        (
            promise(KIND, 1, *BOTH, space="family"),
            promise(CLAIMS, 2, "10.0.0.3", space="family"),
        ),
    ),
    earlier=Journal(
        {KIND: 5, CLAIMS: 4, ADDRESSES: 3}, (promise(KIND, 7, "10.0.0.9", space="family"),)
    ),
    room=MAX_ASSIGNMENTS,
    fields=lambda document: dict(document["status"]),
    replace_fields=set_status,
)
ANNOTATED = AnnotatedJournal(CLAIMS, effects=ADDRESSES)
OF_ANNOTATION = Place(
    ANNOTATED,
    metadata_of,
    journal=ANNOTATED.with_revision(17, [promise(CLAIMS, 1, "10.0.0.1")], 9),
    earlier=ANNOTATED.with_revision(5, [promise(CLAIMS, 7, "10.0.0.9")], 4),
    room=MOST_RANGES,
    fields=annotated_fields,
    replace_fields=set_annotated_fields,
)
PLACES = pytest.mark.parametrize("place", [STATUS, OF_ANNOTATION], ids=["status", "annotation"])


@PLACES
def test_what_was_written_is_read_and_counts_as_stored(place: Place) -> None:
    document = place.write_journal(place.journal)
    assert place.read(document) == place.journal
    assert place.store.is_stored(place.decode(document), place.journal)


@PLACES
def test_a_pool_without_journal_has_lost_it(place: Place) -> None:
    assert place.read(place.document("u")) == Journal()


@PLACES
def test_the_journal_of_an_object_with_another_uid_is_lost(place: Place) -> None:
    document = place.write_journal(place.journal)
    document["metadata"]["uid"] = "another"
    assert place.read(document) == Journal()


@PLACES
def test_nothing_of_an_earlier_journal_is_left_once_another_is_written(place: Place) -> None:
    before = place.write_journal(place.earlier)
    assert place.read(place.write_journal(place.journal, before)) == place.journal


@PLACES
def test_nothing_of_another_objects_journal_is_believed_after_a_write(place: Place) -> None:
    """A fence gives one kind memory; the revisions of others came with the copied status."""
    before = place.write_journal(place.earlier)
    before["metadata"]["uid"] = "another"
    assert place.read(place.write_journal(place.journal, before)) == place.journal


@PLACES
def test_another_journal_than_the_one_that_was_written_is_not_stored(place: Place) -> None:
    document = place.write_journal(place.earlier)
    assert not place.store.is_stored(place.decode(document), place.journal)


@PLACES
def test_a_journal_without_one_promise_or_revision_is_not_the_one_that_was_written(
    place: Place,
) -> None:
    journal = place.journal
    for number in range(len(journal.promises)):
        rest = (*journal.promises[:number], *journal.promises[number + 1 :])
        stored = place.decode(place.write_journal(replace(journal, promises=rest)))
        assert not place.store.is_stored(stored, journal), number
    for kind in journal.revisions:
        revisions = {**journal.revisions, kind: 1}
        stored = place.decode(place.write_journal(replace(journal, revisions=revisions)))
        assert not place.store.is_stored(stored, journal), kind


@PLACES
def test_a_journal_of_which_a_writer_dropped_or_replaced_a_part_is_lost(place: Place) -> None:
    """A promise that is missing may still be written, and only a fence voids it."""
    fields = place.fields(place.write_journal(place.journal))
    earlier = place.fields(place.write_journal(place.earlier))
    edits = [(name, {k: v for k, v in fields.items() if k != name}) for name in fields]
    edits += [(name, {**fields, name: earlier[name]}) for name in fields]
    for name, edited in edits:
        document = place.write_journal(place.journal)
        place.replace_fields(document, edited)
        if edited != fields:
            assert place.read(document) == Journal(), name


@PLACES
def test_each_promise_takes_up_room(place: Place) -> None:
    assert place.store.room(Journal()) == place.room
    journal = Journal({}, place.earlier.promises)
    assert place.store.room(journal) == place.room - 1


@PLACES
def test_as_many_promises_as_there_is_room_for_are_stored(place: Place) -> None:
    [pattern] = place.earlier.promises
    promises = tuple(replace(pattern, uid=f"u{number}") for number in range(place.room))
    journal = replace(place.journal, promises=promises)
    assert place.read(place.write_journal(journal)) == journal
    assert place.store.room(journal) == 0


# The status alone: an API server may prune each of its fields.


def list_pruned(document: Json) -> Iterator[tuple[str, Json]]:
    """Yield the pool without one of the fields that carry its journal, and which that is."""
    for field in ("assignments", "revisions", "journalOf"):
        without = copy.deepcopy(document)
        del without["status"][field]
        yield field, without
    for kind in document["status"]["revisions"]:
        without = copy.deepcopy(document)
        del without["status"]["revisions"][kind]
        yield f"revisions[{kind}]", without
    for number, assignment in enumerate(document["status"]["assignments"]):
        for field in assignment.keys() - {"choice"}:
            without = copy.deepcopy(document)
            without["status"]["assignments"][number][field] = ""
            if field not in REQUIRED:
                del without["status"]["assignments"][number][field]
            yield f"assignments[{number}].{field}", without


REQUIRED = {"name", "uid", "resourceVersion", "startAddress", "endAddress"}


def test_no_field_of_a_journal_may_be_dropped_for_it_to_count_as_stored() -> None:
    document = STATUS.write_journal(STATUS.journal)
    fields = dict(list_pruned(document))
    assert {"revisions", "assignments[1].kind", "assignments[0].secondaryEndAddress"} <= {*fields}
    for field, stored in fields.items():
        assert not STATUS.store.is_stored(pool_of(stored), STATUS.journal), field


def test_the_words_of_a_choice_may_be_dropped() -> None:
    first, *others = STATUS.journal.promises
    spoken = replace(first, choice="first free block")
    document = STATUS.write_journal(replace(STATUS.journal, promises=(spoken, *others)))
    assert document["status"]["assignments"][0].pop("choice") == spoken.choice
    assert STATUS.store.is_stored(pool_of(document), STATUS.journal)


@pytest.mark.parametrize(
    "edit",
    [
        {"startAddress": "nonsense"},
        {"endAddress": "10.0.0.0"},
        {"secondaryStartAddress": "fd00::9"},
        {"secondaryEndAddress": "nonsense"},
        {"secondaryStartAddress": "10.0.0.2", "secondaryEndAddress": "10.0.0.2"},
        {"resourceVersion": "12x"},
        {"resourceVersion": "9" * 5000},
        {"uid": ""},
        {"name": ""},
    ],
    ids=lambda edit: "-".join(f"{name}={value[:9]}" for name, value in edit.items()),
)
def test_one_assignment_that_cannot_be_read_makes_the_journal_count_as_lost(
    edit: Mapping[str, str],
) -> None:
    """What it promised may still be written, and only a fence voids that."""
    document = STATUS.write_journal(STATUS.journal)
    document["status"]["assignments"][0] |= edit
    document["status"] = make.seal_status("u", document["status"])
    assert STATUS.read(document) == Journal()


@pytest.mark.parametrize(
    "content", ["", "x", "-1", "1.5", "9" * 21, "9" * 5000, "\u0663"], ids=range(7)
)
def test_a_revision_that_is_no_number_leaves_its_kind_without_memory(content: str) -> None:
    document = STATUS.write_journal(STATUS.journal)
    document["status"]["revisions"][KIND] = content
    document["status"] = make.seal_status("u", document["status"])
    read = STATUS.read(document)
    assert read == replace(STATUS.journal, revisions={CLAIMS: 9})


def test_a_promise_without_kind_is_to_an_allocation() -> None:
    document = STATUS.write_journal(STATUS.journal)
    first, second = document["status"]["assignments"]
    assert ("kind" in first, second["kind"]) == (False, CLAIMS)
    assert [read.kind for read in STATUS.read(document).promises] == [KIND, CLAIMS]


def test_a_fence_of_one_kind_leaves_what_other_kinds_have() -> None:
    fenced = STATUS.journal.after_fence(KIND, {KIND: 30})
    assert fenced == Journal({KIND: 30, CLAIMS: 9}, STATUS.journal.promises[1:])


def test_promises_are_counted_without_being_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each scrape of the metrics counts the promises of all pools."""
    document = STATUS.write_journal(STATUS.journal)
    monkeypatch.delattr(statusjournal, "_parse_assignment")
    assert count_promises(pool_of(document)) == 2
    del document["status"]["assignments"]
    assert count_promises(pool_of(document)) == 0


def test_the_holder_of_a_promise_is_created_once() -> None:
    """Each pass reads the holder of each promise several times."""
    [first, _] = STATUS.journal.promises
    assert first.holder is first.holder
    assert first.holder == (KIND, first.key)
