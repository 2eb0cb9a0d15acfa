"""The recording of the demo in the documents is of the demo as it is."""

import json
import re
from itertools import pairwise
from typing import Any

from reconcilers.cli.demo.story import read_story
from tests.docs.text import ROOT

LINES = (ROOT / "docs" / "demo.cast").read_text(encoding="utf-8").splitlines()
HEAD, *EVENTS = (json.loads(line) for line in LINES)
RENEW = "the recording is an old one: `make cast`"


def words(content: str) -> str:
    """Return a text without colours, on one line."""
    return " ".join(re.sub(r"\x1b\[[0-9;]*m", "", content).split())


def read_screen() -> str:
    return words("".join(data for _, _, data in EVENTS))


def test_it_has_every_step_of_the_story_in_order_to_its_end() -> None:
    screen, at = read_screen(), 0
    story: dict[str, Any] = dict(read_story())
    parts = [story["introduction"]]
    for number, step in enumerate(story["steps"], start=1):
        parts += [f"{number} {step['title']}", step["text"]]
    parts += [f"All {len(story['steps'])} steps happened", story["end"]]
    for part in parts:
        assert words(part) in screen[at:], f"{part!r} does not follow; {RENEW}"
        at = screen.index(words(part), at)


def test_it_plays_in_the_time_that_reading_takes() -> None:
    assert (HEAD["version"], HEAD["width"], HEAD["height"]) == (2, 100, 32)
    times = [at for at, _, _ in EVENTS]
    assert all(time < other for time, other in pairwise(times))
    assert {kind for _, kind, _ in EVENTS} == {"o"}


def test_it_tells_nothing_of_the_machine_that_it_was_made_on() -> None:
    assert set(HEAD) == {"version", "width", "height", "title"}
    assert re.findall(r"(?:/home|/root|/tmp|/work)/\S*", read_screen()) == []
