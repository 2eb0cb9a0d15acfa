"""A journal in an annotation of a pool: how it is stored and read, and when it counts as lost.

A journal without the revisions of all its kinds gives a pool no *memory*: promises of such a pool
have to be voided before it allocates.
"""

from collections.abc import Mapping

import msgspec
import pytest

from allocator import AddressRange
from controller.meta import Key, MetadataOnly, ObjectMeta
from reconcilers.promises import journal as stored_journal
from reconcilers.promises.journal import (
    ANNOTATION,
    MOST_RANGES,
    AnnotatedJournal,
    Journal,
    Promise,
    PromisedRange,
    parse_promise,
)

JOURNALS = AnnotatedJournal("Claim")
OF_SPACES = AnnotatedJournal("Claim", has_spaces=True)
"""Journals whose promised ranges name their space."""
ADDRESS = AddressRange.parse("10.0.0.1", "10.0.0.1")


def make_promise(number: int = 1, name: str = "a") -> Promise:
    """Return a promise of ADDRESS to the claim team/`name` at resourceVersion `number`."""
    key = Key("team", name)
    return Promise(
        "Claim",
        key,
        uid=f"uid-{number}",
        resourceVersion=str(number),
        ranges=(PromisedRange(ADDRESS),),
    )


def make_pool(uid: str, annotations: Mapping[str, str] | None = None) -> MetadataOnly:
    """Return a pool with these annotations."""
    return MetadataOnly(ObjectMeta(uid=uid, annotations=dict(annotations or {})))


def make_stored(uid: str, journal: Journal, journals: AnnotatedJournal = JOURNALS) -> MetadataOnly:
    """Return a pool with the uid `uid` after `journal` was written to it."""
    return make_pool(uid, journals.patch(make_pool(uid), journal)["metadata"]["annotations"])


def seal(content: str) -> str:
    """Return the text of a journal with its checksum, if it can be decoded."""
    try:
        decoded = stored_journal._decoder.decode(content)
    except ValueError:
        return content
    return msgspec.json.encode(decoded.with_checksum()).decode()


def test_a_journal_is_read_as_it_was_written() -> None:
    journal = JOURNALS.with_revision(17, [make_promise(1), make_promise(2)])
    assert JOURNALS.read(make_stored("u", journal)) == journal


def test_the_revision_of_the_objects_that_kept_promises_create_is_read() -> None:
    journals = AnnotatedJournal("Claim", effects="Address")
    journal = journals.with_revision(17, [make_promise()], 12)
    assert journals.read(make_stored("u", journal, journals)) == journal
    assert journals.has_memory(journal)


def test_a_revision_of_zero_is_stored_too() -> None:
    journals = AnnotatedJournal("Claim", effects="Address")
    read = journals.read(make_stored("u", journals.with_revision(17), journals))
    assert read.revisions == {"Claim": 17, "Address": 0}


@pytest.mark.parametrize(
    "revisions",
    [
        '"revision":"17"',
        '"revision":"17","effects":""',
        '"revision":"17","effects":"x"',
        '"revision":"17","effects":12',
        '"revision":"x","effects":"12"',
        '"effects":"12"',
        f'"revision":"{"9" * 5000}","effects":"12"',
        f'"revision":"17","effects":"{"9" * 5000}"',
    ],
)
def test_a_journal_with_a_missing_or_invalid_revision_has_no_memory(revisions: str) -> None:
    journals = AnnotatedJournal("Claim", effects="Address")
    edited = make_pool("u", {ANNOTATION: seal(f'{{"uid":"u",{revisions}}}')})
    assert not journals.has_memory(journals.read(edited))


def test_a_journal_that_lacks_the_revision_of_effects_keeps_its_promises() -> None:
    journals = AnnotatedJournal("Claim", effects="Address")
    annotation = make_stored(
        "u", JOURNALS.with_revision(17, [make_promise()])
    ).metadata.annotations[ANNOTATION]
    read = journals.read(make_pool("u", {ANNOTATION: annotation}))
    assert read == Journal({"Claim": 17}, (make_promise(),))


def test_all_ranges_of_a_promise_are_read_with_their_spaces() -> None:
    both = AddressRange.parse("10.0.0.4", "10.0.0.7"), AddressRange.parse("fd00::1", "fd00::1")
    ranges = (PromisedRange(both[0], "east"), PromisedRange(both[1], "east"))
    of_parts = Promise("Claim", Key("team", "a"), uid="uid", resourceVersion="1", ranges=ranges)
    west = Promise(
        "Claim",
        Key("team", "b"),
        uid="uid-2",
        resourceVersion="2",
        ranges=(PromisedRange(ADDRESS, "west"),),
    )
    journal = OF_SPACES.with_revision(17, [of_parts, west])
    assert OF_SPACES.read(make_stored("u", journal)) == journal


def test_an_object_without_a_journal_has_no_memory() -> None:
    assert JOURNALS.read(make_pool("u")) == Journal()


def test_the_journal_of_another_object_counts_as_lost() -> None:
    original = make_stored("of the original", JOURNALS.with_revision(17, [make_promise()]))
    assert JOURNALS.read(make_pool("of the copy", original.metadata.annotations)) == Journal()


@pytest.mark.parametrize(
    "content",
    [
        "",
        "nonsense",
        "{}",
        '{"uid":"u","revision":"x"}',
        '{"uid":"u","revision":"1"',
        '{"uid":"u","revision":"1","promises":[["team","a","u","1","10.0.0.1"]]}',
    ],
)
def test_a_journal_that_cannot_be_parsed_counts_as_lost(content: str) -> None:
    assert JOURNALS.read(make_pool("u", {ANNOTATION: seal(content)})) == Journal()


def test_as_many_promises_as_may_be_open_fit_into_the_annotations_of_an_object() -> None:
    address = AddressRange.parse(*["ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"] * 2)
    promised = (PromisedRange(address, "d" * 63),)
    longest = Promise(
        "Claim", Key("n" * 63, "a" * 253), uid="u" * 36, resourceVersion="9" * 19, ranges=promised
    )
    journal = JOURNALS.with_revision(10**18, [longest] * MOST_RANGES)
    [annotation] = make_stored("u" * 36, journal).metadata.annotations.values()
    assert len(annotation) < 256 * 1024 * 7 // 8


@pytest.mark.parametrize(
    ("version", "spans"),
    [
        ("1x", [("10.0.0.1", "10.0.0.1", "")]),
        ("9" * 5000, [("10.0.0.1", "10.0.0.1", "")]),
        ("1", [("10.0.0.9", "10.0.0.1", "")]),
        ("1", [("10.0.0.1", "10.0.0.1", ""), ("nonsense", "10.0.0.1", "")]),
        ("1", []),
    ],
)
def test_a_promise_that_cannot_be_parsed_is_ignored(
    version: str, spans: list[tuple[str, str, str]]
) -> None:
    assert (
        parse_promise("Claim", Key("t", "a"), uid="u", resource_version=version, spans=spans)
        is None
    )


def test_a_journal_with_a_promise_that_cannot_be_parsed_counts_as_lost() -> None:
    """The promised range may still be written, and only a fence voids the promise."""
    journal_text = (
        '{"uid":"u","revision":"1","promises":['
        '["team","b","u-b","x",[["10.0.0.2","10.0.0.2"]]],'
        '["team","a","uid-1","1",[["10.0.0.1","10.0.0.1"]]]]}'
    )
    journal = JOURNALS.read(make_pool("u", {ANNOTATION: seal(journal_text)}))
    assert journal == Journal()


@pytest.mark.parametrize(
    ("journals", "ranges"),
    [
        (JOURNALS, '["10.0.0.1","10.0.0.1"],["10.0.0.2","10.0.0.2"]'),
        (JOURNALS, '["10.0.0.1","10.0.0.1","east"]'),
        (OF_SPACES, '["10.0.0.1","10.0.0.1","east"],["10.0.0.2","10.0.0.2","west"]'),
        (OF_SPACES, '["10.0.0.1","10.0.0.1"]'),
    ],
)
def test_a_journal_with_ranges_that_no_pass_writes_together_counts_as_lost(
    journals: AnnotatedJournal, ranges: str
) -> None:
    journal_text = f'{{"uid":"u","revision":"1","promises":[["team","a","uid","1",[{ranges}]]]}}'
    read = journals.read(make_pool("u", {ANNOTATION: seal(journal_text)}))
    assert read == Journal()


OF_TWO = AnnotatedJournal("Claim", effects="Address", others=(("Other", "Effect"),))
"""Journals of two kinds of requests, each with the kind of objects that its promises create."""


def test_a_journal_of_two_kinds_names_the_kind_of_each_promise_and_revision() -> None:
    other = Promise(
        "Other",
        Key("team", "a"),
        uid="uid-2",
        resourceVersion="2",
        ranges=(PromisedRange(ADDRESS),),
    )
    journal = Journal(
        {"Claim": 17, "Address": 3, "Other": 5, "Effect": 9}, (make_promise(), other)
    )
    assert OF_TWO.read(make_stored("u", journal, OF_TWO)) == journal
    assert OF_TWO.has_memory(journal)


@pytest.mark.parametrize("fenced", [{"Claim": 17, "Address": 3}, {"Other": 5, "Effect": 9}])
def test_a_journal_with_the_revisions_of_one_of_two_kinds_is_read_and_has_no_memory(
    fenced: Mapping[str, int],
) -> None:
    journal = Journal(fenced)
    assert OF_TWO.read(make_stored("u", journal, OF_TWO)) == journal
    assert not OF_TWO.has_memory(journal)


def test_a_journal_that_names_an_unknown_kind_is_lost() -> None:
    unknown = Promise(
        "Unknown",
        Key("team", "a"),
        uid="uid-2",
        resourceVersion="2",
        ranges=(PromisedRange(ADDRESS),),
    )
    for journal in (Journal({"Claim": 1, "Unknown": 2}), Journal({"Claim": 1}, (unknown,))):
        assert OF_TWO.read(make_stored("u", journal, OF_TWO)) == Journal()
