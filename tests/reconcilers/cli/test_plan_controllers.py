"""A plan shows what the controllers would write, and keeps status fields that it cannot know."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from reconcilers.api.resources import IP_ALLOCATION
from reconcilers.cli.planning import controllerrun
from reconcilers.cli.reading.findings import Findings
from reconcilers.cli.reading.manifests import read_manifests
from reconcilers.configuration.settings import Settings
from reconcilers.integrations.clusterapi.api import JOURNALS
from tests.reconcilers.cli.commandline import (
    find_condition,
    make_allocation,
    make_cluster,
    make_held_status,
    make_pool,
    make_provider,
    plan,
)
from tests.reconcilers.cli.saved import run_on_files
from tests.reconcilers.cli.test_claims import make_claim, make_ip_pool
from tests.reconcilers.cli.test_platforms import add_promise, make_stored
from tests.yamls import written_yaml

PAUSED: dict[str, Any] = {"annotations": {"cluster.x-k8s.io/paused": ""}}
CLUSTER = {
    "apiVersion": "cluster.x-k8s.io/v1beta2",
    "kind": "Cluster",
    "metadata": {"name": "c", "namespace": "b"},
    "spec": {"paused": True},
}
NOW = datetime(2026, 1, 1, tzinfo=UTC)
SINCE = "2026-01-01T00:00:00Z"


def test_a_paused_claim_gets_no_address_and_its_promise_stays_reserved(tmp_path: Path) -> None:
    labels = {"cluster.x-k8s.io/cluster-name": "c"}
    paused = make_stored(make_claim("paused", "p", metadata={"labels": labels}))
    addresses = make_ip_pool("p", "10.0.0.10-10.0.0.11")
    promised = add_promise(
        addresses, JOURNALS, request=paused, first="10.0.0.10", last="10.0.0.10"
    )
    items = plan(promised, paused, CLUSTER, make_claim("other", "p")).items
    assert items["IPAddress/other"]["spec"]["address"] == "10.0.0.11"
    assert "IPAddress/paused" not in items
    waiting = make_claim("waiting", "p", metadata={"labels": labels})
    out = run_on_files(tmp_path, "plan", objects=(addresses, CLUSTER, waiting)).out
    assert "PoolNotReady: Cluster b/c is paused" in " ".join(out.split())


def test_a_paused_pool_serves_allocations_but_no_claims(tmp_path: Path) -> None:
    site = make_pool("site", "10.9.0.0/28", namespace="b", **PAUSED)
    objects = (
        site,
        make_claim("c", "site", "NetworkPool"),
        make_allocation("a", 2, "site", namespace="b"),
    )
    assert plan(*objects).items["IPAllocation/a"]["status"]["cidr"] == "10.9.0.0/31"
    out = run_on_files(tmp_path, "plan", objects=objects).out
    assert "PoolNotReady: its pool is paused by its annotation" in " ".join(out.split())


def test_a_new_cluster_waits_for_its_kubeconfig() -> None:
    status = plan(make_pool(), make_provider("prov", "lab"), make_cluster()).items[
        "TenantCluster/app"
    ]["status"]
    balancer = find_condition({"status": status}, "LoadBalancerReady")
    assert (status["phase"], balancer["status"], balancer["reason"]) == (
        *("Provisioning", "False", "KubeconfigMissing"),
    )


def test_conditions_of_a_running_cluster_that_depend_on_its_tenant_are_kept() -> None:
    conditions = [
        {
            "type": kind,
            "status": "True",
            "reason": "Ready",
            "message": "as it was",
            "lastTransitionTime": SINCE,
        }
        for kind in ("LoadBalancerReady", "Ready")
    ]
    running = make_cluster(status={"phase": "Ready", "conditions": conditions}, uid="u1")
    holder = make_allocation(
        "team-app-lb", 8, tenant="team/app", status=make_held_status("10.40.0.0", "10.40.0.7")
    )
    items = plan(make_pool(), make_provider("prov", "lab"), running, holder).items
    status = items["TenantCluster/app"]["status"]
    assert status["phase"] == "Ready"
    for before in conditions:
        assert find_condition({"status": status}, before["type"]) == before
    assert find_condition({"status": status}, "NetworkReady")["status"] == "True"


def test_status_fields_of_a_provider_that_depend_on_its_credentials_are_kept() -> None:
    provider_config = make_provider("prov", "lab")
    provider_config["spec"] |= {"provider": "harvester", "credentialsRef": {"name": "gone"}}
    invalid = {
        "type": "CredentialsValid",
        "status": "False",
        "reason": "CredentialsInvalid",
        "message": "credentials secret butler-system/gone not found",
        "lastTransitionTime": SINCE,
    }
    provider_config["status"] = {"conditions": [invalid], "validated": False, "ready": False}
    status = plan(make_pool(), provider_config).items["ProviderConfig/prov"]["status"]
    assert find_condition({"status": status}, "CredentialsValid") == invalid
    assert (status["validated"], status["ready"]) == (False, False)
    assert find_condition({"status": status}, "PoolAvailable")["status"] == "True"


def test_a_pool_allocates_after_the_wait_for_another_controllers_last_write() -> None:
    now = datetime.now(UTC)
    last_write = {
        "manager": "butler-controller",
        "operation": "Update",
        "subresource": "status",
        "apiVersion": "butler.butlerlabs.dev/v1alpha1",
        "fieldsType": "FieldsV1",
        "fieldsV1": {"f:status": {"f:phase": {}}},
        "time": (now - timedelta(seconds=5)).strftime("%Y-%m-%dT%H:%M:%SZ"),
    }
    holder = make_allocation(
        "old",
        8,
        status=make_held_status("10.40.0.0", "10.40.0.7"),
        managedFields=[last_write],
        resourceVersion="7",
        uid="u-old",
    )
    items = plan(make_pool(), holder, make_allocation("new", 8)).items
    assert items["IPAllocation/new"]["status"]["cidr"] == "10.40.0.8/29"
    allocated = items["IPAllocation/new"]["status"]["allocatedAt"]
    assert datetime.fromisoformat(allocated) - now > timedelta(seconds=100)


def test_each_new_request_costs_one_write(tmp_path: Path) -> None:
    file = tmp_path / "objects.yaml"
    objects: list[Any] = [make_pool(cidr="10.40.0.0/20")]
    file.write_text(written_yaml([*objects, *(make_allocation(f"a{n}", 2) for n in range(300))]))
    manifests = read_manifests(
        [str(file)], namespace="butler-system", now=NOW, findings=Findings()
    )
    server = controllerrun.run_controllers(manifests, Settings(), NOW)
    assert server.api.count(method="PATCH", resource=IP_ALLOCATION.full_name) == 300


def test_a_plan_that_runs_out_of_time_warns_that_it_is_incomplete(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(controllerrun, "MOST_SECONDS", 0.0)
    [warning] = plan(make_pool(), make_allocation("a", 4)).warnings
    assert warning == "the plan is not complete: controllers still change objects"
