"""Each process of the whole is killed or frozen while people use it; no address goes to two."""

from pathlib import Path

import pytest

from tests.metallb.storm.story import storm
from tests.numbers import Note

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("real_programs")]

SEED = 2


async def test_no_address_is_shown_or_held_twice_while_every_process_is_struck(
    tmp_path: Path, record_property: Note
) -> None:
    report = await storm(SEED, tmp_path)
    assert report.findings == [], "\n".join([*report.faults, *report.findings])
    assert report.done > 0
    record_property("storm", f"{len(report.faults)} faults, {report.done} deeds; {report.summary}")
