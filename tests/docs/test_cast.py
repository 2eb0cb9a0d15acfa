"""The recording of the demo in the documents shows the present demo."""

import json
import re
from itertools import pairwise
from typing import Any

from reconcilers.cli.demo.story import read_story
from tests.docs.text import ROOT

LINES = (ROOT / "docs" / "demo.cast").read_text(encoding="utf-8").splitlines()
HEADER, *EVENTS = (json.loads(line) for line in LINES)
OUTDATED = "the recording is outdated: run `make cast`"


def normalize(content: str) -> str:
    """Return a text without colours, on one line."""
    return " ".join(re.sub(r"\x1b\[[0-9;]*m", "", content).split())


def read_screen() -> str:
    """Return all output of the recording on one line."""
    return normalize("".join(data for _, _, data in EVENTS))


def test_the_recording_has_every_step_of_the_story_in_order() -> None:
    screen, at = read_screen(), 0
    story: dict[str, Any] = dict(read_story())
    parts = [story["introduction"]]
    for number, step in enumerate(story["steps"], start=1):
        parts += [f"{number} {step['title']}", step["text"]]
    parts += [f"All {len(story['steps'])} steps happened", story["end"]]
    for part in parts:
        assert normalize(part) in screen[at:], f"{part!r} does not follow; {OUTDATED}"
        at = screen.index(normalize(part), at)


def test_the_recording_has_the_expected_size_and_ascending_times() -> None:
    assert (HEADER["version"], HEADER["width"], HEADER["height"]) == (2, 100, 32)
    times = [at for at, _, _ in EVENTS]
    assert all(time < other for time, other in pairwise(times))
    assert {kind for _, kind, _ in EVENTS} == {"o"}


def test_the_recording_has_no_paths_of_the_machine_that_made_it() -> None:
    assert set(HEADER) == {"version", "width", "height", "title"}
    assert re.findall(r"(?:/home|/root|/tmp|/work)/\S*", read_screen()) == []
