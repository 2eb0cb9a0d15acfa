"""NetworkPools and ProviderConfigs count only in the namespaces of --pool-namespaces."""

import pytest
from click.testing import CliRunner

from controller.errors import ConfigurationError
from reconcilers.cli.run import run
from reconcilers.configuration.settings import PoolSettings, Settings, TenantSettings, check_names
from tests.reconcilers import make
from tests.reconcilers.lab import Lab

HOME = make.NAMESPACE
OTHER_NAMESPACES = Settings(
    pool=PoolSettings(namespaces=("platform", "network")), tenant=TenantSettings(metallb_wait=0)
)
"""Settings that do not list the namespace of the pools and ProviderConfigs of these tests."""
WHY = (
    f"namespace {HOME} may not hold NetworkPools or ProviderConfigs; --pool-namespaces allows"
    " platform, network"
)


def make_lab(settings: Settings) -> Lab:
    """Return a lab with a NetworkPool and a ProviderConfig."""
    lab = Lab(settings)
    lab.server.add("networkpools", make.pool())
    lab.server.add("providerconfigs", make.provider("lab"))
    return lab


def read_condition(
    lab: Lab, plural: str, name: str, kind: str, namespace: str = HOME
) -> list[str]:
    """Return status, reason and message of a condition of an object."""
    condition = lab.find_condition(plural, name, kind=kind, namespace=namespace)
    return [condition["status"], condition["reason"], condition["message"]]


async def test_a_pool_in_an_unlisted_namespace_hands_out_nothing_and_reports_that() -> None:
    lab = make_lab(OTHER_NAMESPACES)
    lab.server.add("ipallocations", make.allocation("a", size=4))
    await lab.run_pool_pass()
    await lab.run_allocation_pass("a")
    assert "startAddress" not in lab.read_status("ipallocations", "a")
    message = f"nothing is handed out, ranges from before are kept: {WHY}"
    assert read_condition(lab, "networkpools", name="lab", kind="Ready") == [
        "False",
        "NamespaceNotAllowed",
        message,
    ]
    assert read_condition(lab, "ipallocations", name="a", kind="Ready") == [
        "False",
        "PoolNotReady",
        f"NetworkPool {HOME}/lab is not ready: {message}",
    ]
    revision = lab.server.revision
    await lab.run_pool_pass()
    assert lab.server.revision == revision


def read_figures(lab: Lab) -> tuple[int, int, int]:
    """Return the pool's allocated and available addresses, and its number of allocations."""
    status = lab.read_status("networkpools", "lab")
    return status["allocatedIPs"], status["availableIPs"], status["allocationCount"]


async def test_the_figures_of_a_pool_in_an_unlisted_namespace_stay_current() -> None:
    lab = make_lab(OTHER_NAMESPACES)
    lab.server.add("ipallocations", make.allocation("a", held_range=("10.40.0.0", "10.40.0.199")))
    lab.server.add(
        "ipallocations", make.allocation("b", held_range=("10.40.0.200", "10.40.0.207"))
    )
    lab.server.add("ipallocations", make.allocation("waits", size=4))
    await lab.run_until_at_rest()
    assert read_figures(lab) == (208, 48, 2)
    assert read_condition(lab, "networkpools", name="lab", kind="CapacityWarning")[0] == "True"
    lab.server.delete("ipallocations", "a")
    await lab.run_until_at_rest()
    assert read_figures(lab) == (8, 248, 1)
    assert read_condition(lab, "networkpools", name="lab", kind="CapacityWarning")[0] == "False"
    assert (
        read_condition(lab, "networkpools", name="lab", kind="Ready")[1] == "NamespaceNotAllowed"
    )
    assert "startAddress" not in lab.read_status("ipallocations", "waits")


async def test_a_range_that_was_promised_before_is_written_in_an_unlisted_namespace() -> None:
    lab = make_lab(OTHER_NAMESPACES)
    waiting = make.allocation("a", size=4)
    lab.server.add("ipallocations", waiting)
    version = lab.server.see("ipallocations", "a")["metadata"]["resourceVersion"]
    promise = make.promise(waiting, "10.40.0.0", "10.40.0.3", version=version)
    entries = [make.render_promise(promise)]
    stored = lab.server.see("networkpools", "lab")
    lab.server.edit("networkpools", "lab", make.replace_promises(stored, *entries))
    await lab.run_pool_pass()
    await lab.clock.advance(lab.settings.pool.foreign_patience)
    await lab.run_pool_pass()
    assert lab.read_status("ipallocations", "a")["startAddress"] == "10.40.0.0"
    await lab.run_pool_pass()
    assert read_figures(lab) == (4, 252, 1)


async def test_an_invalid_pool_in_an_unlisted_namespace_reports_both_faults() -> None:
    lab = Lab(OTHER_NAMESPACES)
    lab.server.add("networkpools", make.pool(reserved=["10.99.0.0/24"]))
    await lab.run_pool_pass()
    assert (
        read_condition(lab, "networkpools", name="lab", kind="Ready")[1] == "NamespaceNotAllowed"
    )
    assert read_condition(lab, "networkpools", name="lab", kind="Stalled")[:2] == [
        "True",
        "ValidationFailed",
    ]


async def test_a_pool_is_served_again_once_its_namespace_is_listed() -> None:
    lab = make_lab(OTHER_NAMESPACES)
    lab.server.add("ipallocations", make.allocation("a", size=4))
    await lab.run_pool_pass()
    lab.settings = Settings(pool=PoolSettings(namespaces=(HOME,)))
    restarted = lab.make_replica()
    await restarted.pools.reconcile(make.key("lab"))
    assert lab.read_status("ipallocations", "a")["phase"] == "Allocated"
    assert read_condition(lab, "networkpools", name="lab", kind="Ready")[:2] == ["True", "Ready"]


async def test_a_provider_in_an_unlisted_namespace_has_room_for_no_tenant() -> None:
    lab = make_lab(OTHER_NAMESPACES)
    await lab.run_pool_pass()
    await lab.run_provider_pass()
    assert read_condition(lab, "providerconfigs", name="default", kind="PoolAvailable") == [
        "False",
        "NamespaceNotAllowed",
        WHY,
    ]
    capacity = lab.read_status("providerconfigs", "default").get("capacity") or {}
    assert not capacity.get("availableIPs")
    assert not capacity.get("estimatedTenants")


async def test_a_pool_in_a_listed_namespace_is_served() -> None:
    lab = make_lab(Settings(pool=PoolSettings(namespaces=("platform", HOME))))
    lab.server.add("ipallocations", make.allocation("a", size=4))
    await lab.run_pool_pass()
    assert lab.read_status("ipallocations", "a")["phase"] == "Allocated"


async def test_earlier_ranges_are_kept_and_a_pool_in_an_unlisted_namespace_can_be_deleted() -> (
    None
):
    lab = make_lab(OTHER_NAMESPACES)
    lab.server.add("ipallocations", make.allocation("a", held_range=("10.40.0.0", "10.40.0.7")))
    await lab.run_until_at_rest()
    assert lab.read_status("ipallocations", "a")["startAddress"] == "10.40.0.0"
    lab.server.delete("networkpools", "lab")
    await lab.run_until_at_rest()
    assert lab.server.all("networkpools")
    lab.server.delete("ipallocations", "a")
    await lab.run_until_at_rest()
    assert not lab.server.all("ipallocations")
    assert not lab.server.all("networkpools")


async def test_clusters_of_a_provider_in_an_unlisted_namespace_get_no_allocations() -> None:
    lab = make_lab(OTHER_NAMESPACES)
    lab.server.add("tenantclusters", make.tenant())
    await lab.run_provider_pass()
    await lab.run_cluster_pass()
    assert read_condition(lab, "providerconfigs", name="default", kind="Ready") == [
        "False",
        "NamespaceNotAllowed",
        WHY,
    ]
    assert read_condition(
        lab, "tenantclusters", name="a", kind="NetworkReady", namespace="team"
    ) == [
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


async def test_the_unlisted_namespace_of_a_provider_is_reported_before_missing_credentials() -> (
    None
):
    lab = Lab(OTHER_NAMESPACES)
    lab.server.add("networkpools", make.pool())
    absent = {"provider": "harvester", "credentialsRef": {"name": "absent"}}
    lab.server.add("providerconfigs", make.provider("lab", spec=absent))
    await lab.run_provider_pass()
    ready = read_condition(lab, "providerconfigs", name="default", kind="Ready")
    assert ready == ["False", "NamespaceNotAllowed", WHY]
    credentials = read_condition(lab, "providerconfigs", name="default", kind="CredentialsValid")
    assert credentials[:2] == ["False", "CredentialsInvalid"]


async def test_a_ready_cluster_keeps_its_addresses_if_the_namespace_is_no_longer_listed() -> None:
    lab = make_lab(OTHER_NAMESPACES)
    lab.server.add("tenantclusters", make.tenant(status={"phase": "Ready"}))
    lab.server.add(
        "ipallocations", make.allocation("team-a-lb", held_range=("10.40.0.0", "10.40.0.7"))
    )
    await lab.run_cluster_pass()
    assert lab.read_status("tenantclusters", "a", "team")["phase"] == "Ready"
    assert [allocation["metadata"]["name"] for allocation in lab.server.all("ipallocations")] == [
        "team-a-lb"
    ]


def test_an_invalid_name_of_a_namespace_is_rejected_at_the_start() -> None:
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
