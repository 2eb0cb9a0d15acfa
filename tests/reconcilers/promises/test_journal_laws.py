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


def make_promise(kind: str, number: int, *addresses: str, space: str = "") -> Promise:
    """Return a promise of single addresses to request `number`, at resourceVersion `number`.

    Args:
        kind: the kind of the request.
        number: also in the name and the uid of the request.
        addresses: single addresses.
        space: the space of all addresses; "family" for a space for each IP family.
    """
    parsed = (AddressRange.parse(address, address) for address in addresses)
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
class Storage:
    """A way to store journals: in the status of a pool, or in an annotation.

    Args:
        store: reads and writes them.
        decode: returns a pool, given its document.
        journal: a journal with at least one promise, and a revision above 0 of each kind.
        earlier: another journal, which may have revisions of further kinds.
        room: how many promises of the usual number of ranges a journal has room for.
        fields: returns the fields of a document that carry the journal.
        replace_fields: replaces these fields in a document.
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
            journal: the new journal.
            before: the pool before the write; None for a pool without journal.
        """
        document = before or self.document("u")
        patch = self.store.patch(self.decode(document), journal)
        changed: Json = apply_merge_patch(copy.deepcopy(document), dict(patch))
        return changed

    def read(self, document: Json) -> Journal:
        """Return the journal that a pool has."""
        return self.store.read(self.decode(document))


def decode_pool(document: Json) -> NetworkPool:
    """Return the NetworkPool of a document."""
    return msgspec.convert(document, NetworkPool)


def decode_metadata(document: Json) -> MetadataOnly:
    """Return the metadata of a document."""
    return msgspec.convert(document, MetadataOnly)


def set_status(document: Json, status: Json) -> None:
    """Replace the status of a document."""
    document["status"] = status


def get_annotated_fields(document: Json) -> Json:
    """Return the fields of the journal in the annotation of a document."""
    decoded: Json = msgspec.json.decode(document["metadata"]["annotations"][ANNOTATION])
    return decoded


def set_annotated_fields(document: Json, fields: Json) -> None:
    """Replace the fields of the journal in the annotation of a document."""
    document["metadata"]["annotations"][ANNOTATION] = msgspec.json.encode(fields).decode()


BOTH_FAMILIES = ("10.0.0.1", "fd00::1")
STATUS = Storage(
    STATUS_JOURNALS,
    decode_pool,
    journal=Journal(
        {KIND: 17, CLAIMS: 9},
        (
            make_promise(KIND, 1, *BOTH_FAMILIES, space="family"),
            make_promise(CLAIMS, 2, "10.0.0.3", space="family"),
        ),
    ),
    earlier=Journal(
        {KIND: 5, CLAIMS: 4, ADDRESSES: 3}, (make_promise(KIND, 7, "10.0.0.9", space="family"),)
    ),
    room=MAX_ASSIGNMENTS,
    fields=lambda document: dict(document["status"]),
    replace_fields=set_status,
)
ANNOTATED = AnnotatedJournal(CLAIMS, effects=ADDRESSES)
OF_ANNOTATION = Storage(
    ANNOTATED,
    decode_metadata,
    journal=ANNOTATED.with_revision(17, [make_promise(CLAIMS, 1, "10.0.0.1")], 9),
    earlier=ANNOTATED.with_revision(5, [make_promise(CLAIMS, 7, "10.0.0.9")], 4),
    room=MOST_RANGES,
    fields=get_annotated_fields,
    replace_fields=set_annotated_fields,
)
STORAGES = pytest.mark.parametrize(
    "storage", [STATUS, OF_ANNOTATION], ids=["status", "annotation"]
)


@STORAGES
def test_a_journal_is_read_as_it_was_written_and_counts_as_stored(storage: Storage) -> None:
    document = storage.write_journal(storage.journal)
    assert storage.read(document) == storage.journal
    assert storage.store.is_stored(storage.decode(document), storage.journal)


@STORAGES
def test_the_journal_of_a_pool_without_one_is_empty(storage: Storage) -> None:
    assert storage.read(storage.document("u")) == Journal()


@STORAGES
def test_the_journal_of_an_object_with_another_uid_is_lost(storage: Storage) -> None:
    document = storage.write_journal(storage.journal)
    document["metadata"]["uid"] = "another"
    assert storage.read(document) == Journal()


@STORAGES
def test_a_journal_replaces_all_of_an_earlier_journal(storage: Storage) -> None:
    before = storage.write_journal(storage.earlier)
    assert storage.read(storage.write_journal(storage.journal, before)) == storage.journal


@STORAGES
def test_a_journal_replaces_all_of_the_journal_of_another_object(storage: Storage) -> None:
    """A copied status has revisions of all kinds; the first fence writes those of one kind."""
    before = storage.write_journal(storage.earlier)
    before["metadata"]["uid"] = "another"
    assert storage.read(storage.write_journal(storage.journal, before)) == storage.journal


@STORAGES
def test_a_journal_does_not_count_as_stored_while_the_pool_has_another(storage: Storage) -> None:
    document = storage.write_journal(storage.earlier)
    assert not storage.store.is_stored(storage.decode(document), storage.journal)


@STORAGES
def test_a_journal_does_not_count_as_stored_if_a_promise_or_revision_is_missing(
    storage: Storage,
) -> None:
    journal = storage.journal
    for number in range(len(journal.promises)):
        rest = (*journal.promises[:number], *journal.promises[number + 1 :])
        stored = storage.decode(storage.write_journal(replace(journal, promises=rest)))
        assert not storage.store.is_stored(stored, journal), number
    for kind in journal.revisions:
        revisions = {**journal.revisions, kind: 1}
        stored = storage.decode(storage.write_journal(replace(journal, revisions=revisions)))
        assert not storage.store.is_stored(stored, journal), kind


@STORAGES
def test_a_journal_is_lost_if_another_writer_dropped_or_replaced_a_part(storage: Storage) -> None:
    """A missing promise may still be written to its request, and only a fence voids it."""
    fields = storage.fields(storage.write_journal(storage.journal))
    earlier = storage.fields(storage.write_journal(storage.earlier))
    edits = [(name, {k: v for k, v in fields.items() if k != name}) for name in fields]
    edits += [(name, {**fields, name: earlier[name]}) for name in fields]
    for name, edited in edits:
        document = storage.write_journal(storage.journal)
        storage.replace_fields(document, edited)
        if edited != fields:
            assert storage.read(document) == Journal(), name


@STORAGES
def test_each_promise_takes_one_place_in_the_journal(storage: Storage) -> None:
    assert storage.store.count_room(Journal()) == storage.room
    journal = Journal({}, storage.earlier.promises)
    assert storage.store.count_room(journal) == storage.room - 1


@STORAGES
def test_as_many_promises_as_there_is_room_for_are_stored(storage: Storage) -> None:
    [pattern] = storage.earlier.promises
    promises = tuple(replace(pattern, uid=f"u{number}") for number in range(storage.room))
    journal = replace(storage.journal, promises=promises)
    assert storage.read(storage.write_journal(journal)) == journal
    assert storage.store.count_room(journal) == 0


# The following tests are about the status alone: an API server may prune each of its fields.


def list_pruned(document: Json) -> Iterator[tuple[str, Json]]:
    """Yield each field that carries the journal of a pool, and the pool without that field."""
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


def test_a_journal_does_not_count_as_stored_if_a_field_was_pruned() -> None:
    document = STATUS.write_journal(STATUS.journal)
    fields = dict(list_pruned(document))
    assert {"revisions", "assignments[1].kind", "assignments[0].secondaryEndAddress"} <= {*fields}
    for field, stored in fields.items():
        assert not STATUS.store.is_stored(decode_pool(stored), STATUS.journal), field


def test_a_journal_counts_as_stored_if_the_words_of_a_choice_were_pruned() -> None:
    first, *others = STATUS.journal.promises
    with_words = replace(first, choice="first free block")
    document = STATUS.write_journal(replace(STATUS.journal, promises=(with_words, *others)))
    assert document["status"]["assignments"][0].pop("choice") == with_words.choice
    assert STATUS.store.is_stored(decode_pool(document), STATUS.journal)


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
def test_a_journal_with_an_assignment_that_cannot_be_parsed_counts_as_lost(
    edit: Mapping[str, str],
) -> None:
    """The promised range may still be written, and only a fence voids the promise."""
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


def test_a_fence_of_one_kind_keeps_revisions_and_promises_of_other_kinds() -> None:
    fenced = STATUS.journal.apply_fence(KIND, {KIND: 30})
    assert fenced == Journal({KIND: 30, CLAIMS: 9}, STATUS.journal.promises[1:])


def test_promises_are_counted_without_being_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each scrape of the metrics counts the promises of all pools."""
    document = STATUS.write_journal(STATUS.journal)
    monkeypatch.delattr(statusjournal, "_parse_assignment")
    assert count_promises(decode_pool(document)) == 2
    del document["status"]["assignments"]
    assert count_promises(decode_pool(document)) == 0


def test_the_holder_of_a_promise_is_created_once() -> None:
    """Each pass reads the holder of each promise several times."""
    [first, _] = STATUS.journal.promises
    assert first.holder is first.holder
    assert first.holder == (KIND, first.key)
