"""The commands pools, whois, tenants and check, on saved objects and on clusters that fail."""

import json
import socket
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
import yaml

from controller.errors import Forbidden
from controller.meta import Key
from controller.resource import Resource
from reconcilers.addressmap.objects import Objects
from reconcilers.api.resources import NETWORK_POOL, TENANT_CLUSTER
from reconcilers.cli.cluster.repair import read_report
from tests.reconcilers import make
from tests.reconcilers.cli.commandline import Outcome, make_allocation, make_pool, run
from tests.reconcilers.cli.saved import (
    UID,
    make_holder,
    make_labels,
    make_saved_cluster,
    run_on_files,
)

# --- figures -----------------------------------------------------------------------------------


def test_pools_shows_a_bar_and_figures_that_are_computed_from_the_allocations(
    tmp_path: Path,
) -> None:
    objects = (
        make_pool(cidr="10.0.0.0/28"),
        make_holder("a", "10.0.0.0", "10.0.0.11"),
        make_allocation("waits", 9),
    )
    lines = run_on_files(tmp_path, "pools", objects=objects).out.splitlines()
    assert lines[1].split()[:4] == ["NetworkPool", "butler-system", "lab", "10.0.0.0/28"]
    assert "[###############-----]  75%" in lines[1]
    [document] = json.loads(run_on_files(tmp_path, "pools", "-o", "json", objects=objects).out)[
        "items"
    ]
    assert document["waiting"] == 1
    figures = {"total": 16, "allocated": 12, "available": 4, "largestFreeBlock": 4}
    assert document["families"][0].items() >= figures.items()


def test_pools_with_output_name_prints_names_that_kubectl_accepts(tmp_path: Path) -> None:
    out = run_on_files(
        tmp_path, "pools", "-o", "name", objects=(make_pool(), make_pool("other", "10.9.0.0/24"))
    ).out
    assert out.splitlines() == [
        "networkpool.butler.butlerlabs.dev/lab",
        "networkpool.butler.butlerlabs.dev/other",
    ]


def test_whois_names_the_allocation_and_the_tenant_of_an_address(tmp_path: Path) -> None:
    objects = (make_pool(), make_holder("a", "10.40.0.8", "10.40.0.15", tenant="team/shop"))
    row = run_on_files(tmp_path, "whois", "10.40.0.9", objects=objects).out.splitlines()[1].split()
    assert row[:6] == [
        *("10.40.0.9", "NetworkPool", "butler-system/lab"),
        *("allocated", "butler-system/a", "team/shop"),
    ]


def test_whois_lists_every_pool_that_contains_the_address(tmp_path: Path) -> None:
    objects = (make_pool("east", "10.0.0.0/24"), make_pool("west", "10.0.0.0/24"))
    document = json.loads(
        run_on_files(tmp_path, "whois", "10.0.0.1", "-o", "json", objects=objects).out
    )
    assert [row["pool"] for row in document["items"]] == [
        {"kind": "NetworkPool", "namespace": "butler-system", "name": name}
        for name in ("east", "west")
    ]


@pytest.mark.parametrize(
    ("wrong_name", "suggestion"),
    [("lab-poo", "lab-pool"), ("butler-system/lab-pol", "butler-system/lab-pool")],
)
def test_the_error_about_a_mistyped_pool_name_suggests_the_nearest_name(
    tmp_path: Path, wrong_name: str, suggestion: str
) -> None:
    objects = (make_pool("lab-pool"), make_pool("site-b", "10.41.0.0/24"))
    outcome = run_on_files(tmp_path, "map", wrong_name, objects=objects)
    assert outcome.code == 1
    [error] = outcome.errors
    assert error.startswith(
        f"there is no pool '{wrong_name}'; did you mean {suggestion}? There are: "
    )
    [error] = run_on_files(tmp_path, "map", "elsewhere", objects=objects).errors
    assert "did you mean" not in error


def test_the_error_about_whois_with_a_name_lists_the_commands_that_take_names(
    tmp_path: Path,
) -> None:
    outcome = run_on_files(tmp_path, "whois", "lab-pool", objects=(make_pool("lab-pool"),))
    assert outcome.code == 2
    [error] = outcome.errors
    assert "whois takes addresses" in error
    assert "`butler-ipam map lab-pool` for a pool" in error
    assert "`butler-ipam explain lab-pool`" in error


def test_whois_names_the_namespace_that_it_searched_and_how_to_search_the_others(
    tmp_path: Path,
) -> None:
    objects = (make_pool("lab", "10.40.0.0/24"),)
    assert run_on_files(tmp_path, "whois", "10.40.0.9", objects=objects).code == 0
    outcome = run_on_files(tmp_path, "whois", "10.40.0.9", "-n", "team", objects=objects)
    (error,) = outcome.errors
    assert outcome.code == 1
    assert error == (
        "no pool of namespace team or of the whole cluster contains 10.40.0.9; a pool of"
        " another namespace may contain it: run the command without -n, or with -A"
    )
    everywhere = run_on_files(tmp_path, "whois", "10.40.0.9", "-n", "team", "-A", objects=objects)
    assert everywhere.code == 0


def test_whois_names_a_pool_that_cannot_be_read_because_it_may_contain_the_address(
    tmp_path: Path,
) -> None:
    stored = make_pool("odd", resourceVersion="4", uid="u4")
    stored["spec"]["cidr"] = 7
    (error,) = run_on_files(
        tmp_path, "whois", "192.0.2.1", objects=(stored, make_pool("lab"))
    ).errors[-1:]
    assert error == (
        "no pool in the files contains 192.0.2.1; NetworkPool butler-system/odd cannot be read and"
        " may contain it"
    )


def test_whois_of_an_unknown_address_exits_with_1_and_of_an_invalid_one_with_2(
    tmp_path: Path,
) -> None:
    unknown = run_on_files(tmp_path, "whois", "192.0.2.1", objects=(make_pool(),))
    assert (unknown.code, len(unknown.errors)) == (1, 1)
    assert "192.0.2.1" in unknown.errors[0]
    invalid = run_on_files(tmp_path, "whois", "10.0.0", objects=(make_pool(),))
    assert invalid.code == 2
    assert "10.0.0" in invalid.errors[0]


def test_tenants_lists_the_allocations_of_each_tenant_and_of_an_earlier_one_of_its_name(
    tmp_path: Path,
) -> None:
    objects = (
        make_pool(),
        make_saved_cluster("shop", "team", "u7"),
        make_holder(
            "team-shop-lb", "10.40.0.0", "10.40.0.7", tenant="team/shop", annotations={UID: "u7"}
        ),
        make_holder("team-shop-lb-1", "10.40.0.8", "10.40.0.9", tenant="team/shop"),
        make_holder(
            "theirs", "10.40.0.16", "10.40.0.17", tenant="team/shop", annotations={UID: "old"}
        ),
    )
    first, other = json.loads(
        run_on_files(tmp_path, "tenants", "-o", "json", objects=objects).out
    )["items"]
    assert [(a["name"], a["role"], a["size"]) for a in first["allocations"]] == [
        ("butler-system/team-shop-lb", "initial", 8),
        ("butler-system/team-shop-lb-1", "growth", 2),
    ]
    assert [a["name"] for a in other["allocations"]] == ["butler-system/theirs"]
    assert (other["name"], other["reason"]) == ("shop", "no such TenantCluster")
    row = run_on_files(tmp_path, "tenants", objects=objects).out.splitlines()[1].split()
    assert row[:2] + row[3:6] == ["team", "shop", "0", "10", "1"]


# --- check -------------------------------------------------------------------------------------


def index_findings(outcome: Outcome) -> dict[str, dict[str, Any]]:
    """Return the findings of a CheckReport by "kind name"."""
    report = json.loads(outcome.out)
    assert report["kind"] == "CheckReport"
    return {f"{f['kind']} {f['subject']['name']}": f for f in report["findings"]}


def test_check_has_no_findings_in_a_sound_cluster(tmp_path: Path) -> None:
    objects = (
        make_pool(),
        make_saved_cluster(),
        make_holder("a", "10.40.0.0", "10.40.0.7", annotations={UID: "u1"}),
    )
    outcome = run_on_files(tmp_path, "check", objects=objects)
    assert (outcome.code, outcome.out) == (0, "nothing is wrong\n")


def test_overlaps_orphans_and_ranges_outside_are_errors(tmp_path: Path) -> None:
    objects = (
        make_pool(cidr="10.40.0.0/24", reserved=["10.40.0.0/29"]),
        make_saved_cluster(),
        make_holder("first", "10.40.0.16", "10.40.0.23", creationTimestamp="2026-01-01T00:00:00Z"),
        make_holder(
            "second", "10.40.0.20", "10.40.0.27", creationTimestamp="2026-02-01T00:00:00Z"
        ),
        make_holder("in-reserved", "10.40.0.0", "10.40.0.1"),
        make_holder(
            "of-missing-cluster",
            "10.40.0.32",
            "10.40.0.33",
            tenant="gone/team",
            annotations={UID: "x"},
        ),
        make_holder("of-earlier-cluster", "10.40.0.40", "10.40.0.41", annotations={UID: "old"}),
        make_allocation(
            "of-missing-pool", 1, pool="nowhere", labels=make_labels("nowhere", "others/one")
        ),
    )
    outcome = run_on_files(tmp_path, "check", "-o", "json", objects=objects)
    assert outcome.code == 1
    findings_by_name = index_findings(outcome)
    assert {
        name for name, finding in findings_by_name.items() if finding["severity"] == "error"
    } == {
        "Overlap second",
        "OutOfRange in-reserved",
        "Orphan of-missing-cluster",
        "Orphan of-earlier-cluster",
        "UnknownPool of-missing-pool",
    }
    assert findings_by_name["Overlap second"]["action"] == "none"
    assert findings_by_name["Overlap second"]["choices"] == ["none", "delete"]
    assert "10.40.0.20" in findings_by_name["Overlap second"]["sentence"]
    assert findings_by_name["Orphan of-missing-cluster"]["action"] == "delete"


def test_an_allocation_made_before_its_cluster_is_no_orphan(tmp_path: Path) -> None:
    objects = (
        make_pool(),
        make_saved_cluster("elsewhere"),
        make_holder("a", "10.40.0.0", "10.40.0.7"),
    )
    assert run_on_files(tmp_path, "check", objects=objects).code == 0


def test_check_does_not_report_the_counters_of_a_pool_that_is_too_large(
    tmp_path: Path,
) -> None:
    since = {"lastTransitionTime": "2026-01-01T00:00:00Z", "message": "pool too large"}
    conditions = [
        {"type": kind, "status": value, "reason": "ValidationFailed"} | since
        for kind, value in (("Ready", "False"), ("Stalled", "True"))
    ]
    status = {"observedGeneration": 1, "totalIPs": 0, "conditions": conditions}
    outcome = run_on_files(tmp_path, "check", "-o", "json", objects=(make_pool(status=status),))
    assert set(index_findings(outcome)) == {"PoolNotReady lab"}


@pytest.mark.parametrize("reason", ["NamespaceNotAllowed", "ForeignManager", "HoldersUnknown"])
def test_check_does_not_report_counters_that_no_controller_would_correct(
    tmp_path: Path, reason: str
) -> None:
    blocked = {"type": "Ready", "status": "False", "reason": reason, "message": "blocked"}
    since = {"lastTransitionTime": "2026-01-01T00:00:00Z"}
    status = {"observedGeneration": 1, "totalIPs": 0, "conditions": [blocked | since]}
    findings_by_name = index_findings(
        run_on_files(tmp_path, "check", "-o", "json", objects=(make_pool(status=status),))
    )
    assert set(findings_by_name) == {"PoolNotReady lab"}


def test_check_compares_the_exact_counts_of_a_pool_with_more_than_32_bits(tmp_path: Path) -> None:
    names = ("totalIPs", "allocatedIPs", "availableIPs", "largestFreeBlock")
    counts = dict(zip(names, (2**64, 8, 2**64 - 8, 2**64 - 8), strict=True))
    exact = {name: str(count) for name, count in counts.items()}
    shown_counts = {name: min(count, 2**31 - 1) for name, count in counts.items()}
    status = {"observedGeneration": 1, "exactCounts": exact} | shown_counts
    holder = make_holder("a", "fd00::", "fd00::7", annotations={UID: "u1"})
    objects = (make_pool(cidr="fd00::/64", status=status), make_saved_cluster(), holder)
    assert index_findings(run_on_files(tmp_path, "check", "-o", "json", objects=objects)) == {}
    drifted = status | {"exactCounts": exact | {"availableIPs": str(2**64)}}
    objects = (make_pool(cidr="fd00::/64", status=drifted), make_saved_cluster(), holder)
    findings_by_name = index_findings(
        run_on_files(tmp_path, "check", "-o", "json", objects=objects)
    )
    assert (
        f"availableIPs is {2**64}, not {2**64 - 8}"
        in findings_by_name["StatusDrift lab"]["sentence"]
    )


def test_drift_is_a_warning_which_makes_check_fail_only_with_strict(tmp_path: Path) -> None:
    drifted = make_pool(status={"observedGeneration": 1, "totalIPs": 256, "availableIPs": 5})
    bare_holder = make_holder("a", "10.40.0.0", "10.40.0.7", labels={}, finalizers=[])
    objects = (drifted, bare_holder)
    findings_by_name = index_findings(
        run_on_files(tmp_path, "check", "-o", "json", objects=objects)
    )
    assert set(findings_by_name) == {"StatusDrift lab", "LabelDrift a", "NoFinalizer a"}
    assert "availableIPs is 5, not 248" in findings_by_name["StatusDrift lab"]["sentence"]
    assert run_on_files(tmp_path, "check", objects=objects).code == 0
    assert run_on_files(tmp_path, "check", "--strict", objects=objects).code == 1


def test_pools_that_share_addresses_are_reported(tmp_path: Path) -> None:
    objects = (
        make_pool("a", "10.0.0.0/16"),
        make_pool("b", "10.0.4.0/24"),
        make_pool("c", "10.1.0.0/24"),
    )
    findings_by_name = index_findings(
        run_on_files(tmp_path, "check", "-o", "json", objects=objects)
    )
    assert {name: finding["sentence"] for name, finding in findings_by_name.items()} == {
        f"PoolsOverlap {name}": (
            f"addresses are also handed out by NetworkPool butler-system/{other} (256 addresses):"
            " well for separate sites, a slip otherwise"
        )
        for name, other in (("a", "b"), ("b", "a"))
    }


def test_pools_that_hand_out_different_parts_of_one_cidr_are_no_finding(tmp_path: Path) -> None:
    low = make_pool(
        "a", "10.0.0.0/24", tenant_allocation={"start": "10.0.0.0", "end": "10.0.0.127"}
    )
    high = make_pool("b", "10.0.0.0/24", reserved=["10.0.0.0/25"])
    assert not index_findings(run_on_files(tmp_path, "check", "-o", "json", objects=(low, high)))


REPORT = """\
apiVersion: report.butler-ipam/v1
kind: CheckReport
findings:
- kind: Orphan
  severity: error
  sentence: its owner is gone
  action: delete
  choices: [none, delete]
  subject: {kind: IPAllocation, namespace: a, name: b, uid: u, resourceVersion: "7"}
"""


@pytest.mark.parametrize(
    ("original", "replacement", "expected_words"),
    [
        (REPORT, "{", "report:2: this is not valid YAML"),
        (REPORT, "kind: List", "report:1: document 1: apiVersion is missing"),
        (
            "CheckReport",
            "NetworkPool",
            "report:2: kind: 'NetworkPool' is not one of CheckReport",
        ),
        (
            "action: delete",
            "action: delet",
            "action: 'delet' is not one of none, delete, label; did you mean delete?",
        ),
        (
            "action: delete",
            "acton: delete",
            "report:7: findings[0].acton: this field is unknown; did you mean action?",
        ),
        (
            '"7"',
            "7",
            "report:9: findings[0].subject.resourceVersion: must be a string, not 7; quote it",
        ),
        ("[none, delete]", "delete", "findings[0].choices: must be a list, not 'delete'"),
        (", name: b", "", "report:9: findings[0].subject.name: is missing"),
    ],
)
def test_the_error_about_an_invalid_report_names_the_fault_and_its_line(
    tmp_path: Path, original: str, replacement: str, expected_words: str
) -> None:
    assert original in REPORT
    (tmp_path / "report").write_text(REPORT.replace(original, replacement))
    outcome = run("check", "--repair", tmp_path / "report")
    assert outcome.code == 1
    assert expected_words in outcome.errors[0]
    summary = f"{tmp_path / 'report'} is not one report of `butler-ipam check -o yaml`"
    assert outcome.errors[1:] == [f"{summary}: correct it, or create a new report"]


@pytest.mark.parametrize("number", [0, 2])
def test_a_file_without_a_report_or_with_two_is_rejected(tmp_path: Path, number: int) -> None:
    (tmp_path / "report").write_text("---\n".join([REPORT] * number))
    outcome = run("check", "--repair", tmp_path / "report")
    assert outcome.code == 1
    assert "is not one report" in outcome.errors[-1]


def test_every_field_of_a_report_is_parsed(tmp_path: Path) -> None:
    labels = "  labels: {team: a}\n  since: '2026-01-01T00:00:00Z'\n"
    (tmp_path / "report").write_text(REPORT + labels)
    [finding] = read_report(tmp_path / "report").findings
    assert asdict(finding) == {**yaml.safe_load(REPORT + labels)["findings"][0]} | {
        "choices": ("none", "delete")
    }


def test_the_error_about_a_namespace_that_may_not_be_read_says_which_right_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuse(*_: object) -> None:
        raise Forbidden(403, "Forbidden", "tenantclusters is forbidden")

    monkeypatch.setattr("reconcilers.cli.cluster.objects.read_objects", refuse)
    config = _write_kubeconfig(tmp_path, "127.0.0.1:1")
    outcome = run("tenants", "-n", "team-x", "--kubeconfig", config)
    assert outcome.code == 1
    [error] = outcome.errors
    assert "neither in all namespaces nor in namespace team-x" in error
    assert "tenantclusters is forbidden" in error
    assert "ask an administrator for the right to list it in namespace team-x" in error


def _write_kubeconfig(folder: Path, address: str) -> Path:
    """Write a kubeconfig for the API server at HOST:PORT; return its path."""
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": {"server": f"https://{address}"}}],
        "users": [{"name": "u", "user": {"token": "x"}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "c",
    }
    path = folder / "kubeconfig"
    path.write_text(yaml.safe_dump(config))
    return path


@pytest.mark.parametrize("command", [("pools",), ("check",), ("check", "--tenants")], ids=str)
def test_the_error_about_a_cluster_that_does_not_answer_names_its_address(
    tmp_path: Path, command: tuple[str, ...]
) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{closed.getsockname()[1]}"
        outcome = run(*command, "--kubeconfig", _write_kubeconfig(tmp_path, address))
    assert outcome.code == 1
    assert outcome.err.startswith("error: ")
    assert address in outcome.err
    assert "object at 0x" not in outcome.err


@pytest.mark.parametrize(
    ("command", "kind"),
    [("tenants", TENANT_CLUSTER), ("pools", NETWORK_POOL), ("map", NETWORK_POOL)],
)
def test_a_table_names_the_objects_that_it_leaves_out_because_they_cannot_be_read(
    command: str, kind: Resource[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = make.pool("lab", "10.40.0.0/30")
    unreadable = {(kind.kind, Key("team", "odd")): "spec.cidr: 7 is no text"}
    objects = Objects(
        {lab.metadata.key: lab}, {}, clusters={}, providers={}, unreadable=unreadable
    )
    for module in ("tables", "map", "cluster.objects"):
        monkeypatch.setattr(
            f"reconcilers.cli.{module}.read_all", lambda *_, **__: objects, raising=True
        )
    [warning] = run(command).warnings
    assert warning == (
        f"1 {kind.kind} that cannot be read is not shown: team/odd; correct or delete what"
        " `butler-ipam check` reports"
    )
    assert run(command, "-n", "other").warnings == []


@pytest.mark.parametrize(
    ("stored", "sentences"),
    [
        ({}, ["it has an error, see above; the API server refuses it until it is corrected"]),
        ({"resourceVersion": "7"}, []),
    ],
    ids=["to be created", "stored"],
)
def test_check_says_that_the_api_server_rejects_an_invalid_cluster_only_if_it_is_not_stored(
    tmp_path: Path, stored: dict[str, str], sentences: list[str]
) -> None:
    wrong = make_saved_cluster()
    wrong["spec"]["workers"]["replicas"] = "many"
    wrong["metadata"].update(stored)
    outcome = run_on_files(tmp_path, "check", "-o", "json", objects=(make_pool(), wrong))
    assert "spec.workers.replicas" in outcome.errors[0]
    findings = json.loads(outcome.out)["findings"]
    assert [
        finding["sentence"] for finding in findings if finding["kind"] == "Unreadable"
    ] == sentences
