"""`check` on objects that another controller still manages: what a takeover would change."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from reconcilers.addressmap.audit import audit
from reconcilers.addressmap.objects import Objects
from reconcilers.api.resources import IP_ALLOCATION
from reconcilers.integrations.core.scopedlists import NotRead
from tests.reconcilers import make
from tests.reconcilers.cli.commandline import make_pool, make_provider
from tests.reconcilers.cli.saved import UID, make_holder, make_saved_cluster, run_on_files

BUTLER_STATUS = {"totalIPs": 256, "observedGeneration": 1}
"""The status of a pool as Butler's controller writes it."""
OUR_STATUS = {**BUTLER_STATUS, **make.build_journal_status("lab", 7)}


def list_takeover_findings(folder: Path, *objects: dict[str, Any]) -> dict[tuple[str, str], str]:
    """Run `check`; return the sentences about a takeover, by finding kind and object name."""
    done = run_on_files(folder, "check", "-o", "json", objects=objects)
    return {
        (finding["kind"], finding["subject"]["name"]): finding["sentence"]
        for finding in json.loads(done.out)["findings"]
        if finding["kind"] in {"UnnotedOrphan", "NewlyServed"}
    }


def make_unready_cluster(name: str = "one") -> dict[str, Any]:
    """Return a TenantCluster of ProviderConfig `prov` that is still Provisioning."""
    body = make_saved_cluster(name)
    body["spec"]["providerConfigRef"] = {"name": "prov"}
    return body | {"status": {"phase": "Provisioning"}}


def test_a_range_of_a_missing_cluster_without_a_noted_uid_is_an_unnoted_orphan(
    tmp_path: Path,
) -> None:
    sentences = list_takeover_findings(
        tmp_path,
        make_pool(status=BUTLER_STATUS),
        make_saved_cluster("other"),
        make_holder("a", "10.40.0.0", "10.40.0.3"),
    )
    assert list(sentences) == [("UnnotedOrphan", "a")]
    assert sentences["UnnotedOrphan", "a"].startswith(
        "holds 10.40.0.0/30 for TenantCluster others/one"
    )


def test_a_range_with_a_uid_or_a_cluster_is_no_unnoted_orphan(tmp_path: Path) -> None:
    noted = make_holder("a", "10.40.0.0", "10.40.0.3", annotations={UID: "u1"})
    owned = make_holder("b", "10.40.0.4", "10.40.0.7")
    assert (
        list_takeover_findings(
            tmp_path, make_pool(status=BUTLER_STATUS), make_saved_cluster(), noted, owned
        )
        == {}
    )


def test_a_cluster_that_is_not_ready_is_named_with_the_addresses_that_it_lacks(
    tmp_path: Path,
) -> None:
    objects = (
        make_pool(status=BUTLER_STATUS),
        make_provider("prov", "lab"),
        make_unready_cluster(),
    )
    sentences = list_takeover_findings(tmp_path, *objects)
    assert list(sentences) == [("NewlyServed", "one")]
    assert "no addresses for nodes and load balancers" in sentences["NewlyServed", "one"]
    with_range = list_takeover_findings(
        tmp_path, *objects, make_holder("a", "10.40.0.0", "10.40.0.3")
    )
    assert "no addresses for nodes:" in with_range["NewlyServed", "one"]


def test_a_takeover_changes_nothing_for_a_ready_cluster_or_one_in_cloud_mode(
    tmp_path: Path,
) -> None:
    ready = make_unready_cluster() | {"status": {"phase": "Ready"}}
    assert (
        list_takeover_findings(
            tmp_path, make_pool(status=BUTLER_STATUS), make_provider("prov", "lab"), ready
        )
        == {}
    )
    cloud = make_provider("prov", "lab", mode="cloud")
    assert (
        list_takeover_findings(
            tmp_path, make_pool(status=BUTLER_STATUS), cloud, make_unready_cluster()
        )
        == {}
    )


def test_a_pool_without_a_status_or_with_our_journal_has_no_findings_about_a_takeover(
    tmp_path: Path,
) -> None:
    for network_pool in (make_pool(status=OUR_STATUS), make_pool()):
        objects = (
            network_pool,
            make_provider("prov", "lab"),
            make_unready_cluster("two"),
            make_holder("a", "10.40.0.0", "10.40.0.3"),
        )
        assert list_takeover_findings(tmp_path, *objects) == {}


def test_a_cluster_whose_allocations_could_not_be_read_is_not_called_newly_served() -> None:
    tenant, provider_config = make.tenant(), make.provider("lab")
    lab = make.pool(memory=None, status=BUTLER_STATUS)
    everything = Objects(
        {lab.metadata.key: lab},
        {},
        clusters={tenant.metadata.key: tenant},
        providers={provider_config.metadata.key: provider_config},
    )
    partly = replace(everything, not_read=[NotRead(IP_ALLOCATION.full_name)])
    kinds = [[finding.kind for finding in audit(objects, [])] for objects in (everything, partly)]
    assert kinds == [["NewlyServed"], []]
