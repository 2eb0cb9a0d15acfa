"""Log lines: their keys and formats, also for lines of other libraries."""

import io
import logging
from collections.abc import Iterator

import msgspec
import pytest
import structlog

from controller import logs
from controller.errors import Conflict, Forbidden, TerminalError
from controller.loggers import get_logger
from controller.meta import Key
from controller.outcome import Outcome
from controller.runner import Controller
from controller.workqueue import WorkQueue
from tests.clock import VirtualClock
from tests.controller.widgets import WIDGETS


@pytest.fixture(autouse=True)
def restore_loggers() -> Iterator[None]:
    """Restore the configuration of the process's loggers after each test."""
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    structlog_config = structlog.get_config()
    yield
    structlog.configure(**structlog_config)
    root.handlers[:] = handlers
    root.setLevel(level)


def read_lines(stream: io.StringIO) -> list[dict[str, str]]:
    """Return the fields of each JSON line."""
    return [msgspec.json.decode(line) for line in stream.getvalue().splitlines()]


async def reconcile_and_log(error: Exception) -> dict[str, str]:
    """Return the line that the controller logs when its reconciler raises `error`."""
    stream, clock = io.StringIO(), VirtualClock()
    logs.configure_logs("json", "info", stream=stream)

    async def reconcile(key: Key) -> Outcome:
        get_logger("mine").info("Looking", size=3)
        raise error

    queue = WorkQueue[Key](clock)
    controller = Controller("widget", reconcile, queue=queue, kind=WIDGETS)
    queue.add(Key("default", "a"))
    queue.shut_down()
    await controller.run()
    reconciler_line, runner_line = read_lines(stream)
    assert reconciler_line["reconcileID"] == runner_line["reconcileID"]
    return runner_line


async def test_the_line_of_an_error_has_the_controller_the_object_and_the_message() -> None:
    line = await reconcile_and_log(Forbidden(403, "Forbidden", "no"))
    assert list(line)[:10] == list(logs.KEY_ORDER)
    assert line["level"] == "error"
    assert line["msg"] == "Reconciler error"
    assert (line["controller"], line["controllerGroup"], line["controllerKind"]) == (
        "widget",
        "example.com",
        "Widget",
    )
    assert (line["namespace"], line["name"]) == ("default", "a")
    assert line["error"] == "403 Forbidden: no"
    assert line["ts"].endswith("Z")
    assert "exception" not in line


@pytest.mark.survives_bugs
async def test_a_bug_is_logged_with_its_traceback() -> None:
    line = await reconcile_and_log(ZeroDivisionError("oops"))
    assert "in reconcile" in line["exception"]
    assert "ZeroDivisionError: oops" in line["exception"]


async def test_a_conflict_is_logged_as_info_and_a_terminal_error_as_error() -> None:
    assert (await reconcile_and_log(Conflict(409, "Conflict", "x")))["level"] == "info"
    assert (await reconcile_and_log(TerminalError("x")))["level"] == "error"


def test_lines_of_other_libraries_have_the_same_format() -> None:
    stream = io.StringIO()
    logs.configure_logs("json", stream=stream)
    logging.getLogger("aiohttp.access").warning("slow %s", "request")
    (line,) = read_lines(stream)
    assert (line["logger"], line["level"], line["msg"]) == (
        "aiohttp.access",
        "warning",
        "slow request",
    )


def test_lines_below_the_level_are_dropped() -> None:
    stream = io.StringIO()
    logs.configure_logs("json", "warning", stream=stream)
    get_logger("x").info("hidden")
    logging.getLogger("y").info("hidden")
    get_logger("x").warning("shown")
    assert [line["msg"] for line in read_lines(stream)] == ["shown"]


def test_json_lines_have_no_spaces_so_that_runbooks_can_search_for_a_level() -> None:
    stream = io.StringIO()
    logs.configure_logs("json", "info", stream=stream)
    get_logger("mine").error("Broken", ranges=["a", "b"])
    assert '"level":"error","logger":"mine","msg":"Broken"' in stream.getvalue()
    assert '"ranges":["a","b"]' in stream.getvalue()


def test_a_console_line_has_the_message_and_its_fields() -> None:
    stream = io.StringIO()
    logs.configure_logs("console", stream=stream)
    get_logger("x").info("Allocated", range="10.0.0.1-10.0.0.4")
    assert "Allocated" in stream.getvalue()
    assert "range=10.0.0.1-10.0.0.4" in stream.getvalue()
    assert "{" not in stream.getvalue()


@pytest.mark.survives_bugs
@pytest.mark.parametrize("output", ["json", "console"])
def test_a_traceback_shows_no_values_of_variables(output: logs.Format) -> None:
    stream, secret = io.StringIO(), "hunter" + "2"
    logs.configure_logs(output, stream=stream)
    try:
        _ = 1 // (len(secret) - 7)  # divides by zero without the secret in the line
    except ZeroDivisionError:
        get_logger("x").exception("failed")
    assert "ZeroDivisionError" in stream.getvalue()
    assert secret not in stream.getvalue()


def test_an_unknown_level_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match="'loud' is unknown: use debug, info, warning or error"):
        logs.configure_logs("json", "loud")


@pytest.mark.survives_bugs
def test_a_console_line_has_no_control_characters_of_objects() -> None:
    stream = io.StringIO()
    logs.configure_logs("console", "info", stream=stream)
    log = get_logger("mine")
    log.info("Refused", reason="a\x1b[2Jb")
    log.error("Raised", exc_info=ValueError("c\x9b2Jd"))
    assert r"reason=a\x1b[2Jb" in stream.getvalue()
    assert r"ValueError: c\x9b2Jd" in stream.getvalue()
    assert not {"\x1b", "\x9b"} & set(stream.getvalue())


def test_a_json_line_keeps_control_characters_as_escapes() -> None:
    stream = io.StringIO()
    logs.configure_logs("json", "info", stream=stream)
    get_logger("mine").info("Refused", reason="a\x9b2Jb\u202ec")
    assert r"a\u009b2Jb\u202ec" in stream.getvalue()
    assert read_lines(stream)[0]["reason"] == "a\x9b2Jb\u202ec"
