"""The journal of a space is its object's own, and fits into an annotation."""

import pytest

from controller.meta import ObjectMeta
from reconcilers.integrations.core.journal import (
    ANNOTATION,
    MOST_PROMISES,
    Journal,
    Promise,
    journal_of,
    journal_patch,
)


def promise(number: int = 1, name: str = "a") -> Promise:
    return Promise("team", name, f"uid-{number}", str(number), "10.0.0.1", "10.0.0.1")


def stored(uid: str, journal: Journal) -> ObjectMeta:
    """Return the metadata of an object as it is after the journal was written."""
    written = journal_patch(ObjectMeta(uid=uid), journal)["metadata"]["annotations"]
    return ObjectMeta(uid=uid, annotations=written)


def test_what_was_written_is_read() -> None:
    journal = Journal(17, (promise(1), promise(2)))
    assert journal_of(stored("u", journal)) == journal


def test_the_part_of_an_object_that_promised_is_read() -> None:
    of_parts = Promise("team", "a", "uid", "1", "10.0.0.1", "10.0.0.1", "east")
    journal = Journal(17, (of_parts, promise(2)))
    assert journal_of(stored("u", journal)) == journal


def test_an_object_without_a_journal_has_no_memory() -> None:
    assert journal_of(ObjectMeta(uid="u")) == Journal(None)


def test_the_journal_of_another_object_is_no_memory() -> None:
    copied = stored("of the original", Journal(17, (promise(),))).annotations
    assert journal_of(ObjectMeta(uid="of the copy", annotations=copied)) == Journal(None)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "nonsense",
        "{}",
        '{"uid":"u","revision":"x"}',
        '{"uid":"u","revision":"1"',
        '{"uid":"u","revision":"1","promises":[["team","a","u","1","10.0.0.1"]]}',
    ],
)
def test_a_journal_that_was_edited_into_nonsense_is_no_memory(text: str) -> None:
    assert journal_of(ObjectMeta(uid="u", annotations={ANNOTATION: text})) == Journal(None)


def test_as_many_promises_as_may_be_open_fit_into_the_annotations_of_an_object() -> None:
    longest = Promise("n" * 63, "a" * 253, "u" * 36, "9" * 19, "f" * 39, "f" * 39, "d" * 63)
    [text] = stored("u" * 36, Journal(10**18, (longest,) * MOST_PROMISES)).annotations.values()
    assert len(text) < 256 * 1024 * 7 // 8


def test_a_promise_that_was_edited_has_no_version_or_no_range() -> None:
    assert Promise("t", "a", "u", "1x", "10.0.0.1", "10.0.0.1").version is None
    assert Promise("t", "a", "u", "1", "10.0.0.9", "10.0.0.1").range is None
