"""The reflector: the loop of lists and watches that keeps a cache equal to the server."""

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
from tests.controller.scripted import ScriptedTransport, ScriptedWatch
from tests.controller.widgets import (
    WIDGETS,
    Widget,
    build_bookmark_line,
    build_error_line,
    build_event_line,
    build_list,
    build_widget,
)

A = Key("default", "a")


class ReflectorHarness:
    """A reflector that runs against a script in virtual time."""

    def __init__(
        self,
        answers: Sequence[bytes | Exception],
        watches: Sequence[ScriptedWatch | Exception] = (),
        scope: Scope | None = None,
    ) -> None:
        self.clock = VirtualClock()
        self.server = ScriptedTransport(answers, watches)
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
    async def run(self) -> AsyncIterator["ReflectorHarness"]:
        async with anyio.create_task_group() as group:
            group.start_soon(self.reflector.run)
            await self.clock.advance(0)
            yield self
            group.cancel_scope.cancel()

    @property
    def list_revisions(self) -> list[str | None]:
        return [query.get("resourceVersion") for query in self.server.request_queries]

    @property
    def watch_revisions(self) -> list[str]:
        return [query["resourceVersion"] for query in self.server.watch_queries]


async def test_a_reflector_lists_and_watches_from_the_revision_of_the_list() -> None:
    watch = ScriptedWatch()
    async with ReflectorHarness([build_list(5, build_widget("a", 3))], [watch]).run() as harness:
        assert harness.cache.get(A) == build_widget("a", 3)
        watch.send(
            build_event_line("MODIFIED", build_widget("a", 6))
            + build_event_line("ADDED", build_widget("b", 7))
        )
        await harness.clock.advance(0)
        assert harness.cache.position == 7
        assert len(harness.cache) == 2
        assert harness.list_revisions == ["0"]
        assert harness.watch_revisions == ["5"]
        assert harness.server.watch_queries[0]["allowWatchBookmarks"] == "true"
        assert 300 <= int(harness.server.watch_queries[0]["timeoutSeconds"]) <= 600


async def test_events_may_be_split_into_chunks_anywhere() -> None:
    lines = build_event_line("ADDED", build_widget("b", 6)) + build_bookmark_line(9)
    watch = ScriptedWatch([bytes([byte]) for byte in lines])
    async with ReflectorHarness([build_list(5)], [watch]).run() as harness:
        assert harness.cache.position == 9
        assert len(harness.cache) == 1


async def test_a_watch_that_ends_normally_is_continued_at_the_position() -> None:
    first_watch = ScriptedWatch([build_bookmark_line(8)])
    async with ReflectorHarness([build_list(5)], [first_watch, ScriptedWatch()]).run() as harness:
        first_watch.finish()
        await harness.clock.advance(0)
        assert harness.list_revisions == ["0"]
        assert harness.watch_revisions == ["5", "8"]
        assert harness.reflector.last_error is None


async def test_a_silent_watch_is_replaced_by_another_without_a_list() -> None:
    first_watch = ScriptedWatch([build_bookmark_line(8)])
    async with ReflectorHarness([build_list(5)], [first_watch, ScriptedWatch()]).run() as harness:
        await harness.clock.advance(89)
        assert harness.watch_revisions == ["5"]
        await harness.clock.advance(3)
        assert harness.watch_revisions == ["5", "8"]
        assert not first_watch.is_open
        assert harness.list_revisions == ["0"]


async def test_silent_watches_of_a_kind_without_bookmarks_are_no_error() -> None:
    async with ReflectorHarness(
        [build_list(5)], [ScriptedWatch(), ScriptedWatch(), ScriptedWatch()]
    ).run() as harness:
        for watches in (["5", "5"], ["5", "5", "5"]):
            await harness.clock.advance(90)
            assert harness.watch_revisions == watches
            assert harness.reflector.last_error is None


async def test_empty_watches_lead_to_a_new_list_if_bookmarks_are_known_to_come() -> None:
    watches = [
        ScriptedWatch([build_bookmark_line(8)]),
        ScriptedWatch(),
        ScriptedWatch(),
        ScriptedWatch(),
    ]
    restored = build_list(3, build_widget("b", 2))
    async with ReflectorHarness(
        [build_list(5, build_widget("a", 4)), restored], watches
    ).run() as harness:
        await harness.clock.advance(300)
        assert harness.list_revisions == ["0", None]
        assert harness.cache.position == 3
        assert [widget.metadata.name for widget in harness.cache] == ["b"]


@pytest.mark.parametrize("form", ["http", "in-stream"])
async def test_an_expired_position_leads_to_one_list_of_the_newest_state(form: str) -> None:
    expired = (
        Expired(410, "Expired", "too old")
        if form == "http"
        else ScriptedWatch([build_error_line(410, "Expired")])
    )
    before = build_list(5, build_widget("a", 1), build_widget("b", 2), build_widget("c", 3))
    after = build_list(50, build_widget("b", 2), build_widget("c", 40))
    async with ReflectorHarness([before, after], [expired, ScriptedWatch()]).run() as harness:
        harness.changes.clear()
        await harness.clock.advance(5)
        assert harness.list_revisions == ["0", None]
        assert harness.watch_revisions == ["5", "50"]
        assert harness.changes == [
            Change(build_widget("a", 1), None, final_state_unknown=True),
            Change(build_widget("c", 3), build_widget("c", 40)),
        ]


async def test_a_server_that_ends_every_watch_at_once_gets_few_requests() -> None:
    answers = [build_list(5)] * 10
    watches = [ScriptedWatch(end="close") for _ in range(10)]
    async with ReflectorHarness(answers, watches).run() as harness:
        await harness.clock.advance(5)
        assert len(harness.list_revisions) + len(harness.watch_revisions) < 10
        assert harness.list_revisions[:2] == ["0", "5"]


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
    """The server may have been restored from a backup, and have passed the position since."""
    before = build_list(
        5, build_widget("kept", 1), build_widget("same number", 4), build_widget("lost", 5)
    )
    restored = [
        build_widget("kept", 1),
        build_widget("same number", 4, color="blue"),
        build_widget("back", 3),
    ]
    cut = ScriptedWatch([build_bookmark_line(6)], end=NoAnswer("reset"))
    watches: list[ScriptedWatch | Exception] = [cut, failure, ScriptedWatch()]
    async with ReflectorHarness([before, build_list(50, *restored)], watches).run() as harness:
        await harness.clock.advance(2)
        confirmed_while_unreachable = harness.cache.is_history_confirmed
        await harness.clock.advance(10)
        assert (confirmed_while_unreachable, harness.cache.is_history_confirmed) == (False, True)
        assert harness.list_revisions == ["0", None]
        assert harness.watch_revisions == ["5", "6", "50"]
        assert sorted(harness.cache, key=lambda cached: cached.metadata.name) == [
            restored[2],
            *restored[:2],
        ]


async def test_an_object_that_we_deleted_is_back_after_a_backup_was_restored() -> None:
    first_watch, object_a = ScriptedWatch([build_bookmark_line(6)]), build_widget("a", 4)
    async with ReflectorHarness(
        [build_list(5, object_a), build_list(50, object_a)],
        [first_watch, NoAnswer("refused"), ScriptedWatch()],
    ).run() as harness:
        harness.cache.mark_deleted(Version.from_object(object_a))
        assert A not in harness.cache
        first_watch.finish()
        await harness.clock.advance(10)
        assert A in harness.cache


async def test_a_watch_that_was_cut_is_continued_at_the_position() -> None:
    cut = ScriptedWatch([build_bookmark_line(6)], end=NoAnswer("reset"))
    async with ReflectorHarness([build_list(5)], [cut, ScriptedWatch()]).run() as harness:
        await harness.clock.advance(2)
        assert harness.list_revisions == ["0"]
        assert harness.watch_revisions == ["5", "6"]
        assert harness.cache.is_history_confirmed


async def test_the_newest_state_below_our_own_write_means_that_the_history_was_replaced() -> None:
    watches: list[ScriptedWatch | Exception] = [NoAnswer("refused"), ScriptedWatch()]
    async with ReflectorHarness(
        [build_list(5, build_widget("a", 4)), build_list(7)], watches
    ).run() as harness:
        harness.cache.apply_own_write(build_widget("b", 9))
        await harness.clock.advance(5)
        assert harness.list_revisions == ["0", None]
        assert list(harness.cache) == []
        assert harness.cache.replaced_histories == 1


async def test_a_list_that_could_not_be_read_is_followed_by_one_of_the_newest_state() -> None:
    watches: list[ScriptedWatch | Exception] = [MalformedAnswer("HTML"), ScriptedWatch()]
    async with ReflectorHarness(
        [build_list(5), NoAnswer("refused"), build_list(50)], watches
    ).run() as harness:
        await harness.clock.advance(10)
        assert harness.list_revisions == ["0", "5", None]
        assert harness.watch_revisions == ["5", "50"]


async def test_a_list_not_older_than_the_position_never_means_a_replaced_history() -> None:
    watches: list[ScriptedWatch | Exception] = [MalformedAnswer("HTML"), ScriptedWatch()]
    async with ReflectorHarness([build_list(5), build_list(7)], watches).run() as harness:
        harness.cache.apply_own_write(build_widget("b", 9))
        await harness.clock.advance(5)
        assert harness.list_revisions == ["0", "5"]
        assert list(harness.cache) == [build_widget("b", 9)]
        assert harness.cache.replaced_histories == 0


async def test_a_watch_that_is_refused_with_429_is_retried_at_the_position() -> None:
    failure = TooManyRequests(429, "TooManyRequests", "later")
    async with ReflectorHarness(
        [build_list(5)], [failure, failure, ScriptedWatch()]
    ).run() as harness:
        assert harness.reflector.last_error is not None
        await harness.clock.advance(10)
        assert harness.list_revisions == ["0"]
        assert harness.watch_revisions == ["5", "5", "5"]
        assert harness.reflector.last_error is None


async def test_retry_after_is_respected() -> None:
    busy = TooManyRequests(429, "TooManyRequests", "later", retry_after=20.0)
    async with ReflectorHarness([build_list(5)], [busy, ScriptedWatch()]).run() as harness:
        await harness.clock.advance(19)
        assert harness.watch_revisions == ["5"]
        await harness.clock.advance(2)
        assert harness.watch_revisions == ["5", "5"]


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
        async with ReflectorHarness(answers, [ScriptedWatch()]).run() as harness:
            await harness.clock.advance(600)
            assert harness.reflector.last_error is None
    failed = ("warning", "list/watch failed, retrying")
    assert list_log_lines(lines) == [failed, failed, failed, ("info", "list/watch works again")]


async def test_watches_that_are_refused_beside_lists_that_work_are_logged_once() -> None:
    refused = Forbidden(403, "Forbidden", "no")
    watches: list[ScriptedWatch | Exception] = [
        *[refused] * 5,
        ScriptedWatch([build_event_line("ADDED", build_widget("a", 6))]),
    ]
    with capture_logs() as lines:
        async with ReflectorHarness([build_list(5)] * 6, watches).run() as harness:
            await harness.clock.advance(600)
            assert A in harness.cache
    assert list_log_lines(lines) == [
        ("warning", "list/watch failed, retrying"),
        ("info", "list/watch works again"),
    ]


@pytest.mark.parametrize(
    "failure",
    [
        Forbidden(403, "Forbidden", "no"),
        MalformedAnswer("HTML"),
        ScriptedWatch([b'{"type":"ADD', b'ED","obj\n']),
        ScriptedWatch([build_event_line("ERROR", {"kind": "Status"})]),
        ScriptedWatch([build_event_line("ERROR", {"no": "status"})]),
        ScriptedWatch([build_error_line(500, "InternalError")]),
    ],
    ids=["403", "html", "torn line", "no reason", "no status", "in-stream 500"],
)
async def test_any_other_failure_of_a_watch_leads_to_a_list_not_older_than_the_position(
    failure: ScriptedWatch | Exception,
) -> None:
    async with ReflectorHarness(
        [build_list(5), build_list(6)], [failure, ScriptedWatch()]
    ).run() as harness:
        await harness.clock.advance(5)
        assert harness.list_revisions == ["0", "5"]
        assert harness.watch_revisions == ["5", "6"]


async def test_an_event_that_is_cut_by_the_end_of_a_watch_is_delivered_by_the_next_watch() -> None:
    torn = ScriptedWatch(
        [build_bookmark_line(6) + build_event_line("ADDED", build_widget("a", 7))[:20]],
        end="close",
    )
    next_watch = ScriptedWatch([build_event_line("ADDED", build_widget("a", 7))])
    async with ReflectorHarness([build_list(5)], [torn, next_watch]).run() as harness:
        assert harness.watch_revisions == ["5", "6"]
        assert A in harness.cache


async def test_unusable_events_are_skipped_and_the_rest_is_applied() -> None:
    events = [
        build_event_line("RENAMED", build_widget("x", 6)),
        build_event_line("ADDED", {"kind": "Table", "metadata": {}}),
        build_event_line("ADDED", {"metadata": {"name": 7}}),
        build_event_line("BOOKMARK", {"metadata": {}}),
        build_event_line(
            "ADDED", {"metadata": {"name": "odd", "resourceVersion": "7"}, "spec": "text"}
        ),
        build_event_line("ADDED", build_widget("a", 8)),
    ]
    async with ReflectorHarness([build_list(5)], [ScriptedWatch(events)]).run() as harness:
        assert [widget.metadata.name for widget in harness.cache] == ["a"]
        assert list(harness.cache.unreadable) == [Key("", "odd")]
        assert harness.cache.position == 8
        assert harness.watch_revisions == ["5"]


async def test_delays_grow_to_half_a_minute_and_have_jitter() -> None:
    async with ReflectorHarness([NoAnswer("refused")] * 50).run() as harness:
        await harness.clock.advance(600)
        assert 12 <= len(harness.list_revisions) <= 25
        assert isinstance(harness.reflector.last_error, Exception)


async def test_a_list_whose_continue_token_expires_is_read_without_pages() -> None:
    expired = Expired(410, "Expired", "token")
    answers: list[bytes | Exception] = [
        build_list(5, build_widget("x", 1)),
        build_list(7, build_widget("a", 2), continuation="next"),
        expired,
        build_list(8, build_widget("a", 2), build_widget("b", 3)),
    ]
    watches: list[ScriptedWatch | Exception] = [Expired(410, "Expired", "old"), ScriptedWatch()]
    async with ReflectorHarness(answers, watches).run() as harness:
        await harness.clock.advance(5)
        assert [widget.metadata.name for widget in harness.cache] == ["a", "b"]
        assert harness.server.request_queries[1:] == [
            {"limit": "500"},
            {"limit": "500", "continue": "next"},
            {},
        ]


async def test_a_position_that_is_too_new_for_the_server_leads_to_a_list_of_the_newest_state() -> (
    None
):
    cause = {"causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large"}]}
    too_new = create_api_error(504, {"reason": "Timeout", "details": cause})
    async with ReflectorHarness(
        [build_list(5), too_new, build_list(3)], [MalformedAnswer("HTML"), ScriptedWatch()]
    ).run() as harness:
        await harness.clock.advance(10)
        assert harness.list_revisions == ["0", "5", None]
        assert harness.cache.position == 3


async def test_a_list_older_than_asked_for_is_not_used() -> None:
    stale, newest = build_list(3), build_list(9, build_widget("a", 4))
    async with ReflectorHarness(
        [build_list(5, build_widget("a", 4)), stale, newest],
        [MalformedAnswer("HTML"), ScriptedWatch()],
    ).run() as harness:
        await harness.clock.advance(10)
        assert harness.list_revisions == ["0", "5", None]
        assert harness.cache.position == 9
        assert A in harness.cache


async def test_a_bookmark_behind_the_position_is_another_history() -> None:
    async with ReflectorHarness(
        [build_list(50, build_widget("a", 40)), build_list(7)],
        [ScriptedWatch([build_bookmark_line(6)]), ScriptedWatch()],
    ).run() as harness:
        await harness.clock.advance(5)
        assert harness.list_revisions == ["0", None]
        assert harness.cache.position == 7
        assert len(harness.cache) == 0


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
    async with ReflectorHarness([failure, failure, build_list(5)]).run() as harness:
        assert message_part in str(harness.reflector.last_error)
        await harness.clock.advance(10)
        state, last_error = harness.reflector.state, harness.reflector.last_error
        assert harness.cache.is_synced
        assert (state, last_error) == (Watching(), None)


async def test_selectors_are_sent_with_lists_and_watches() -> None:
    scope = Scope("default", labels="a=b", fields="metadata.name=x")
    async with ReflectorHarness([build_list(5)], [ScriptedWatch()], scope).run() as harness:
        for query in (harness.server.request_queries[0], harness.server.watch_queries[0]):
            assert query["labelSelector"] == "a=b"
            assert query["fieldSelector"] == "metadata.name=x"


async def test_a_cancelled_reflector_closes_its_watch() -> None:
    watch = ScriptedWatch()
    async with ReflectorHarness([build_list(5)], [watch]).run() as harness:
        was_open = watch.is_open
    assert (was_open, watch.is_open) == (True, False)
    assert harness.clock.waiting == 0


async def test_the_kind_counts_as_refused_until_a_whole_list_is_in_the_cache() -> None:
    denied = Forbidden(403, "Forbidden", "no")
    overloaded = TooManyRequests(429, "TooManyRequests", "later")
    long_list = [build_widget(f"w{number}", 20 + number) for number in range(300)]
    answers: list[bytes | Exception] = [
        build_list(5, build_widget("a", 5)),
        denied,
        overloaded,
        build_list(400, *long_list),
    ]
    harness = ReflectorHarness(answers, [Expired(410, "Expired", "gone")])
    refusals = dict[int, bool]()

    def note_refusal(_: object) -> None:
        refusals[len(harness.cache)] = harness.reflector.refusal is not None

    async with harness.run():
        assert harness.reflector.refusal is None or len(harness.cache) == 1
        harness.cache.subscribe(note_refusal)
        await harness.clock.advance(0.5)
        seen = [harness.reflector.refusal is not None]
        for _ in range(600):
            await harness.clock.advance(0.1)
            seen.append(harness.reflector.refusal is not None)
            if len(harness.cache) == 300:
                break
        assert len(harness.cache) == 300
        await harness.clock.advance(1)
        assert harness.reflector.refusal is None
    assert True in seen, "the kind was refused for a while"
    assert all(refusals[size] for size in refusals if size < 300), (
        "the kind is refused until the whole list is cached"
    )
