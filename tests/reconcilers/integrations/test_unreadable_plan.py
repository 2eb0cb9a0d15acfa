"""`plan` and the gauges while an object that may hold addresses of a pool cannot be decoded."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from reconcilers.cli.plan import PlanOutcome, compute_outcome
from reconcilers.cli.reading.findings import Findings
from reconcilers.cli.reading.manifests import read_manifests
from reconcilers.configuration.settings import Settings
from reconcilers.integrations.clusterapi import api as clusterapi
from reconcilers.integrations.kubermatic import api as kubermatic
from reconcilers.integrations.vitistack import api as vitistack
from tests.yamls import written_yaml

Json = dict[str, Any]
NOW = datetime(2026, 1, 1, tzinfo=UTC)
CLAIMS, ADDRESSES = clusterapi.get_claim_kind("v1beta2"), clusterapi.get_address_kind("v1beta2")
POOLS = clusterapi.IN_CLUSTER_IP_POOL
REF = {"apiGroup": POOLS.group, "kind": POOLS.kind, "name": "p"}


def make_manifest(kind: Any, name: str, spec: Json, **more: Any) -> Json:
    """Return an object of a kind in JSON, in namespace `team` if the kind has namespaces."""
    metadata = {"name": name, "uid": f"{kind.kind}-{name}"}
    if kind.namespaced:
        metadata["namespace"] = "team"
    head = {"apiVersion": kind.api_version, "kind": kind.kind}
    return {**head, "metadata": metadata, "spec": spec, **more}


DATACENTER = {"type": "range", "poolCidr": "10.2.0.0/28", "allocationRange": 2}
STATIC = {"type": "static", "static": {"ipv4CIDR": "10.3.0.0/28"}}
MACHINE = {"networkNamespaceName": "p", "networkInterfaces": [{"name": "eth0"}]}
NETWORK = make_manifest(vitistack.NETWORKS, "p", {"ipAllocation": STATIC})
WAITING = make_manifest(vitistack.ALLOCATIONS, "b", {"networkNamespaceName": "p"})
CASES: dict[str, tuple[Json, Json, Json]] = {
    "IPAddress": (
        make_manifest(POOLS, "p", {"addresses": ["10.1.0.1-10.1.0.9"], "prefix": 24}),
        make_manifest(CLAIMS, "b", {"poolRef": REF}),
        make_manifest(ADDRESSES, "odd", {"poolRef": REF, "prefix": "many"}),
    ),
    "IPAMAllocation": (
        make_manifest(kubermatic.POOLS, "p", {"datacenters": {"dc": DATACENTER}}),
        make_manifest(kubermatic.CLUSTERS, "b", {"cloud": {"dc": "dc"}}),
        make_manifest(kubermatic.ALLOCATIONS, "p", {"type": 7}),
    ),
    "ipallocations.vitistack.io": (
        NETWORK,
        WAITING,
        make_manifest(vitistack.ALLOCATIONS, "odd", {**MACHINE, "interfaceName": 7}),
    ),
    "IPAllocation of a machine": (
        NETWORK,
        make_manifest(vitistack.CONFIGURATIONS, "b", MACHINE),
        make_manifest(vitistack.ALLOCATIONS, "b-eth0", {**MACHINE, "interfaceName": 7}),
    ),
    "NetworkConfiguration": (
        NETWORK,
        WAITING,
        make_manifest(vitistack.CONFIGURATIONS, "odd", {**MACHINE, "networkInterfaces": 7}),
    ),
}
"""For each kind of holder: a pool, a request, and a holder of addresses that is unreadable."""


def compute_plan(tmp_path: Path, *bodies: Json) -> PlanOutcome:
    """Return the outcome that the command `plan` computes from objects in a file."""
    file = tmp_path / "objects.yaml"
    file.write_text(written_yaml(bodies))
    findings = Findings()
    manifests = read_manifests([str(file)], namespace="team", now=NOW, findings=findings)
    return compute_outcome(manifests, Settings(namespace="team"), now=NOW, findings=findings)


@pytest.mark.parametrize("holder", CASES)
def test_a_plan_allocates_nothing_from_a_pool_with_an_unreadable_holder(
    holder: str, tmp_path: Path
) -> None:
    pool, request, unreadable_holder = CASES[holder]
    requests = compute_plan(tmp_path, pool, request).platform_requests
    assert [bool(request.gets) for request in requests] == [True]
    outcome = compute_plan(tmp_path, pool, request, unreadable_holder)
    [refused] = outcome.platform_requests
    assert refused.gets == ""
    assert "cannot be read; correct or delete it" in refused.reason
    printed = outcome.planned.platform_bodies
    bodies = [(body["kind"], body["metadata"]["name"]) for body in printed]
    assert len(bodies) == len(set(bodies)) <= 3
