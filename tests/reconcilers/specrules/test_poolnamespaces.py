"""NetworkPools and ProviderConfigs count only in the namespaces of --pool-namespaces."""

import pytest
from click.testing import CliRunner

from controller.errors import ConfigurationError
from reconcilers.cli.run import run
from reconcilers.configuration.settings import PoolSettings, Settings, TenantSettings, check_names
from tests.reconcilers import make
from tests.reconcilers.lab import Lab

HOME = make.NAMESPACE
ELSEWHERE = Settings(
    pool=PoolSettings(namespaces=("platform", "network")), tenant=TenantSettings(metallb_wait=0)
)
WHY = (
    f"namespace {HOME} may not hold NetworkPools or ProviderConfigs; --pool-namespaces allows"
    " platform, network"
)


def lab_with(settings: Settings) -> Lab:
    lab = Lab(settings)
    lab.server.add("networkpools", make.pool())
    lab.server.add("providerconfigs", make.provider("lab"))
    return lab


def condition(lab: Lab, plural: str, name: str, kind: str, namespace: str = HOME) -> list[str]:
    condition = lab.condition(plural, name, kind=kind, namespace=namespace)
    return [condition["status"], condition["reason"], condition["message"]]


async def test_a_pool_elsewhere_hands_out_nothing_and_says_so() -> None:
    lab = lab_with(ELSEWHERE)
    lab.server.add("ipallocations", make.allocation("a", size=4))
    await lab.pool()
    await lab.allocation("a")
    assert "startAddress" not in lab.see("ipallocations", "a")
    message = f"nothing is handed out, ranges from before are kept: {WHY}"
    assert condition(lab, "networkpools", name="lab", kind="Ready") == [
        "False",
        "NamespaceNotAllowed",
        message,
    ]
    assert condition(lab, "ipallocations", name="a", kind="Ready") == [
        "False",
        "PoolNotReady",
        f"NetworkPool {HOME}/lab is not ready: {message}",
    ]
    revision = lab.server.revision
    await lab.pool()
    assert lab.server.revision == revision


def figures(lab: Lab) -> tuple[int, int, int]:
    """Return how many addresses of the pool are held and free, and how many allocations hold."""
    status = lab.see("networkpools", "lab")
    return status["allocatedIPs"], status["availableIPs"], status["allocationCount"]


async def test_the_figures_of_a_pool_elsewhere_follow_its_ranges() -> None:
    lab = lab_with(ELSEWHERE)
    lab.server.add("ipallocations", make.allocation("a", held_range=("10.40.0.0", "10.40.0.199")))
    lab.server.add(
        "ipallocations", make.allocation("b", held_range=("10.40.0.200", "10.40.0.207"))
    )
    lab.server.add("ipallocations", make.allocation("waits", size=4))
    await lab.run_until_at_rest()
    assert figures(lab) == (208, 48, 2)
    assert condition(lab, "networkpools", name="lab", kind="CapacityWarning")[0] == "True"
    lab.server.delete("ipallocations", "a")
    await lab.run_until_at_rest()
    assert figures(lab) == (8, 248, 1)
    assert condition(lab, "networkpools", name="lab", kind="CapacityWarning")[0] == "False"
    assert condition(lab, "networkpools", name="lab", kind="Ready")[1] == "NamespaceNotAllowed"
    assert "startAddress" not in lab.see("ipallocations", "waits")


async def test_a_range_that_a_pool_promised_before_is_written() -> None:
    lab = lab_with(ELSEWHERE)
    waiting = make.allocation("a", size=4)
    lab.server.add("ipallocations", waiting)
    version = lab.server.see("ipallocations", "a")["metadata"]["resourceVersion"]
    promise = make.promise(waiting, "10.40.0.0", "10.40.0.3", version=version)
    entries = [make.list_promise(promise)]
    stored = lab.server.see("networkpools", "lab")
    lab.server.edit("networkpools", "lab", make.with_promises(stored, *entries))
    await lab.pool()
    await lab.clock.advance(lab.settings.pool.foreign_patience)
    await lab.pool()
    assert lab.see("ipallocations", "a")["startAddress"] == "10.40.0.0"
    await lab.pool()
    assert figures(lab) == (4, 252, 1)


async def test_a_pool_elsewhere_with_a_wrong_spec_reports_both() -> None:
    lab = Lab(ELSEWHERE)
    lab.server.add("networkpools", make.pool(reserved=["10.99.0.0/24"]))
    await lab.pool()
    assert condition(lab, "networkpools", name="lab", kind="Ready")[1] == "NamespaceNotAllowed"
    assert condition(lab, "networkpools", name="lab", kind="Stalled")[:2] == [
        "True",
        "ValidationFailed",
    ]


async def test_a_pool_is_served_again_once_its_namespace_is_listed() -> None:
    lab = lab_with(ELSEWHERE)
    lab.server.add("ipallocations", make.allocation("a", size=4))
    await lab.pool()
    lab.settings = Settings(pool=PoolSettings(namespaces=(HOME,)))
    restarted = lab.another()
    await restarted.pools.reconcile(make.key("lab"))
    assert lab.see("ipallocations", "a")["phase"] == "Allocated"
    assert condition(lab, "networkpools", name="lab", kind="Ready")[:2] == ["True", "Ready"]


async def test_a_provider_elsewhere_has_room_for_no_tenant() -> None:
    lab = lab_with(ELSEWHERE)
    await lab.pool()
    await lab.provider()
    assert condition(lab, "providerconfigs", name="default", kind="PoolAvailable") == [
        "False",
        "NamespaceNotAllowed",
        WHY,
    ]
    capacity = lab.see("providerconfigs", "default").get("capacity") or {}
    assert not capacity.get("availableIPs")
    assert not capacity.get("estimatedTenants")


async def test_a_pool_in_a_listed_namespace_is_served() -> None:
    lab = lab_with(Settings(pool=PoolSettings(namespaces=("platform", HOME))))
    lab.server.add("ipallocations", make.allocation("a", size=4))
    await lab.pool()
    assert lab.see("ipallocations", "a")["phase"] == "Allocated"


async def test_what_a_pool_handed_out_before_is_kept_and_its_deletion_works() -> None:
    lab = lab_with(ELSEWHERE)
    lab.server.add("ipallocations", make.allocation("a", held_range=("10.40.0.0", "10.40.0.7")))
    await lab.run_until_at_rest()
    assert lab.see("ipallocations", "a")["startAddress"] == "10.40.0.0"
    lab.server.delete("networkpools", "lab")
    await lab.run_until_at_rest()
    assert lab.server.all("networkpools")
    lab.server.delete("ipallocations", "a")
    await lab.run_until_at_rest()
    assert not lab.server.all("ipallocations")
    assert not lab.server.all("networkpools")


async def test_a_provider_elsewhere_is_not_ready_and_its_clusters_ask_for_nothing() -> None:
    lab = lab_with(ELSEWHERE)
    lab.server.add("tenantclusters", make.tenant())
    await lab.provider()
    await lab.cluster()
    assert condition(lab, "providerconfigs", name="default", kind="Ready") == [
        "False",
        "NamespaceNotAllowed",
        WHY,
    ]
    assert condition(lab, "tenantclusters", name="a", kind="NetworkReady", namespace="team") == [
        "False",
        "NamespaceNotAllowed",
        f"ProviderConfig {HOME}/default is not used: {WHY}",
    ]
    assert not lab.server.all("ipallocations")
    lab.server.delete("tenantclusters", "a", namespace="team")
    lab.server.delete("providerconfigs", "default")
    await lab.run_until_at_rest()
    assert not lab.server.all("tenantclusters")
    assert not lab.server.all("providerconfigs")


async def test_a_provider_elsewhere_names_its_namespace_before_absent_credentials() -> None:
    lab = Lab(ELSEWHERE)
    lab.server.add("networkpools", make.pool())
    absent = {"provider": "harvester", "credentialsRef": {"name": "absent"}}
    lab.server.add("providerconfigs", make.provider("lab", spec=absent))
    await lab.provider()
    ready = condition(lab, "providerconfigs", name="default", kind="Ready")
    assert ready == ["False", "NamespaceNotAllowed", WHY]
    credentials = condition(lab, "providerconfigs", name="default", kind="CredentialsValid")
    assert credentials[:2] == ["False", "CredentialsInvalid"]


async def test_a_ready_cluster_keeps_its_addresses_when_its_namespace_is_no_longer_listed() -> (
    None
):
    lab = lab_with(ELSEWHERE)
    lab.server.add("tenantclusters", make.tenant(status={"phase": "Ready"}))
    lab.server.add(
        "ipallocations", make.allocation("team-a-lb", held_range=("10.40.0.0", "10.40.0.7"))
    )
    await lab.cluster()
    assert lab.see("tenantclusters", "a", "team")["phase"] == "Ready"
    assert [allocation["metadata"]["name"] for allocation in lab.server.all("ipallocations")] == [
        "team-a-lb"
    ]


def test_a_namespace_that_can_be_none_is_refused_at_the_start() -> None:
    with pytest.raises(
        ConfigurationError, match="pool namespaces: 'No Space' is not the name of an object"
    ):
        check_names(Settings(pool=PoolSettings(namespaces=("platform", "No Space"))))


@pytest.mark.parametrize("value", [",", " , ,"])
def test_commas_without_a_name_do_not_allow_all_namespaces(value: str) -> None:
    outcome = CliRunner().invoke(run, ["--pool-namespaces", value])
    assert outcome.exit_code == 2
    assert f"{value!r} has no names; write names, or leave it empty" in " ".join(
        outcome.output.split()
    )
