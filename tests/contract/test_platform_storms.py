"""Replicas are killed and frozen while objects of KKP and vitistack come and go."""

from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import httpx
import pytest

from envtest.settings import read_settings
from tests.contract.storm.clusters import Clusters
from tests.contract.storm.networks import Machines
from tests.contract.storm.play import Platform, StormSettings, play_storm
from tests.contract.storm.record import Record
from tests.numbers import Note

SEED = 0


@pytest.mark.slow
@pytest.mark.parametrize("make_platform", [Clusters, Machines])
async def test_no_address_is_ever_held_twice_and_all_are_free_in_the_end(
    make_platform: Callable[[httpx.AsyncClient, Random], Platform],
    tmp_path: Path,
    record_property: Note,
) -> None:
    if read_settings().kind != "binaries":
        pytest.skip("KUBEBUILDER_ASSETS names no etcd and kube-apiserver: `make real` builds them")
    report = await play_storm(make_platform, tmp_path, StormSettings(SEED, rounds=1))
    assert report.findings == [], "\n".join([*report.faults, *report.findings])
    assert report.actions > 0
    record_property(
        "storm",
        f"{report.actions} actions, {report.writes} writes, {report.most_holders} holders at once",
    )


def test_an_address_that_two_objects_hold_for_a_moment_is_found() -> None:
    record = Record("/x", lambda body: body["held"])

    def note(event: str, name: str, revision: int, *addresses: str) -> None:
        meta: dict[str, Any] = {"name": name, "resourceVersion": str(revision)}
        record.note(event, {"metadata": meta, "held": addresses})

    note("ADDED", "a", 1, "x", "y")
    note("ADDED", "b", 2, "z")
    assert record.findings == []
    note("MODIFIED", "b", 3, "z", "y")
    note("DELETED", "a", 4, "x", "y")
    assert record.findings == ["revision 3: /b holds y, and so does ['/a']"]
    note("ADDED", "c", 5, "x")
    assert len(record.findings) == 1
