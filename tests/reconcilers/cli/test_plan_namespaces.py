"""`plan --pool-namespaces`: pools and providers of other namespaces serve no requests."""

import json
from pathlib import Path

import yaml

from tests.reconcilers.cli.commandline import (
    find_condition,
    make_allocation,
    make_cluster,
    make_held_status,
    make_pool,
    make_provider,
    plan,
    plan_text,
    run,
)
from tests.reconcilers.cli.test_claims import make_address, make_claim, make_saved_object

NOT_ALLOWED = (
    "namespace butler-system may not hold NetworkPools or ProviderConfigs; --pool-namespaces"
    " allows network, platform"
)
ONLY_OTHER_NAMESPACES = ("--pool-namespaces", "network", "--pool-namespaces", "platform")


def test_a_pool_in_a_namespace_that_is_not_allowed_is_an_error_and_hands_out_nothing() -> None:
    holder = make_allocation("old", 8, status=make_held_status("10.40.0.0", "10.40.0.7"))
    outcome = plan(make_pool(), holder, make_allocation("new", 4), options=ONLY_OTHER_NAMESPACES)
    assert outcome.code == 1
    [sentence] = outcome.errors
    assert "NetworkPool butler-system/lab" in sentence
    assert NOT_ALLOWED in sentence
    items = outcome.items
    message = f"nothing is handed out, ranges from before are kept: {NOT_ALLOWED}"
    condition = find_condition(items["NetworkPool/lab"])
    assert (condition["status"], condition["reason"], condition["message"]) == (
        "False",
        "NamespaceNotAllowed",
        message,
    )
    assert items["NetworkPool/lab"]["status"]["allocatedIPs"] == 8
    assert items["IPAllocation/old"]["status"]["startAddress"] == "10.40.0.0"
    waiting = find_condition(items["IPAllocation/new"])
    assert waiting["message"] == f"NetworkPool butler-system/lab is not ready: {message}"


def test_a_provider_in_a_namespace_that_is_not_allowed_serves_no_cluster() -> None:
    outcome = plan(
        make_pool(), make_provider("prov", "lab"), make_cluster(), options=ONLY_OTHER_NAMESPACES
    )
    assert [line for line in outcome.errors if "ProviderConfig butler-system/prov" in line]
    items = outcome.items
    assert find_condition(items["ProviderConfig/prov"])["reason"] == "NamespaceNotAllowed"
    network = find_condition(items["TenantCluster/app"], "NetworkReady")
    assert (network["reason"], network["message"]) == (
        "NamespaceNotAllowed",
        f"ProviderConfig butler-system/prov is not used: {NOT_ALLOWED}",
    )
    assert not [name for name in items if name.startswith("IPAllocation/")]


def test_objects_in_an_allowed_namespace_are_planned_as_without_the_flag() -> None:
    objects = make_pool(), make_provider("prov", "lab"), make_cluster()
    planned_with_flag = plan(*objects, options=("--pool-namespaces=network,butler-system",))
    planned_without_flag = plan(*objects)
    assert (
        (planned_with_flag.code, planned_with_flag.errors)
        == (planned_without_flag.code, planned_without_flag.errors)
        == (0, [])
    )
    assert set(planned_with_flag.items) == set(planned_without_flag.items)


def test_a_provider_of_another_team_serves_no_cluster() -> None:
    team_provider = make_provider("prov", "lab")
    team_provider["spec"]["scope"] = {"type": "team", "teamRef": {"name": "red"}}
    other = make_cluster()
    other["spec"]["teamRef"] = {"name": "blue"}
    items = plan(make_pool(), team_provider, other).items
    assert (
        find_condition(items["TenantCluster/app"], "NetworkReady")["reason"]
        == "ProviderAccessDenied"
    )
    assert not [name for name in items if name.startswith("IPAllocation/")]


def test_a_claim_on_a_pool_that_is_not_allowed_gets_no_address_and_others_keep_theirs(
    tmp_path: Path,
) -> None:
    file = tmp_path / "claims.yaml"
    objects = [
        make_saved_object("NetworkPool", "site", {"cidr": "10.9.0.0/29", "gateway": "10.9.0.1"}),
        make_claim("old", "site", "NetworkPool"),
        make_address("old", "site", ip="10.9.0.2", kind="NetworkPool"),
        make_claim("new", "site", "NetworkPool"),
    ]
    file.write_text(yaml.safe_dump_all(objects))
    outcome = run("plan", "-f", file, "-o", "json", "--pool-namespaces", "network")
    claims = {name: item for name, item in outcome.items.items() if "IPAddressClaim" in name}
    assert "addressRef" not in claims["IPAddressClaim/new"].get("status", {})
    assert claims["IPAddressClaim/old"]["status"]["addressRef"] == {"name": "old"}
    assert (
        "namespace b may not hold NetworkPools"
        in find_condition(claims["IPAddressClaim/new"])["message"]
    )


def test_a_list_of_namespaces_without_a_name_is_rejected() -> None:
    assert plan_text("", "--pool-namespaces", ",").code == 2


def test_no_tenant_fits_into_a_pool_that_hands_out_nothing() -> None:
    outcome = plan(make_pool(), options=(*ONLY_OTHER_NAMESPACES, "--fit", "5+8"))
    [item] = json.loads(outcome.out)["items"]
    assert [item[when]["fits"][0]["tenants"] for when in ("before", "after")] == [0, 0]
    assert item["after"]["available"] == 256
    allowed = plan(make_pool(), options=("--pool-namespaces", "butler-system", "--fit", "5+8"))
    assert json.loads(allowed.out)["items"][0]["after"]["fits"][0]["tenants"] > 0
