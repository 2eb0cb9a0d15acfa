"""The loop that keeps a cache equal to the server, through all failures."""

import random
from collections.abc import AsyncIterator, MutableMapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest
from structlog.testing import capture_logs

from controller.cache import Cache, Change
from controller.errors import (
    ApiError,
    Expired,
    Forbidden,
    MalformedAnswer,
    NoAnswer,
    NotFound,
    ServerFailure,
    TooManyRequests,
    create_api_error,
    create_error_from_response,
)
from controller.meta import Key, Version
from controller.reflector import Reflector, Watching
from controller.resource import Scope
from tests.clock import VirtualClock
from tests.controller.scripted import Scripted, Watch
from tests.controller.widgets import (
    WIDGETS,
    Widget,
    bookmark,
    build_error_line,
    build_list,
    build_widget,
    line,
)

A = Key("default", "a")


class Loop:
    """A reflector that runs against a script in virtual time."""

    def __init__(
        self,
        answers: Sequence[bytes | Exception],
        watches: Sequence[Watch | Exception] = (),
        scope: Scope | None = None,
    ) -> None:
        self.clock = VirtualClock()
        self.server = Scripted(answers, watches)
        self.cache = Cache(WIDGETS)
        self.changes: list[Change[Widget]] = []
        self.cache.subscribe(self.changes.append)
        self.reflector = Reflector(
            self.server,
            self.clock,
            cache=self.cache,
            scope=scope or Scope(),
            randomness=random.Random(1),
        )

    @asynccontextmanager
    async def running(self) -> AsyncIterator["Loop"]:
        async with anyio.create_task_group() as group:
            group.start_soon(self.reflector.run)
            await self.clock.advance(0)
            yield self
            group.cancel_scope.cancel()

    @property
    def lists(self) -> list[str | None]:
        return [query.get("resourceVersion") for query in self.server.asked]

    @property
    def watches(self) -> list[str]:
        return [query["resourceVersion"] for query in self.server.watched]


async def test_a_reflector_lists_and_watches_from_the_revision_of_the_list() -> None:
    watch = Watch()
    async with Loop([build_list(5, build_widget("a", 3))], [watch]).running() as loop:
        assert loop.cache.get(A) == build_widget("a", 3)
        watch.say(line("MODIFIED", build_widget("a", 6)) + line("ADDED", build_widget("b", 7)))
        await loop.clock.advance(0)
        assert loop.cache.position == 7
        assert len(loop.cache) == 2
        assert loop.lists == ["0"]
        assert loop.watches == ["5"]
        assert loop.server.watched[0]["allowWatchBookmarks"] == "true"
        assert 300 <= int(loop.server.watched[0]["timeoutSeconds"]) <= 600


async def test_events_may_be_split_into_chunks_anywhere() -> None:
    whole = line("ADDED", build_widget("b", 6)) + bookmark(9)
    watch = Watch([bytes([byte]) for byte in whole])
    async with Loop([build_list(5)], [watch]).running() as loop:
        assert loop.cache.position == 9
        assert len(loop.cache) == 1


async def test_a_watch_that_ends_normally_is_continued_at_the_position() -> None:
    first = Watch([bookmark(8)])
    async with Loop([build_list(5)], [first, Watch()]).running() as loop:
        first.finish()
        await loop.clock.advance(0)
        assert loop.lists == ["0"]
        assert loop.watches == ["5", "8"]
        assert loop.reflector.last_error is None


async def test_a_silent_watch_is_replaced_by_another_without_a_list() -> None:
    first = Watch([bookmark(8)])
    async with Loop([build_list(5)], [first, Watch()]).running() as loop:
        await loop.clock.advance(89)
        assert loop.watches == ["5"]
        await loop.clock.advance(3)
        assert loop.watches == ["5", "8"]
        assert not first.open
        assert loop.lists == ["0"]


async def test_a_kind_without_bookmarks_may_be_quiet_and_counts_as_current() -> None:
    async with Loop([build_list(5)], [Watch(), Watch(), Watch()]).running() as loop:
        for watches in (["5", "5"], ["5", "5", "5"]):
            await loop.clock.advance(90)
            assert loop.watches == watches
            assert loop.reflector.last_error is None


async def test_empty_watches_lead_to_a_new_list_if_bookmarks_are_known_to_come() -> None:
    watches = [Watch([bookmark(8)]), Watch(), Watch(), Watch()]
    restored = build_list(3, build_widget("b", 2))
    async with Loop([build_list(5, build_widget("a", 4)), restored], watches).running() as loop:
        await loop.clock.advance(300)
        assert loop.lists == ["0", None]
        assert loop.cache.position == 3
        assert [o.metadata.name for o in loop.cache] == ["b"]


@pytest.mark.parametrize("form", ["http", "in-stream"])
async def test_an_expired_position_leads_to_one_list_of_the_newest_state(form: str) -> None:
    expired = (
        Expired(410, "Expired", "too old")
        if form == "http"
        else Watch([build_error_line(410, "Expired")])
    )
    before = build_list(5, build_widget("a", 1), build_widget("b", 2), build_widget("c", 3))
    after = build_list(50, build_widget("b", 2), build_widget("c", 40))
    async with Loop([before, after], [expired, Watch()]).running() as loop:
        loop.changes.clear()
        await loop.clock.advance(5)
        assert loop.lists == ["0", None]
        assert loop.watches == ["5", "50"]
        assert loop.changes == [
            Change(build_widget("a", 1), None, final_state_unknown=True),
            Change(build_widget("c", 3), build_widget("c", 40)),
        ]


async def test_a_server_that_ends_every_watch_at_once_gets_few_requests() -> None:
    answers = [build_list(5)] * 10
    watches = [Watch(end="close") for _ in range(10)]
    async with Loop(answers, watches).running() as loop:
        await loop.clock.advance(5)
        assert len(loop.lists) + len(loop.watches) < 10
        assert loop.lists[:2] == ["0", "5"]


@pytest.mark.parametrize(
    "failure",
    [
        NoAnswer("refused"),
        ServerFailure(503, "", "no upstream"),
        create_error_from_response(503, "text/html", headers={}, data=b"<html>", request="GET /"),
    ],
    ids=["refused", "503", "a page with 503"],
)
async def test_the_newest_state_is_read_after_the_server_could_not_be_reached(
    failure: Exception,
) -> None:
    """It may have come back with another history that has already passed the position."""
    before = build_list(
        5, build_widget("kept", 1), build_widget("same number", 4), build_widget("lost", 5)
    )
    again = [
        build_widget("kept", 1),
        build_widget("same number", 4, color="blue"),
        build_widget("back", 3),
    ]
    cut = Watch([bookmark(6)], end=NoAnswer("reset"))
    watches: list[Watch | Exception] = [cut, failure, Watch()]
    async with Loop([before, build_list(50, *again)], watches).running() as loop:
        await loop.clock.advance(2)
        unreachable = loop.cache.history_confirmed
        await loop.clock.advance(10)
        assert (unreachable, loop.cache.history_confirmed) == (False, True)
        assert loop.lists == ["0", None]
        assert loop.watches == ["5", "6", "50"]
        assert sorted(loop.cache, key=lambda cached: cached.metadata.name) == [
            again[2],
            *again[:2],
        ]


async def test_an_object_that_we_deleted_is_back_after_a_backup_was_restored() -> None:
    first, object_a = Watch([bookmark(6)]), build_widget("a", 4)
    async with Loop(
        [build_list(5, object_a), build_list(50, object_a)], [first, NoAnswer("refused"), Watch()]
    ).running() as loop:
        loop.cache.mark_deleted(Version.from_object(object_a))
        assert A not in loop.cache
        first.finish()
        await loop.clock.advance(10)
        assert A in loop.cache


async def test_a_watch_that_was_cut_is_continued_at_the_position() -> None:
    cut = Watch([bookmark(6)], end=NoAnswer("reset"))
    async with Loop([build_list(5)], [cut, Watch()]).running() as loop:
        await loop.clock.advance(2)
        assert loop.lists == ["0"]
        assert loop.watches == ["5", "6"]
        assert loop.cache.history_confirmed


async def test_the_newest_state_below_our_own_write_means_that_the_history_was_replaced() -> None:
    watches: list[Watch | Exception] = [NoAnswer("refused"), Watch()]
    async with Loop(
        [build_list(5, build_widget("a", 4)), build_list(7)], watches
    ).running() as loop:
        loop.cache.apply_own_write(build_widget("b", 9))
        await loop.clock.advance(5)
        assert loop.lists == ["0", None]
        assert list(loop.cache) == []
        assert loop.cache.replaced_histories == 1


async def test_a_list_that_could_not_be_read_is_followed_by_one_of_the_newest_state() -> None:
    watches: list[Watch | Exception] = [MalformedAnswer("HTML"), Watch()]
    async with Loop(
        [build_list(5), NoAnswer("refused"), build_list(50)], watches
    ).running() as loop:
        await loop.clock.advance(10)
        assert loop.lists == ["0", "5", None]
        assert loop.watches == ["5", "50"]


async def test_a_list_not_older_than_the_position_never_means_a_replaced_history() -> None:
    watches: list[Watch | Exception] = [MalformedAnswer("HTML"), Watch()]
    async with Loop([build_list(5), build_list(7)], watches).running() as loop:
        loop.cache.apply_own_write(build_widget("b", 9))
        await loop.clock.advance(5)
        assert loop.lists == ["0", "5"]
        assert list(loop.cache) == [build_widget("b", 9)]
        assert loop.cache.replaced_histories == 0


async def test_a_watch_that_is_refused_with_429_is_retried_at_the_position() -> None:
    failure = TooManyRequests(429, "TooManyRequests", "later")
    async with Loop([build_list(5)], [failure, failure, Watch()]).running() as loop:
        assert loop.reflector.last_error is not None
        await loop.clock.advance(10)
        assert loop.lists == ["0"]
        assert loop.watches == ["5", "5", "5"]
        assert loop.reflector.last_error is None


async def test_retry_after_is_respected() -> None:
    busy = TooManyRequests(429, "TooManyRequests", "later", retry_after=20.0)
    async with Loop([build_list(5)], [busy, Watch()]).running() as loop:
        await loop.clock.advance(19)
        assert loop.watches == ["5"]
        await loop.clock.advance(2)
        assert loop.watches == ["5", "5"]


def list_log_lines(lines: Sequence[MutableMapping[str, Any]]) -> list[tuple[str, str]]:
    """Return level and text of the lines above debug."""
    return [
        (entry["log_level"], entry["event"]) for entry in lines if entry["log_level"] != "debug"
    ]


async def test_a_server_that_stays_silent_is_logged_once_and_once_more_when_it_answers() -> None:
    silent = NoAnswer("no answer within 15 s")
    answers: list[bytes | Exception] = [
        *[silent] * 8,
        NoAnswer("cannot connect"),
        *[silent] * 2,
        build_list(5),
    ]
    with capture_logs() as lines:
        async with Loop(answers, [Watch()]).running() as loop:
            await loop.clock.advance(600)
            assert loop.reflector.last_error is None
    failed = ("warning", "list/watch failed, retrying")
    assert list_log_lines(lines) == [failed, failed, failed, ("info", "list/watch works again")]


async def test_watches_that_are_refused_beside_lists_that_work_are_logged_once() -> None:
    refused = Forbidden(403, "Forbidden", "no")
    watches: list[Watch | Exception] = [
        *[refused] * 5,
        Watch([line("ADDED", build_widget("a", 6))]),
    ]
    with capture_logs() as lines:
        async with Loop([build_list(5)] * 6, watches).running() as loop:
            await loop.clock.advance(600)
            assert A in loop.cache
    assert list_log_lines(lines) == [
        ("warning", "list/watch failed, retrying"),
        ("info", "list/watch works again"),
    ]


@pytest.mark.parametrize(
    "failure",
    [
        Forbidden(403, "Forbidden", "no"),
        MalformedAnswer("HTML"),
        Watch([b'{"type":"ADD', b'ED","obj\n']),
        Watch([line("ERROR", {"kind": "Status"})]),
        Watch([line("ERROR", {"no": "status"})]),
        Watch([build_error_line(500, "InternalError")]),
    ],
    ids=["403", "html", "torn line", "no reason", "no status", "in-stream 500"],
)
async def test_any_other_failure_of_a_watch_leads_to_a_list_not_older_than_the_position(
    failure: Watch | Exception,
) -> None:
    async with Loop([build_list(5), build_list(6)], [failure, Watch()]).running() as loop:
        await loop.clock.advance(5)
        assert loop.lists == ["0", "5"]
        assert loop.watches == ["5", "6"]


async def test_an_event_cut_by_the_end_of_the_stream_comes_again() -> None:
    torn = Watch([bookmark(6) + line("ADDED", build_widget("a", 7))[:20]], end="close")
    again = Watch([line("ADDED", build_widget("a", 7))])
    async with Loop([build_list(5)], [torn, again]).running() as loop:
        assert loop.watches == ["5", "6"]
        assert A in loop.cache


async def test_unusable_events_are_skipped_and_the_rest_is_applied() -> None:
    odd = [
        line("RENAMED", build_widget("x", 6)),
        line("ADDED", {"kind": "Table", "metadata": {}}),
        line("ADDED", {"metadata": {"name": 7}}),
        line("BOOKMARK", {"metadata": {}}),
        line("ADDED", {"metadata": {"name": "odd", "resourceVersion": "7"}, "spec": "text"}),
        line("ADDED", build_widget("a", 8)),
    ]
    async with Loop([build_list(5)], [Watch(odd)]).running() as loop:
        assert [o.metadata.name for o in loop.cache] == ["a"]
        assert list(loop.cache.unreadable) == [Key("", "odd")]
        assert loop.cache.position == 8
        assert loop.watches == ["5"]


async def test_delays_grow_to_half_a_minute_and_have_jitter() -> None:
    async with Loop([NoAnswer("refused")] * 50).running() as loop:
        await loop.clock.advance(600)
        assert 12 <= len(loop.lists) <= 25
        assert isinstance(loop.reflector.last_error, Exception)


async def test_a_list_whose_continue_token_expires_is_read_without_pages() -> None:
    expired = Expired(410, "Expired", "token")
    answers: list[bytes | Exception] = [
        build_list(5, build_widget("x", 1)),
        build_list(7, build_widget("a", 2), continuation="next"),
        expired,
        build_list(8, build_widget("a", 2), build_widget("b", 3)),
    ]
    watches: list[Watch | Exception] = [Expired(410, "Expired", "old"), Watch()]
    async with Loop(answers, watches).running() as loop:
        await loop.clock.advance(5)
        assert [o.metadata.name for o in loop.cache] == ["a", "b"]
        assert loop.server.asked[1:] == [
            {"limit": "500"},
            {"limit": "500", "continue": "next"},
            {},
        ]


async def test_a_position_that_is_too_new_for_the_server_leads_to_a_list_of_the_newest_state() -> (
    None
):
    cause = {"causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large"}]}
    too_new = create_api_error(504, {"reason": "Timeout", "details": cause})
    async with Loop(
        [build_list(5), too_new, build_list(3)], [MalformedAnswer("HTML"), Watch()]
    ).running() as loop:
        await loop.clock.advance(10)
        assert loop.lists == ["0", "5", None]
        assert loop.cache.position == 3


async def test_a_list_older_than_asked_for_is_not_used() -> None:
    stale, newest = build_list(3), build_list(9, build_widget("a", 4))
    async with Loop(
        [build_list(5, build_widget("a", 4)), stale, newest], [MalformedAnswer("HTML"), Watch()]
    ).running() as loop:
        await loop.clock.advance(10)
        assert loop.lists == ["0", "5", None]
        assert loop.cache.position == 9
        assert A in loop.cache


async def test_a_bookmark_behind_the_position_is_another_history() -> None:
    async with Loop(
        [build_list(50, build_widget("a", 40)), build_list(7)], [Watch([bookmark(6)]), Watch()]
    ).running() as loop:
        await loop.clock.advance(5)
        assert loop.lists == ["0", None]
        assert loop.cache.position == 7
        assert len(loop.cache) == 0


@pytest.mark.parametrize(
    ("failure", "message_part"),
    [
        (Forbidden(403, "Forbidden", "no"), "list widgets.example.com: not allowed"),
        (NotFound(404, "", "404 page not found"), "list widgets.example.com: not served"),
    ],
)
async def test_a_kind_that_cannot_be_listed_is_named_and_listed_as_soon_as_possible(
    failure: ApiError, message_part: str
) -> None:
    async with Loop([failure, failure, build_list(5)]).running() as loop:
        assert message_part in str(loop.reflector.last_error)
        await loop.clock.advance(10)
        state, last_error = loop.reflector.state, loop.reflector.last_error
        assert loop.cache.is_synced
        assert (state, last_error) == (Watching(), None)


async def test_selectors_are_sent_with_lists_and_watches() -> None:
    scope = Scope("default", labels="a=b", fields="metadata.name=x")
    async with Loop([build_list(5)], [Watch()], scope).running() as loop:
        for query in (loop.server.asked[0], loop.server.watched[0]):
            assert query["labelSelector"] == "a=b"
            assert query["fieldSelector"] == "metadata.name=x"


async def test_nothing_is_left_behind_when_it_is_cancelled() -> None:
    watch = Watch()
    async with Loop([build_list(5)], [watch]).running() as loop:
        during = watch.open
    assert (during, watch.open) == (True, False)
    assert loop.clock.waiting == 0


async def test_a_refusal_is_over_only_once_the_whole_list_is_in_the_cache() -> None:
    denied = Forbidden(403, "Forbidden", "no")
    overloaded = TooManyRequests(429, "TooManyRequests", "later")
    many = [build_widget(f"w{number}", 20 + number) for number in range(300)]
    answers: list[bytes | Exception] = [
        build_list(5, build_widget("a", 5)),
        denied,
        overloaded,
        build_list(400, *many),
    ]
    loop = Loop(answers, [Expired(410, "Expired", "gone")])
    refusals = dict[int, bool]()

    def note(_: object) -> None:
        refusals[len(loop.cache)] = loop.reflector.refusal is not None

    async with loop.running():
        assert loop.reflector.refusal is None or len(loop.cache) == 1
        loop.cache.subscribe(note)
        await loop.clock.advance(0.5)
        seen = [loop.reflector.refusal is not None]
        for _ in range(600):
            await loop.clock.advance(0.1)
            seen.append(loop.reflector.refusal is not None)
            if len(loop.cache) == 300:
                break
        assert len(loop.cache) == 300
        await loop.clock.advance(1)
        assert loop.reflector.refusal is None
    assert True in seen, "the refusal was seen"
    assert all(refusals[size] for size in refusals if size < 300), "and until the list is in"
