"""`check` on what another controller keeps: what taking over changes for it."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from reconcilers.addressmap.audit import audit
from reconcilers.addressmap.objects import Objects
from reconcilers.api.resources import IP_ALLOCATION
from reconcilers.integrations.core.scopedlists import NotRead
from tests.reconcilers import make
from tests.reconcilers.cli.commandline import pool, provider
from tests.reconcilers.cli.saved import UID, ask, cluster, make_holder

KEPT = {"totalIPs": 256, "observedGeneration": 1}
"""The status of a pool as Butler's controller writes it."""
OURS = {**KEPT, **make.journal_of("lab", 7)}


def findings(folder: Path, *objects: dict[str, Any]) -> dict[tuple[str, str], str]:
    """Return the sentences about taking over, by kind and name of the object."""
    done = ask(folder, "check", "-o", "json", objects=objects)
    return {
        (finding["kind"], finding["subject"]["name"]): finding["sentence"]
        for finding in json.loads(done.out)["findings"]
        if finding["kind"] in {"UnnotedOrphan", "NewlyServed"}
    }


def unready(name: str = "one") -> dict[str, Any]:
    body = cluster(name)
    body["spec"]["providerConfigRef"] = {"name": "prov"}
    return body | {"status": {"phase": "Provisioning"}}


def test_a_range_of_a_cluster_that_is_gone_is_named_where_no_uid_tells(tmp_path: Path) -> None:
    sentences = findings(
        tmp_path, pool(status=KEPT), cluster("other"), make_holder("a", "10.40.0.0", "10.40.0.3")
    )
    assert list(sentences) == [("UnnotedOrphan", "a")]
    assert sentences["UnnotedOrphan", "a"].startswith(
        "holds 10.40.0.0/30 for TenantCluster others/one"
    )


def test_a_range_with_a_uid_or_a_cluster_is_no_unnoted_orphan(tmp_path: Path) -> None:
    noted = make_holder("a", "10.40.0.0", "10.40.0.3", annotations={UID: "u1"})
    owned = make_holder("b", "10.40.0.4", "10.40.0.7")
    assert findings(tmp_path, pool(status=KEPT), cluster(), noted, owned) == {}


def test_a_cluster_that_is_not_ready_is_named_with_what_it_will_be_given(tmp_path: Path) -> None:
    objects = (pool(status=KEPT), provider("prov", "lab"), unready())
    sentences = findings(tmp_path, *objects)
    assert list(sentences) == [("NewlyServed", "one")]
    assert "no addresses for nodes and load balancers" in sentences["NewlyServed", "one"]
    with_range = findings(tmp_path, *objects, make_holder("a", "10.40.0.0", "10.40.0.3"))
    assert "no addresses for nodes:" in with_range["NewlyServed", "one"]


def test_a_ready_cluster_and_one_in_cloud_mode_are_given_nothing(tmp_path: Path) -> None:
    ready = unready() | {"status": {"phase": "Ready"}}
    assert findings(tmp_path, pool(status=KEPT), provider("prov", "lab"), ready) == {}
    cloud = provider("prov", "lab", mode="cloud")
    assert findings(tmp_path, pool(status=KEPT), cloud, unready()) == {}


def test_pools_that_are_ours_or_of_no_controller_have_no_findings(tmp_path: Path) -> None:
    for network_pool in (pool(status=OURS), pool()):
        objects = (
            network_pool,
            provider("prov", "lab"),
            unready("two"),
            make_holder("a", "10.40.0.0", "10.40.0.3"),
        )
        assert findings(tmp_path, *objects) == {}


def test_a_cluster_whose_allocations_may_not_be_read_is_not_said_to_have_no_addresses() -> None:
    tenant, provider_config = make.tenant(), make.provider("lab")
    lab = make.pool(memory=None, status=KEPT)
    everything = Objects(
        {lab.metadata.key: lab},
        {},
        clusters={tenant.metadata.key: tenant},
        providers={provider_config.metadata.key: provider_config},
    )
    partly = replace(everything, not_read=[NotRead(IP_ALLOCATION.full_name)])
    kinds = [[finding.kind for finding in audit(objects, [])] for objects in (everything, partly)]
    assert kinds == [["NewlyServed"], []]
