"""`status`: the states of all areas, the findings, and the exit code (1 error, 3 warning)."""

import json
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from typing_extensions import override

from allocator import AddressRange
from controller.meta import Key
from controller.testing import FakeApi, VirtualClock
from reconcilers.addressmap.audit import Finding, Subject
from reconcilers.addressmap.objects import Objects
from reconcilers.api.resources import IP_ALLOCATION, NETWORK_POOL
from reconcilers.cli.cluster.findingnames import list_subject_names
from reconcilers.cli.cluster.objects import ReadingScope, run_in_cluster
from reconcilers.cli.cluster.statuspage import build_status_page
from reconcilers.health.pools import FreeBlocks, list_pool_findings
from reconcilers.integrations.core.scopedlists import NotRead
from reconcilers.integrations.core.views import Views
from reconcilers.pictures.extents import list_extents
from reconcilers.pictures.poolpicture import PoolHolders, PoolRequest
from tests.reconcilers import make
from tests.reconcilers.cli.commandline import (
    Outcome,
    make_allocation,
    make_held_status,
    make_object,
    make_pool,
    run,
)
from tests.reconcilers.cli.saved import make_holder, make_saved_cluster, run_on_files
from tests.reconcilers.cli.test_claims import CREATED, make_claim, make_ip_pool

NOW = "2026-01-01T00:00:00Z"


def _make_condition(kind: str, status: str, reason: str, message: str) -> dict[str, str]:
    """Return a condition of a type, since NOW."""
    return {
        "type": kind,
        "status": status,
        "reason": reason,
        "message": message,
        "lastTransitionTime": NOW,
    }


def _make_cluster(name: str, *conditions: dict[str, str], **status: Any) -> dict[str, Any]:
    """Return a Ready TenantCluster with conditions and further fields of its status."""
    body = make_saved_cluster(name, "team", f"uid-{name}")
    body["metadata"]["creationTimestamp"] = NOW
    body["status"] = {"phase": "Ready", "conditions": list(conditions)} | status
    return body


def _make_waiting_cluster(
    name: str, count: int = 70, *, types: Sequence[str] = ("nodes",)
) -> dict[str, Any]:
    """Return a TenantCluster that waits for `count` addresses of each of the types."""
    message = f"needs {count} node addresses in a row; lab: largest free block 64"
    request = {
        "role": "initial",
        "reason": "PoolExhausted",
        "addresses": count,
        "namespace": "butler-system",
        "pools": ["lab"],
        "since": NOW,
    }
    return _make_cluster(
        name,
        _make_condition("NetworkReady", "False", reason="PoolExhausted", message=message),
        phase="Provisioning",
        network={"waiting": [request | {"type": kind} for kind in types]},
    )


def _make_pool(
    cidr: str = "10.40.0.0/26", conditions: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """Return NetworkPool `lab`; `conditions` are statuses of conditions by their type."""
    body = make_pool(cidr=cidr)
    body["status"] = {
        "conditions": [
            _make_condition(kind, value, reason="Because", message=f"{kind} is {value}")
            for kind, value in (conditions or {}).items()
        ],
    }
    return body


def _index_findings(outcome: Outcome) -> dict[str, dict[str, Any]]:
    """Return the findings by their kind."""
    return {finding["kind"]: finding for finding in json.loads(outcome.out)["findings"]}


def _read_states(outcome: Outcome) -> dict[str, str]:
    """Return the state of each area by its name."""
    return {area["area"]: area["state"] for area in json.loads(outcome.out)["areas"]}


def test_if_nothing_waits_all_areas_are_ok_and_the_exit_code_is_0(tmp_path: Path) -> None:
    ready = _make_condition("NetworkReady", "True", reason="Ready", message="LB IPs allocated")
    objects = (_make_pool(), _make_cluster("shop", ready))
    outcome = run_on_files(tmp_path, "status", "-o", "json", objects=objects)
    assert outcome.code == 0
    assert set(_read_states(outcome).values()) == {"ok"}
    assert json.loads(outcome.out)["findings"] == []


def test_clusters_without_addresses_and_their_pool_without_room_are_errors(
    tmp_path: Path,
) -> None:
    objects = (_make_pool(), _make_waiting_cluster("one"), _make_waiting_cluster("two"))
    outcome = run_on_files(tmp_path, "status", "-o", "json", objects=objects)
    assert outcome.code == 1
    assert (_read_states(outcome)["addresses"], _read_states(outcome)["pools"]) == (
        "error",
        "error",
    )
    findings = _index_findings(outcome)
    waits = findings["TenantWaitsForAddresses"]
    assert "needs 70 node addresses in a row; lab: largest free block 64" in waits["sentence"]
    assert waits["since"] == NOW
    assert "2 requests wait, the largest for 70" in findings["PoolHasNoRoomForWaiting"]["sentence"]


def test_a_pool_with_a_large_enough_free_block_has_no_finding(tmp_path: Path) -> None:
    objects = (_make_pool("10.40.0.0/25"), _make_waiting_cluster("one"))
    outcome = run_on_files(tmp_path, "status", "-o", "json", objects=objects)
    assert "PoolHasNoRoomForWaiting" not in _index_findings(outcome)


def test_a_pool_without_room_for_node_and_balancer_addresses_together_is_an_error(
    tmp_path: Path,
) -> None:
    objects = (
        _make_pool("10.40.0.0/29"),
        _make_waiting_cluster("one", 5, types=("loadbalancer", "nodes")),
    )
    findings = _index_findings(run_on_files(tmp_path, "status", "-o", "json", objects=objects))
    sentence = findings["PoolHasNoRoomForWaiting"]["sentence"]
    assert sentence.startswith("1 request waits, the largest for 10 addresses;")
    assert "the largest free block is 8" in sentence


def _make_dual_pool() -> dict[str, Any]:
    """Return NetworkPool `lab` with 8 IPv4 addresses and 2^64 IPv6 addresses."""
    body = _make_pool("10.40.0.0/29")
    body["spec"]["secondary"] = {"cidr": "2001:db8:40::/64"}
    return body


@pytest.mark.parametrize(
    ("networking", "family"),
    [
        ({"ipFamilyPolicy": "RequireDualStack"}, "IPv4"),
        ({"ipFamilyPolicy": "PreferDualStack"}, "IPv4"),
        ({}, "IPv4"),
        ({"ipFamilyPolicy": "SingleStack", "ipFamilies": ["IPv6"]}, None),
    ],
)
def test_the_finding_about_a_dual_stack_pool_names_the_family_without_room(
    tmp_path: Path, networking: dict[str, Any], family: str | None
) -> None:
    waiting = _make_waiting_cluster("one")
    waiting["spec"]["networking"] = networking
    outcome = run_on_files(tmp_path, "status", "-o", "json", objects=(_make_dual_pool(), waiting))
    finding = _index_findings(outcome).get("PoolHasNoRoomForWaiting")
    if family is None:
        assert finding is None
    else:
        assert finding is not None
        assert f"the largest for 70 {family} addresses" in finding["sentence"]
        assert f"the largest free {family} block is 8" in finding["sentence"]


def test_the_finding_about_a_dual_stack_request_names_the_free_blocks_of_both_families(
    tmp_path: Path,
) -> None:
    request = make_allocation("waits", count=70, ipFamilyPolicy="RequireDualStack")
    request["metadata"]["creationTimestamp"] = NOW
    outcome = run_on_files(tmp_path, "status", "-o", "json", objects=(_make_dual_pool(), request))
    findings = _index_findings(outcome)
    assert "largest free blocks are 8 of IPv4 and" in findings["RequestWaits"]["sentence"]
    assert "largest free IPv4 block is 8" in findings["PoolHasNoRoomForWaiting"]["sentence"]


@pytest.mark.parametrize(
    ("condition", "reason", "kind"),
    [
        ("LoadBalancerReady", "TenantUnreachable", "TenantUnreachable"),
        ("LoadBalancerReady", "TenantWebhookFailed", "TenantOutOfStep"),
        ("LoadBalancerDemandMet", "QuotaExceeded", "ServicesWait"),
        ("LoadBalancerSized", "RangeNotDivisible", "TenantSizeNotMet"),
        ("LoadBalancerReady", "CiliumNotInstalled", "TenantOutOfStep"),
        ("LoadBalancerReady", "CiliumNotRunning", "TenantOutOfStep"),
        ("SingleLoadBalancer", "LoadBalancersConflict", "LoadBalancersConflict"),
        ("LoadBalancerAnnounced", "NotAnnounced", "TenantNotAnnounced"),
    ],
)
def test_a_false_condition_of_a_ready_cluster_is_a_finding_with_its_message(
    tmp_path: Path, condition: str, reason: str, kind: str
) -> None:
    objects = (
        _make_pool(),
        _make_cluster(
            "shop", _make_condition(condition, "False", reason=reason, message="for this")
        ),
    )
    outcome = run_on_files(tmp_path, "status", "-o", "json", objects=objects)
    finding = _index_findings(outcome)[kind]
    assert "for this" in finding["sentence"]
    assert finding["since"] == NOW
    assert outcome.code == (3 if kind in {"TenantSizeNotMet", "TenantNotAnnounced"} else 1)


def test_services_that_wait_while_the_cluster_grows_are_a_warning(tmp_path: Path) -> None:
    objects = (
        _make_pool(),
        _make_cluster(
            "shop",
            _make_condition("LoadBalancerDemandMet", "False", reason="Growing", message="growing"),
        ),
    )
    outcome = run_on_files(tmp_path, "status", "-o", "json", objects=objects)
    assert (outcome.code, _index_findings(outcome)["ServicesWait"]["severity"]) == (3, "warning")


def test_the_finding_about_a_waiting_request_names_its_size_and_the_largest_free_block(
    tmp_path: Path,
) -> None:
    failed = {
        "phase": "Failed",
        "conditions": [
            _make_condition(
                "Ready", "False", reason="PoolExhausted", message="no contiguous block"
            )
        ],
    }
    waits = make_allocation("big", 100, status=failed)
    waits["metadata"]["creationTimestamp"] = NOW
    outcome = run_on_files(tmp_path, "status", "-o", "json", objects=(_make_pool(), waits))
    sentence = _index_findings(outcome)["RequestWaits"]["sentence"]
    assert "100 addresses in a row of NetworkPool butler-system/lab" in sentence
    assert "largest free block is 64" in sentence
    assert outcome.code == 1


def test_the_finding_about_a_waiting_release_names_the_range_and_the_tenant(
    tmp_path: Path,
) -> None:
    status = make_held_status("10.40.0.0", "10.40.0.7") | {
        "conditions": [
            _make_condition(
                "Ready", "False", reason="WaitingForTenant", message="MetalLB shows it"
            )
        ]
    }
    deleted = make_holder("lb", "10.40.0.0", "10.40.0.7", tenant="team/shop")
    deleted["status"] = status
    deleted["metadata"]["deletionTimestamp"] = NOW
    outcome = run_on_files(tmp_path, "status", "-o", "json", objects=(_make_pool(), deleted))
    release_waits = _index_findings(outcome)["ReleaseWaits"]
    assert release_waits["severity"] == "error"
    assert "10.40.0.0/29 waits for TenantCluster team/shop" in release_waits["sentence"]
    assert "MetalLB shows it" in release_waits["sentence"]


@pytest.mark.parametrize(
    ("condition", "value", "kind", "code"),
    [
        ("Ready", "False", "PoolNotReady", 1),
        ("RangesOverlap", "True", "PoolRangesOverlap", 1),
        ("Overlapping", "True", "PoolOverlapping", 3),
        ("Overlapping", "False", "", 0),
    ],
)
def test_conditions_of_a_pool_that_report_problems_are_findings(
    tmp_path: Path, condition: str, value: str, kind: str, code: int
) -> None:
    outcome = run_on_files(
        tmp_path, "status", "-o", "json", objects=(_make_pool(conditions={condition: value}),)
    )
    assert list(_index_findings(outcome)) == [kind] * bool(kind)
    assert outcome.code == code


def _make_overlapping_pools() -> tuple[dict[str, Any], dict[str, Any]]:
    """Return two NetworkPools of the same addresses; only the first has the condition."""
    other = make_pool("other", "10.40.0.0/26")
    return _make_pool(conditions={"Overlapping": "True"}), other


def test_check_lists_an_overlap_of_two_pools_once_for_each_and_status_keeps_the_condition(
    tmp_path: Path,
) -> None:
    objects = _make_overlapping_pools()
    checked = json.loads(run_on_files(tmp_path, "check", "-o", "json", objects=objects).out)[
        "findings"
    ]
    subjects = [(finding["kind"], finding["subject"]["name"]) for finding in checked]
    assert subjects == [("PoolsOverlap", "lab"), ("PoolsOverlap", "other")]
    status = run_on_files(tmp_path, "status", "-o", "json", objects=objects)
    assert list(_index_findings(status)) == ["PoolOverlapping"]


def test_check_reports_the_condition_overlapping_if_the_other_pool_was_not_read(
    tmp_path: Path,
) -> None:
    objects = (_make_pool(conditions={"Overlapping": "True"}),)
    outcome = run_on_files(tmp_path, "check", "-o", "json", objects=objects)
    assert list(_index_findings(outcome)) == ["PoolOverlapping"]


def test_status_of_a_namespace_shows_only_findings_about_objects_in_it(tmp_path: Path) -> None:
    objects = (_make_pool(), _make_waiting_cluster("one"))
    team = run_on_files(tmp_path, "status", "-n", "team", "-o", "json", objects=objects)
    assert list(_index_findings(team)) == ["TenantWaitsForAddresses"]
    others = run_on_files(tmp_path, "status", "-n", "others", "-o", "json", objects=objects)
    assert (others.code, list(_index_findings(others))) == (0, [])


@pytest.mark.parametrize("command", ["status", "check"])
def test_a_namespace_without_objects_is_named_because_it_may_be_misspelled(
    tmp_path: Path, command: str
) -> None:
    objects = (_make_pool(), _make_waiting_cluster("one"))
    outcome = run_on_files(tmp_path, command, "-n", "tema", objects=objects)
    sentence = "namespace tema has no NetworkPool, ProviderConfig, TenantCluster or IPAllocation"
    assert sentence in " ".join(outcome.err.split())
    for arguments in (("-n", "team"), ()):
        assert (
            "check its name"
            not in run_on_files(tmp_path, command, *arguments, objects=objects).err
        )


@pytest.mark.parametrize("command", ["status", "check"])
def test_a_namespace_with_pools_of_an_integration_is_not_called_empty(
    tmp_path: Path, command: str
) -> None:
    objects = (make_ip_pool("p", "10.0.0.1-10.0.0.9"),)
    namespace = objects[0]["metadata"]["namespace"]
    assert (
        "check its name"
        not in run_on_files(tmp_path, command, "-n", namespace, objects=objects).err
    )
    outcome = run_on_files(tmp_path, command, "-n", "tema", objects=objects)
    assert "and no pool of an integration; check its name" in " ".join(outcome.err.split())


def test_the_table_of_status_lists_the_areas_first_and_then_the_findings(tmp_path: Path) -> None:
    lines = run_on_files(
        tmp_path, "status", objects=(_make_pool(), _make_waiting_cluster("one"))
    ).out.splitlines()
    assert lines[0].split() == ["AREA", "STATE", "SUMMARY"]
    assert [line.split()[0] for line in lines[1:7]] == [
        "addresses",
        "tenants",
        "services",
        "requests",
        "releases",
        "pools",
    ]
    assert lines[8].split()[:3] == ["SEVERITY", "KIND", "OBJECT"]
    assert "TenantWaitsForAddresses" in "\n".join(lines[9:])


def test_check_includes_the_findings_about_waiting_clusters(tmp_path: Path) -> None:
    outcome = run_on_files(
        tmp_path, "check", "-o", "json", objects=(_make_pool(), _make_waiting_cluster("one"))
    )
    kinds = {finding["kind"] for finding in json.loads(outcome.out)["findings"]}
    assert {"TenantWaitsForAddresses", "PoolHasNoRoomForWaiting"} <= kinds
    assert outcome.code == 1


def test_tenants_shows_the_worst_condition_and_counts_waiting_services_and_requests(
    tmp_path: Path,
) -> None:
    unreachable = _make_cluster(
        "away",
        _make_condition("NetworkReady", "True", reason="Ready", message="LB IPs allocated"),
        _make_condition(
            "LoadBalancerReady", "False", reason="TenantUnreachable", message="timed out"
        ),
        network={"loadBalancer": {"servicesWaiting": 4}},
    )
    outcome = run_on_files(
        tmp_path,
        "tenants",
        "-o",
        "json",
        objects=(_make_pool(), unreachable, _make_waiting_cluster("one")),
    )
    away, waits = json.loads(outcome.out)["items"]
    assert (away["worstStatus"], away["worstMessage"]) == ("False", "timed out")
    assert (away["servicesWaiting"], waits["waiting"]) == (4, 1)
    table = run_on_files(
        tmp_path, "tenants", objects=(_make_pool(), unreachable, _make_waiting_cluster("one"))
    ).out
    heads, first, second = (line.split() for line in table.splitlines())
    assert dict(zip(heads, first, strict=True))["READY"] == "False"
    assert dict(zip(heads, second, strict=True))["WAITING"] == "1"


def test_a_deleted_claim_with_a_foreign_finalizer_is_a_stuck_release(tmp_path: Path) -> None:
    deleted = make_claim("a", "p", metadata={"deletionTimestamp": CREATED, "finalizers": ["x/y"]})
    outcome = run_on_files(
        tmp_path, "status", "-o", "json", objects=(make_ip_pool("p", "10.0.0.1"), deleted)
    )
    stuck_release = _index_findings(outcome)["StuckRelease"]
    assert (stuck_release["subject"]["kind"], stuck_release["since"]) == (
        "IPAddressClaim",
        CREATED,
    )
    assert _read_states(outcome)["releases"] == "warning"
    assert outcome.code == 3


@pytest.mark.parametrize("command", ["check", "status"])
def test_the_extents_of_each_pool_are_computed_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    first_addresses: list[str] = []

    def record_call(cidr: AddressRange, *rest: Any, **options: Any) -> Any:
        first_addresses.append(cidr.start_text)
        return list_extents(cidr, *rest, **options)

    monkeypatch.setattr("reconcilers.pictures.poolpicture.list_extents", record_call)
    run_on_files(
        tmp_path, command, objects=(_make_pool(), make_holder("a", "10.40.0.0", "10.40.0.7"))
    )
    assert first_addresses == ["10.40.0.0"]


class _CountingRepr:
    """Objects that count how often `repr` is called on them."""

    renderings = 0

    @override
    def __repr__(self) -> str:
        self.renderings += 1
        return ""


def test_run_in_cluster_does_not_call_repr_on_the_objects_that_were_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    @asynccontextmanager
    async def connect_to_nothing(*_: Any, **__: Any) -> AsyncIterator[FakeApi]:
        yield FakeApi(VirtualClock())

    async def read(_: Any) -> _CountingRepr:
        return objects

    objects = _CountingRepr()
    monkeypatch.setattr("controller.config.open_transport", connect_to_nothing)
    assert run_in_cluster(ReadingScope(), "reading", read) is objects
    assert objects.renderings == 0


def test_the_module_of_status_loads_neither_pydantic_nor_the_metrics() -> None:
    code = "import sys, reconcilers.cli.status; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert {"pydantic", "prometheus_client", "controller.leases"}.isdisjoint(done.stdout.split())


def test_an_unreadable_object_is_counted_and_reported_in_its_own_area(tmp_path: Path) -> None:
    stored: dict[str, Any] = {"resourceVersion": "4", "uid": "u4"}
    unreadable_cluster = make_object("TenantCluster", "shop", {"kubernetesVersion": 7}, **stored)
    unreadable_cluster["metadata"]["namespace"] = "team"
    unreadable_request = make_allocation("odd", **stored)
    unreadable_request["spec"]["count"] = "many"
    objects = (_make_pool(), unreadable_cluster, unreadable_request)
    outcome = run_on_files(tmp_path, "status", "-o", "json", objects=objects)
    areas = {area["area"]: area for area in json.loads(outcome.out)["areas"]}
    summaries = {name: area["summary"] for name, area in areas.items()}
    assert _read_states(outcome) | {"tenants": "error", "requests": "error"} == _read_states(
        outcome
    )
    assert areas["pools"]["state"] == "ok"
    assert summaries["addresses"] == "1 TenantCluster"
    assert summaries["tenants"] == "1 Unreadable"
    assert summaries["requests"].startswith("1 IPAllocation; ")


def test_a_missing_provider_config_of_a_cluster_is_reported_in_the_area_addresses(
    tmp_path: Path,
) -> None:
    body = _make_cluster("shop")
    body["spec"]["providerConfigRef"] = {"name": "gone"}
    outcome = run_on_files(tmp_path, "status", "-o", "json", objects=(_make_pool(), body))
    assert "UnknownProviderConfig" in _index_findings(outcome)
    assert (_read_states(outcome)["addresses"], _read_states(outcome)["pools"]) == ("error", "ok")


def test_areas_of_objects_that_the_user_may_not_read_are_unknown() -> None:
    not_read = [NotRead(IP_ALLOCATION.full_name), NotRead(NETWORK_POOL.full_name, "team")]
    tenant = make.tenant()
    objects = Objects(
        {}, {}, clusters={tenant.metadata.key: tenant}, providers={}, not_read=not_read
    )

    def read_states(namespace: str) -> dict[str, str]:
        return {area.area: area.state for area in build_status_page(objects, namespace).areas}

    unknown = {"requests": "unknown", "releases": "unknown"}
    assert read_states("") | unknown | {"pools": "unknown"} == read_states("")
    assert read_states("team") | unknown | {"pools": "ok"} == read_states("team")


def make_waiting_claim(name: str) -> PoolRequest:
    """Return the request of a claim for one IPv4 address."""
    return PoolRequest(
        "IPAddressClaim", Key("team", name), tenant="team/shop", purpose="claim", families=(4,)
    )


def test_requests_of_other_kinds_that_wait_are_counted_and_named() -> None:
    lab = make.pool("lab", "10.40.0.0/30", status={"totalIPs": 4, "allocatedIPs": 4})
    waiting = [make_waiting_claim(f"claim-{number}") for number in range(5)]
    views = Views(holders={lab.metadata.key: PoolHolders(waiting=waiting)})
    objects = Objects({lab.metadata.key: lab}, {}, clusters={}, providers={}, integrations=views)
    sentences = [
        finding.sentence for finding in list_pool_findings(objects, {lab.metadata.key: {4: 0}})
    ]
    (sentence,) = sentences
    assert sentence == (
        "5 requests wait for an address (IPAddressClaim claim-0, IPAddressClaim claim-1,"
        " IPAddressClaim claim-2, and 2 more); nothing is free"
    )


@pytest.mark.parametrize("largest_free", [{}, {Key("butler-system", "lab"): {4: 4}}])
def test_a_pool_that_is_not_known_to_be_full_is_not_called_full(
    largest_free: dict[Key, FreeBlocks],
) -> None:
    lab = make.pool("lab", "10.40.0.0/30")
    holders = PoolHolders(waiting=[make_waiting_claim("claim-0")])
    views = Views(holders={lab.metadata.key: holders})
    objects = Objects({lab.metadata.key: lab}, {}, clusters={}, providers={}, integrations=views)
    assert list(list_pool_findings(objects, largest_free)) == []


def test_the_names_of_findings_have_the_group_of_their_kind(tmp_path: Path) -> None:
    kinds = {
        "Lease": "lease.coordination.k8s.io",
        "IPAddressClaim": "ipaddressclaim.ipam.cluster.x-k8s.io",
        "IPAMAllocation": "ipamallocation.kubermatic.k8c.io",
        "ipallocations.vitistack.io": "ipallocations.vitistack.io",
        "TenantCluster": "tenantcluster",
    }
    findings = [
        Finding("X", "error", subject=Subject(kind, "a", "b"), sentence="wrong") for kind in kinds
    ]
    assert [kind for kind, _ in list_subject_names(findings)] == list(kinds.values())
    claims = (make_ip_pool("machines", "10.0.0.10"), make_claim("node", "gone"))
    printed = run_on_files(tmp_path, "check", "-o", "name", objects=claims).out
    assert "ipaddressclaim.ipam.cluster.x-k8s.io/node" in printed


@pytest.mark.parametrize("flags", [["--tenants"], ["--controller-namespace", "elsewhere"]])
def test_watch_rejects_flags_that_it_does_not_support(flags: list[str]) -> None:
    outcome = run("status", "--watch", *flags)
    assert outcome.code == 2
    assert "--watch reads neither tenants nor controllers" in outcome.err


def test_the_flag_controller_namespace_is_rejected_with_files(tmp_path: Path) -> None:
    outcome = run_on_files(
        tmp_path, "status", "--controller-namespace", "elsewhere", objects=(_make_pool(),)
    )
    assert outcome.code == 2
    assert "it needs a cluster, not files" in outcome.err
