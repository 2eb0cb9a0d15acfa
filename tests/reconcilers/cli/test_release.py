"""What `butler-ipam release` shows before it asks, and that it does nothing without an answer."""

import json
from pathlib import Path
from typing import Any

import click
import pytest

from reconcilers.addressmap.objects import Objects
from reconcilers.api import names
from reconcilers.api.ipallocation import IPAllocation
from reconcilers.cli import release as command
from reconcilers.cli.release import find_releases
from tests.reconcilers import make
from tests.reconcilers.cli.commandline import run

WAITS = {
    "type": "Ready",
    "status": "False",
    "reason": "WaitingForTenant",
    "message": "Service default/web shows 10.40.0.0",
    "lastTransitionTime": "2026-01-01T00:00:00Z",
}


def objects_of(*allocations: IPAllocation, **tenant: Any) -> Objects:
    cluster = make.tenant(**tenant)
    found = {one.metadata.key: one for one in allocations}
    return Objects({}, found, {cluster.metadata.key: cluster}, {})


def test_a_range_whose_release_has_begun_is_released_at_once_and_others_if_deleted() -> None:
    marked: dict[str, Any] = {"annotations": {names.ANNOTATION_RELEASING: "2026-01-01T00:00:00Z"}}
    objects = objects_of(
        make.allocation("kept", held=("10.40.0.0", "10.40.0.7")),
        make.allocation("shrinks", held=("10.40.0.8", "10.40.0.15"), **marked),
        make.allocation("waits", size=4),
    )
    [tenant] = objects.clusters.values()
    found = {one.allocation: one.effect for one in find_releases(tenant, objects)}
    assert found == {"butler-system/kept": "if deleted", "butler-system/shrinks": "now"}


def test_a_deleted_cluster_releases_all_ranges_and_names_what_each_waits_for() -> None:
    deleted: dict[str, Any] = {"deletionTimestamp": "2026-01-02T00:00:00Z"}
    objects = objects_of(
        make.allocation(
            "lb", held=("10.40.0.0", "10.40.0.7"), status={"conditions": [WAITS]}, **deleted
        ),
        **deleted,
    )
    [tenant] = objects.clusters.values()
    [found] = find_releases(tenant, objects)
    assert (found.effect, found.obstacle) == ("now", "Service default/web shows 10.40.0.0")


def test_no_is_the_answer_of_who_only_presses_return(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", Answering("\n"))
    with click.Context(click.Command("release")):
        assert not command._is_confirmed("TenantCluster team/a")
    monkeypatch.setattr("sys.stdin", Answering("y\n"))
    with click.Context(click.Command("release")):
        assert command._is_confirmed("TenantCluster team/a")


class Answering:
    """A terminal at which a person types a line."""

    def __init__(self, line: str) -> None:
        self._line = line

    def isatty(self) -> bool:
        return True

    def readline(self, *_: int) -> str:
        return self._line


def test_files_cannot_be_released(tmp_path: Path) -> None:
    file = tmp_path / "saved.json"
    file.write_text(json.dumps({}))
    assert run("release", "a", "-f", file).code == 2
