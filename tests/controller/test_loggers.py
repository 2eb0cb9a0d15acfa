"""Loggers: structlog is imported with the first line; blocks add fields to lines, or mute them."""

import subprocess
import sys

import anyio
from structlog.testing import capture_logs

from controller.loggers import add_fields, bind_fields, get_logger, mute_lines

log = get_logger("mine")


def test_structlog_is_imported_with_the_first_line_and_not_before() -> None:
    script = (
        "import sys\n"
        "from controller.loggers import get_logger, mute_lines\n"
        "import controller.runner, controller.client, controller.webhooks\n"
        "log = get_logger('mine')\n"
        "with mute_lines():\n    log.error('dropped')\n"
        "print('structlog' in sys.modules)\n"
        "log.debug('written')\n"
        "print('structlog' in sys.modules)\n"
    )
    printed = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    ).stdout.splitlines()
    assert (printed[0], printed[-1]) == ("False", "True")


def test_lines_have_the_fields_of_all_blocks_around_them_unless_they_set_them_themselves() -> None:
    with capture_logs(processors=[add_fields]) as lines:
        with bind_fields(a=1, b=1), bind_fields(b=2, c=2):
            log.info("inside", c=3)
        log.warning("outside")
    assert lines == [
        {"event": "inside", "log_level": "info", "a": 1, "b": 2, "c": 3},
        {"event": "outside", "log_level": "warning"},
    ]


async def test_lines_of_tasks_that_a_block_starts_have_its_fields() -> None:
    async def log_line() -> None:
        log.info("in a task")

    with capture_logs(processors=[add_fields]) as lines, bind_fields(key="lab"):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(log_line)
    assert lines == [{"event": "in a task", "log_level": "info", "key": "lab"}]


def test_lines_inside_a_muted_block_are_dropped() -> None:
    with capture_logs() as lines:
        with mute_lines():
            log.error("dropped")
        log.error("written")
    assert [line["event"] for line in lines] == ["written"]
