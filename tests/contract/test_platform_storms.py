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
from tests.contract.storm.play import Asked, Scene, storm
from tests.contract.storm.record import Record
from tests.numbers import Note

SEED = 0


@pytest.mark.slow
@pytest.mark.parametrize("scene", [Clusters, Machines])
async def test_nothing_is_held_twice_at_any_moment_and_nothing_is_left(
    scene: Callable[[httpx.AsyncClient, Random], Scene], tmp_path: Path, record_property: Note
) -> None:
    if read_settings().kind != "binaries":
        pytest.skip("KUBEBUILDER_ASSETS names no etcd and kube-apiserver: `make real` builds them")
    report = await storm(scene, tmp_path, Asked(SEED, rounds=1))
    assert report.findings == [], "\n".join([*report.faults, *report.findings])
    assert report.done > 0
    record_property("storm", f"{report.done} deeds, {report.events} writes, {report.most} held")


def test_what_two_hold_for_a_moment_is_found() -> None:
    record = Record("/x", lambda body: body["held"])

    def event(kind: str, name: str, revision: int, *addresses: str) -> None:
        meta: dict[str, Any] = {"name": name, "resourceVersion": str(revision)}
        record.note(kind, {"metadata": meta, "held": addresses})

    event("ADDED", "a", 1, "x", "y")
    event("ADDED", "b", 2, "z")
    assert record.findings == []
    event("MODIFIED", "b", 3, "z", "y")
    event("DELETED", "a", 4, "x", "y")
    assert record.findings == ["revision 3: /b holds y, and so does ['/a']"]
    event("ADDED", "c", 5, "x")
    assert len(record.findings) == 1
