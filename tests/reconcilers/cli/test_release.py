"""`butler-ipam release`: its preview, its question, and its messages about missing clusters."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
import pytest

from controller.meta import Key
from reconcilers.addressmap.objects import Objects
from reconcilers.api import names
from reconcilers.api.ipallocation import IPAllocation
from reconcilers.api.resources import IP_ALLOCATION
from reconcilers.cli import release as command
from reconcilers.cli.problems import CommandProblem
from reconcilers.cli.release import Preview, Release, find_releases
from reconcilers.integrations.core.scopedlists import NotRead
from tests.reconcilers import make
from tests.reconcilers.cli.commandline import run

WAITING_CONDITION = {
    "type": "Ready",
    "status": "False",
    "reason": "WaitingForTenant",
    "message": "Service default/web shows 10.40.0.0",
    "lastTransitionTime": "2026-01-01T00:00:00Z",
}
RANGE = {
    "allocation": "team-a-lb",
    "namespace": "butler-system",
    "pool": "lab",
    "type": "loadbalancer",
    "role": "initial",
    "family": "IPv4",
    "range": "10.40.0.0-10.40.0.7",
    "releasing": True,
    "services": ["default/web"],
}


def make_objects(*allocations: IPAllocation, **tenant: Any) -> Objects:
    """Return the objects of a platform: one TenantCluster and these allocations."""
    cluster = make.tenant(**tenant)
    allocation_by_key = {allocation.metadata.key: allocation for allocation in allocations}
    return Objects({}, allocation_by_key, clusters={cluster.metadata.key: cluster}, providers={})


def test_the_preview_says_that_marked_ranges_are_released_now_and_others_if_deleted() -> None:
    marked: dict[str, Any] = {"annotations": {names.ANNOTATION_RELEASING: "2026-01-01T00:00:00Z"}}
    objects = make_objects(
        make.allocation("kept", held_range=("10.40.0.0", "10.40.0.7")),
        make.allocation("marked", held_range=("10.40.0.8", "10.40.0.15"), **marked),
        make.allocation("waits", size=4),
    )
    [tenant] = objects.clusters.values()
    effect_by_allocation = {
        release.allocation: release.effect for release in find_releases(tenant, objects)
    }
    assert effect_by_allocation == {
        "butler-system/kept": "if deleted",
        "butler-system/marked": "now",
    }


def test_the_preview_of_a_deleted_cluster_names_the_obstacle_of_each_range() -> None:
    deleted: dict[str, Any] = {"deletionTimestamp": "2026-01-02T00:00:00Z"}
    objects = make_objects(
        make.allocation(
            "lb",
            held_range=("10.40.0.0", "10.40.0.7"),
            status={"conditions": [WAITING_CONDITION]},
            **deleted,
        ),
        **deleted,
    )
    [tenant] = objects.clusters.values()
    [release] = find_releases(tenant, objects)
    assert (release.effect, release.obstacle) == ("now", "Service default/web shows 10.40.0.0")


def test_an_empty_answer_means_no(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", AnsweringTerminal("\n"))
    with click.Context(click.Command("release")):
        assert not command._is_confirmed("TenantCluster team/a")
    monkeypatch.setattr("sys.stdin", AnsweringTerminal("y\n"))
    with click.Context(click.Command("release")):
        assert command._is_confirmed("TenantCluster team/a")


class AnsweringTerminal:
    """A terminal as standard input, on which the user types one line."""

    def __init__(self, line: str) -> None:
        self._line = line

    def isatty(self) -> bool:
        return True

    def readline(self, *_: int) -> str:
        return self._line


def test_release_rejects_the_flag_for_files(tmp_path: Path) -> None:
    file = tmp_path / "saved.json"
    file.write_text(json.dumps({}))
    assert run("release", "a", "-f", file).code == 2


def test_an_unreadable_allocation_of_the_cluster_is_named_beside_its_ranges() -> None:
    objects = make_objects(make.allocation("kept", held_range=("10.40.0.0", "10.40.0.7")))
    [tenant] = objects.clusters.values()
    name = Key("butler-system", f"{tenant.metadata.namespace}-{tenant.metadata.name}-lb")
    unreadable = {(IP_ALLOCATION.kind, name): "spec.count: 'many' is no number"}
    preview = Preview.from_objects(tenant, replace(objects, unreadable=unreadable))
    preview_text = preview.as_text()
    assert "butler-system/kept" in preview_text
    assert f"IPAllocation {name} cannot be read; correct or delete it" in preview_text
    assert preview.basis != Preview.from_objects(tenant, objects).basis


def test_the_obstacle_of_a_release_is_unknown_if_allocations_could_not_be_read() -> None:
    objects = make_objects(status={"network": {"ranges": [RANGE]}})
    [tenant] = objects.clusters.values()
    without_allocations = replace(objects, not_read=[NotRead(IP_ALLOCATION.full_name)])
    _, heads, row = Preview.from_objects(tenant, without_allocations).as_text().splitlines()
    assert (heads.split()[-2:], row.split()[-1]) == (["WAITS", "FOR"], "unknown")


@pytest.mark.parametrize(
    ("due_count", "sentence"),
    [
        (
            0,
            "no range is released now; ranges are released without the tenant's confirmation when",
        ),
        (
            1,
            "1 range is released now without the tenant's confirmation; further ranges follow",
        ),
        (2, "2 ranges are released now"),
    ],
)
def test_the_result_counts_the_ranges_that_are_released_now(due_count: int, sentence: str) -> None:
    [tenant] = make_objects().clusters.values()
    releases = [
        Release("a/b", "nodes", range="10.40.0.0/29", is_due=number < due_count, services=())
        for number in range(3)
    ]
    assert sentence in command._describe_result(Preview(tenant, tuple(releases)))


def describe_allocation_without_tenant(**more: Any) -> str:
    """Return the message about an allocation whose TenantCluster does not exist."""
    allocation = make.allocation("lb", held_range=("10.40.0.0", "10.40.0.7"), **more)
    objects = Objects({}, {allocation.metadata.key: allocation}, clusters={}, providers={})
    with pytest.raises(CommandProblem) as raised:
        command._find_tenant(IP_ALLOCATION.kind, allocation.metadata.key, objects)
    return raised.value.format_message()


def test_the_message_about_an_allocation_without_any_cluster_says_to_delete_it() -> None:
    message = describe_allocation_without_tenant()
    assert "does not exist, and no controller ever saw it" in message
    assert "delete ipallocation lb" in message
    assert "Secret" not in message


def test_the_message_about_an_allocation_of_a_gone_cluster_says_what_to_delete() -> None:
    noted = {"annotations": {names.ANNOTATION_TENANT_UID: "uid-before"}}
    assert "is gone; delete the IPAllocation (kubectl" in describe_allocation_without_tenant(
        **noted
    )
    deleted: dict[str, Any] = {**noted, "deletionTimestamp": "2026-01-02T00:00:00Z"}
    assert "is gone; delete the tenant's kubeconfig Secret" in describe_allocation_without_tenant(
        **deleted
    )


def test_the_help_of_the_namespace_says_that_it_selects_a_name() -> None:
    for name in ("release", "explain"):
        assert "Look for NAME in this namespace" in " ".join(run(name, "--help").out.split())
