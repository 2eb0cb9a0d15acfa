"""The progress line of commands that take long, on terminals only."""

import io
import re
from contextlib import redirect_stderr
from pathlib import Path
from threading import Event
from types import SimpleNamespace

import pytest
from typing_extensions import override

from controller.clock import SystemClock
from manifests import documents
from reconcilers.cli import progress as progress_module
from reconcilers.cli.demo.story import WEB
from reconcilers.cli.local.platform import LocalTenant, run_platform
from reconcilers.cli.problems import print_problem
from reconcilers.cli.progress import (
    Work,
    count_progress,
    show_done,
    show_progress,
    show_progress_during,
)
from reconcilers.cli.up import apply_samples
from reconcilers.configuration.settings import Settings
from tests.reconcilers.cli.commandline import make_pool
from tests.reconcilers.cli.saved import make_holder, run_on_files

LIMIT_SECONDS = 30.0


class FakeTerminal(io.StringIO):
    """A terminal in memory, on which tests can wait for a text."""

    def __init__(self) -> None:
        super().__init__()
        self.written = Event()

    @override
    def isatty(self) -> bool:
        return True

    @override
    def write(self, content: str) -> int:
        size = super().write(content)
        self.written.set()
        return size

    def wait_for_text(self, content: str) -> bool:
        """Wait until the terminal contains a text; return False if that takes too long."""
        for _ in range(1000):
            if content in self.getvalue():
                return True
            self.written.clear()
            if not self.written.wait(LIMIT_SECONDS):
                return False
        return False


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> FakeTerminal:
    """A terminal to use as standard error; the progress line is updated each 10 ms."""
    screen = FakeTerminal()
    monkeypatch.setattr(progress_module, "PROGRESS_SECONDS", 0.01)
    return screen


def test_the_progress_line_appears_on_a_terminal_and_is_removed_at_the_end(
    terminal: FakeTerminal,
) -> None:
    with redirect_stderr(terminal), show_progress_during("reading files"):
        assert terminal.wait_for_text("\rreading files ... 0 s")
    assert terminal.getvalue().endswith("\r\033[K")


def test_a_bar_shows_the_progress_if_the_total_is_known(terminal: FakeTerminal) -> None:
    with redirect_stderr(terminal), show_progress_during("asking tenants"):
        show_done(3, 12)
        assert terminal.wait_for_text("asking tenants [#####---------------] 3 of 12 ...")


def test_the_items_of_an_iteration_are_counted(terminal: FakeTerminal) -> None:
    with redirect_stderr(terminal), show_progress_during("drawing"):
        for item in count_progress(["a", "b"]):
            assert terminal.wait_for_text(f" {'ab'.index(item)} of 2 ...")


def test_a_warning_replaces_the_progress_line_which_is_then_shown_again(
    terminal: FakeTerminal,
) -> None:
    with redirect_stderr(terminal), show_progress_during("reading files"):
        assert terminal.wait_for_text("reading files ... 0 s")
        print_problem("warning", "a file is odd")
        assert terminal.wait_for_text("odd\n\rreading files")
    assert "\r\033[Kwarning: a file" in remove_style(terminal.getvalue())


def remove_style(content: str) -> str:
    """Return a text without colours."""
    return re.sub(r"\x1b\[[0-9;]*m", "", content)


@pytest.mark.parametrize("columns", [10, 40, 60])
def test_the_progress_line_is_cut_to_the_width_of_the_terminal(
    monkeypatch: pytest.MonkeyPatch, columns: int
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    line = Work("a sentence that is much longer than the terminal is wide", 1, 2).render_line(3.0)
    bar = line.removeprefix("\r").removesuffix("\033[K")
    assert len(bar) == columns - 1
    assert columns < 60 or bar.endswith("... [##########----------] 1 of 2 ... 3 s")


def test_no_progress_is_shown_without_a_terminal_or_for_quick_work(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    quick, file = FakeTerminal(), io.StringIO()
    monkeypatch.setattr(progress_module, "PROGRESS_SECONDS", 3600.0)
    with redirect_stderr(quick), show_progress_during("reading files"):
        pass
    monkeypatch.setattr(progress_module, "PROGRESS_SECONDS", 0.0)
    with redirect_stderr(file), show_progress_during("reading files"):
        show_progress("something else")
    assert (quick.getvalue(), file.getvalue()) == ("", "")


@pytest.fixture
def reported_works(monkeypatch: pytest.MonkeyPatch) -> list[Work]:
    """The list of all Work that commands report progress of, as if on a terminal."""
    recorded_works: list[Work] = []

    def record_work(label: str) -> Work:
        recorded_works.append(Work(label))
        return recorded_works[-1]

    monkeypatch.setattr(progress_module, "Work", record_work)
    monkeypatch.setattr(progress_module, "sys", SimpleNamespace(stderr=FakeTerminal()))
    return recorded_works


OBJECTS = (
    make_pool("one", "10.0.0.0/24"),
    make_pool("two", "10.1.0.0/24"),
    make_holder("a", "10.0.0.0", "10.0.0.7"),
)


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        (("plan",), ["reading files", "working out who gets what"]),
        (("check",), ["reading files", "looking for what is wrong"]),
        (("map",), ["reading files", "drawing", "drawing"]),
        (("map", "--html", "-"), ["reading files", "drawing"]),
        (("map", "one", "--svg", "-"), ["reading files", "drawing"]),
    ],
)
def test_each_command_names_its_activities(
    reported_works: list[Work], tmp_path: Path, command: tuple[str, ...], expected: list[str]
) -> None:
    outcome = run_on_files(tmp_path, *command, objects=OBJECTS)
    assert outcome.out, outcome.err
    assert [work.activity for work in reported_works] == expected
    if "drawing" in expected and "--svg" not in command:  # an SVG shows one pool
        assert {work.total for work in reported_works} == {0, 2}


async def test_starting_servers_and_applying_samples_is_counted(
    reported_works: list[Work],
) -> None:
    clock = SystemClock()
    async with run_platform([LocalTenant("tenant", WEB)], clock, {"one": Settings()}) as platform:
        starting, controllers = reported_works
        assert (starting.activity, starting.done, starting.total) == ("starting API servers", 2, 2)
        assert controllers.activity == "starting MetalLB and the controllers"
        with show_progress_during("applying samples"):
            samples = documents("samples")[:3]
            assert await apply_samples(platform.management, samples) == 3
        assert (reported_works[-1].done, reported_works[-1].total) == (2, 3)
    assert reported_works[-1].activity == "stopping API servers"
