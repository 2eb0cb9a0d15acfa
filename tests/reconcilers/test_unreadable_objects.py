"""Objects that cannot be read are not absent, and nothing is written from older versions."""

from typing import Any

import pytest

from controller.errors import Forbidden
from controller.meta import Key
from controller.outcome import Outcome
from reconcilers.api import names
from reconcilers.api.resources import BUTLER_CONFIG
from reconcilers.promises.passes import PoolPasses
from tests.reconcilers import make
from tests.reconcilers.platform import Platform
from tests.reconcilers.server import Json

BAD_CIDR: Json = {"spec": {"cidr": 7}}
BAD_MODE: Json = {"spec": {"network": 7}}
SENTENCE = "NetworkPool butler-system/lab cannot be read; correct or delete it"


def _ready(platform: Platform, plural: str, name: str) -> tuple[str, str, str]:
    return _condition(platform, plural, name=name, kind="Ready", namespace=make.NAMESPACE)


def _condition(
    platform: Platform, plural: str, name: str, kind: str, namespace: str
) -> tuple[str, str, str]:
    conditions = platform.server.see(plural, name, namespace=namespace)["status"]["conditions"]
    condition = next(c for c in conditions if c["type"] == kind)
    return condition["status"], condition["reason"], condition["message"]


def _writes(platform: Platform, plural: str) -> list[Any]:
    written = {"patch", "post", "delete"}
    return [r for r in platform.server.requests if r.plural == plural and r.verb in written]


def _platform(*pools: str) -> Platform:
    platform = Platform()
    for number, name in enumerate(pools):
        platform.server.add("networkpools", make.pool(name, f"10.{40 + number}.0.0/24"))
    platform.server.add("providerconfigs", make.provider(*(pools or ("lab",))))
    return platform


@pytest.mark.parametrize("finalizers", [[], None], ids=["without finalizer", "with finalizer"])
@pytest.mark.parametrize("restarted", [True, False], ids=["restarted", "running"])
async def test_nothing_is_written_to_a_waiting_allocation_that_became_unreadable(
    finalizers: list[str] | None, restarted: bool
) -> None:
    platform = _platform("lab")
    meta: dict[str, Any] = {} if finalizers is None else {"finalizers": finalizers}
    waiting = make.allocation("one", of="absent", tenant="x/y", **meta)
    platform.server.add("ipallocations", waiting)
    if not restarted:
        async with platform.running():
            await platform.clock.advance(30)
            await _stays_unwritten(platform)
    else:
        platform.server.edit("ipallocations", "one", {"spec": {"count": "many"}})
        async with platform.running():
            await platform.clock.advance(30)
            await _stays_unwritten(platform)


async def _stays_unwritten(platform: Platform) -> None:
    spoilt: Json = {"spec": {"count": "many"}, "metadata": {"finalizers": None, "labels": None}}
    platform.server.edit("ipallocations", "one", spoilt)
    # Something that would be written follows: the pool that it asked for appears.
    platform.server.add("networkpools", make.pool("absent", "10.60.0.0/24"))
    await platform.clock.advance(1)
    platform.server.requests.clear()
    await platform.clock.advance(600)
    assert not _writes(platform, "ipallocations")


@pytest.mark.parametrize("restarted", [True, False], ids=["restarted", "running"])
async def test_a_request_of_an_unreadable_pool_says_so(restarted: bool) -> None:
    platform = _platform("lab")
    if restarted:
        platform.server.edit("networkpools", "lab", BAD_CIDR)
    async with platform.running():
        await platform.clock.advance(5)
        platform.server.edit("networkpools", "lab", BAD_CIDR)
        platform.server.add("ipallocations", make.allocation("one", tenant="x/y"))
        await platform.clock.advance(30)
        assert _ready(platform, "ipallocations", "one") == ("False", "PoolUnreadable", SENTENCE)
        platform.server.requests.clear()
        await platform.clock.advance(600)
        assert not _writes(platform, "ipallocations")
        platform.server.edit("networkpools", "lab", {"spec": {"cidr": "10.40.0.0/24"}})
        await platform.clock.advance(5)
        assert platform.phase("ipallocations", "one") == "Allocated"


@pytest.mark.parametrize("restarted", [True, False], ids=["restarted", "running"])
async def test_a_provider_counts_an_unreadable_pool_neither_as_absent_nor_as_free(
    restarted: bool,
) -> None:
    platform = _platform("lab")
    if restarted:
        platform.server.edit("networkpools", "lab", BAD_CIDR)
    async with platform.running():
        await platform.clock.advance(5)
        platform.server.edit("networkpools", "lab", BAD_CIDR)
        await platform.clock.advance(5)
        status, reason, message = _condition(
            platform,
            "providerconfigs",
            name="default",
            kind="PoolAvailable",
            namespace=make.NAMESPACE,
        )
        assert (status, reason) == ("False", "PoolUnreadable")
        assert SENTENCE in message


@pytest.mark.parametrize("restarted", [True, False], ids=["restarted", "running"])
async def test_no_pool_behind_an_unreadable_one_is_chosen_for_a_cluster(restarted: bool) -> None:
    platform = _platform("lab", "behind")
    platform.tenant("a")
    if restarted:
        platform.server.edit("networkpools", "lab", BAD_CIDR)
    async with platform.running():
        await platform.clock.advance(5)
        platform.server.edit("networkpools", "lab", BAD_CIDR)
        platform.server.add("tenantclusters", make.tenant())
        await platform.clock.advance(60)
        assert platform.server.all("ipallocations") == []
        status, reason, message = _condition(
            platform, "tenantclusters", name="a", kind="NetworkReady", namespace="team"
        )
        assert (status, reason) == ("False", "PoolUnreadable")
        assert "lab: cannot be read; correct or delete it" in message
        platform.server.edit("networkpools", "lab", {"spec": {"cidr": "10.40.0.0/24"}})
        await platform.clock.advance(5)
        pools = {
            allocation["spec"]["poolRef"]["name"]
            for allocation in platform.server.all("ipallocations")
        }
        assert pools == {"lab"}


async def test_a_request_that_waits_for_a_pool_that_became_unreadable_is_not_moved() -> None:
    platform = _platform("lab", "behind")
    platform.server.edit("networkpools", "behind", {"spec": {"cidr": 7}})
    platform.server.edit("networkpools", "lab", {"spec": {"cidr": "10.40.0.0/29"}})
    full = make.allocation("full", tenant="x/y", held_range=("10.40.0.0", "10.40.0.7"))
    platform.server.add("ipallocations", full)
    cluster = make.tenant()
    ours = {names.ANNOTATION_TENANT_UID: cluster.metadata.uid}
    request = make.allocation("team-a-lb", size=8, of="behind", annotations=ours)
    platform.server.add("ipallocations", request)
    platform.server.add("tenantclusters", cluster)
    platform.tenant("a")
    async with platform.running():
        await platform.clock.advance(60)
        platform.server.vanish("ipallocations", "full")
        await platform.clock.advance(120)
        assert platform.server.see("ipallocations", "team-a-lb")["spec"]["poolRef"] == {
            "name": "behind"
        }


@pytest.mark.parametrize("restarted", [True, False], ids=["restarted", "running"])
@pytest.mark.parametrize("is_named", [True, False], ids=["named", "by default"])
async def test_a_cluster_whose_provider_cannot_be_read_gets_nothing_of_another(
    is_named: bool, restarted: bool
) -> None:
    platform = _platform("lab")
    platform.server.add("providerconfigs", make.provider("lab", name="other"))
    platform.tenant("a")
    spec = {"providerConfigRef": {"name": "default", "namespace": make.NAMESPACE}}
    if restarted:
        platform.server.edit("providerconfigs", "default", BAD_MODE)
    async with platform.running():
        await platform.clock.advance(5)
        platform.server.edit("providerconfigs", "default", BAD_MODE)
        platform.server.add("tenantclusters", make.tenant(spec=spec if is_named else None))
        await platform.clock.advance(30)
        assert platform.server.all("ipallocations") == []
        assert _condition(
            platform, "tenantclusters", name="a", kind="NetworkReady", namespace="team"
        ) == (
            "False",
            "ProviderConfigUnreadable",
            "ProviderConfig butler-system/default cannot be read; correct or delete it",
        )
        platform.server.requests.clear()
        await platform.clock.advance(600)
        assert not _writes(platform, "providerconfigs")
        assert not _writes(platform, "tenantclusters")


@pytest.mark.parametrize(
    ("reference", "stays"),
    [({"name": "default"}, True), ({"name": 7}, True), ({"name": "other"}, False), (None, False)],
    ids=["names it", "unreadable reference", "names another", "names none"],
)
async def test_a_deleted_provider_stays_while_a_cluster_that_may_name_it_cannot_be_read(
    reference: Json | None, stays: bool
) -> None:
    platform = _platform("lab")
    spec: Json = {"providerConfigRef": reference, "networking": {"lbPoolSize": "many"}}
    platform.server.add("tenantclusters", make.tenant())
    platform.server.edit("tenantclusters", "a", {"spec": spec}, namespace="team")
    platform.server.edit(
        "providerconfigs",
        "default",
        {"metadata": {"finalizers": [names.FINALIZER_PROVIDER]}},
    )
    platform.server.delete("providerconfigs", "default")
    async with platform.running():
        await platform.clock.advance(600)
        assert platform.server.has("providerconfigs", "default") == stays


async def test_a_deleted_provider_reports_which_unreadable_cluster_keeps_it() -> None:
    platform = _platform("lab")
    spec: Json = {"providerConfigRef": {"name": "default"}, "networking": {"lbPoolSize": "many"}}
    platform.server.add("tenantclusters", make.tenant())
    platform.server.edit("tenantclusters", "a", {"spec": spec}, namespace="team")
    finalizers = {"metadata": {"finalizers": [names.FINALIZER_PROVIDER]}}
    platform.server.edit("providerconfigs", "default", finalizers)
    platform.server.delete("providerconfigs", "default")
    async with platform.running():
        await platform.clock.advance(60)
        message = (
            "the ProviderConfig is not deleted, because these may refer to it: TenantCluster"
            " team/a cannot be read; correct or delete it"
        )
        ready = _ready(platform, "providerconfigs", "default")
        assert ready == ("False", "TenantClusterUnreadable", message)
        events = [event for event in platform.server.all("events") if event["note"] == message]
        assert [event["reason"] for event in events] == ["TenantClusterUnreadable"]
        platform.server.requests.clear()
        await platform.clock.advance(600)
        assert not _writes(platform, "providerconfigs"), "the condition is written once"
        spec["networking"] = {}
        spec["providerConfigRef"] = {"name": "other"}
        platform.server.edit("tenantclusters", "a", {"spec": spec}, namespace="team")
        await platform.clock.advance(60)
        assert not platform.server.has("providerconfigs", "default")


async def test_fifty_clusters_cost_one_look_while_the_platforms_default_is_unknown() -> None:
    platform = _platform("lab")
    platform.server.served = (*platform.server.served, "butlerconfigs")
    refused = Forbidden(403, "Forbidden", "butlerconfigs is forbidden")
    platform.server.fail(refused, times=100_000, plural="butlerconfigs")
    for number in range(50):
        platform.server.add("tenantclusters", make.tenant(f"c{number}"))
    async with platform.running():
        await platform.clock.advance(30)
        platform.server.requests.clear()
        await platform.clock.advance(100)
        assert platform.server.count(plural="butlerconfigs") <= 10
        assert not _writes(platform, "tenantclusters")


async def test_two_leaders_agree_while_discovery_does_not_list_the_platforms_kind() -> None:
    platform = _platform("lab")
    refused = Forbidden(403, "Forbidden", "definitions may not be listed")
    platform.server.fail(refused, times=100_000, plural="customresourcedefinitions")
    platform.server.add("tenantclusters", make.tenant())
    async with platform.running():
        await platform.clock.advance(1)
        first = _condition(
            platform, "tenantclusters", name="a", kind="NetworkReady", namespace="team"
        )
        assert first[1] == "ProviderConfigUnknown"
        assert BUTLER_CONFIG.full_name in first[2]
        await platform.clock.advance(11)
        assert (
            _condition(platform, "tenantclusters", name="a", kind="NetworkReady", namespace="team")
            == first
        )


async def test_an_unreadable_allocation_enqueues_its_own_pool_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    passes: list[str] = []
    reconcile = PoolPasses.reconcile

    async def noting(reconciler: PoolPasses[Any, Any, Any, Any], key: Key) -> Outcome:
        passes.append(key.name)
        return await reconcile(reconciler, key)

    monkeypatch.setattr(PoolPasses, "reconcile", noting)
    platform = _platform("lab", "other")
    platform.server.add("ipallocations", make.allocation("odd", of="lab", tenant="x/y"))
    async with platform.running():
        await platform.clock.advance(7)
        passes.clear()
        platform.server.edit("ipallocations", "odd", {"spec": {"count": "many"}})
        await platform.clock.advance(2)
        assert set(passes) == {"lab"}


async def test_a_pool_goes_on_at_once_when_an_allocation_without_a_pool_is_deleted() -> None:
    platform = _platform("lab")
    platform.server.add("ipallocations", make.allocation("odd", tenant="x/y", finalizers=[]))
    platform.server.edit("ipallocations", "odd", {"spec": {"poolRef": 7}})
    platform.server.add("ipallocations", make.allocation("one", tenant="x/y"))
    async with platform.running():
        await platform.clock.advance(30)
        assert platform.phase("ipallocations", "one") == "Pending"
        platform.server.vanish("ipallocations", "odd")
        await platform.clock.advance(2)
        assert platform.phase("ipallocations", "one") == "Allocated"


async def test_all_that_waits_reports_an_unreadable_pool_or_provider_at_once() -> None:
    platform = _platform("lab")
    platform.server.edit("networkpools", "lab", {"spec": {"cidr": "10.40.0.0/29"}})
    full = make.allocation("full", tenant="x/y", held_range=("10.40.0.0", "10.40.0.7"))
    platform.server.add("ipallocations", full)
    platform.server.add("ipallocations", make.allocation("one", tenant="x/y"))
    platform.server.add("tenantclusters", make.tenant())
    platform.tenant("a")
    async with platform.running():
        await platform.clock.advance(7)
        assert _network_reason(platform) == "PoolExhausted"
        platform.server.edit("networkpools", "lab", BAD_CIDR)
        await platform.clock.advance(2)
        assert _ready(platform, "ipallocations", "one")[1] == "PoolUnreadable"
        assert _network_reason(platform) == "PoolUnreadable"
        available = _condition(
            platform,
            "providerconfigs",
            name="default",
            kind="PoolAvailable",
            namespace=make.NAMESPACE,
        )
        assert available[1] == "PoolUnreadable"
        platform.server.edit("networkpools", "lab", {"spec": {"cidr": "10.40.0.0/29"}})
        await platform.clock.advance(7)
        assert _network_reason(platform) == "PoolExhausted"
        platform.server.edit("providerconfigs", "default", BAD_MODE)
        await platform.clock.advance(2)
        assert _network_reason(platform) == "ProviderConfigUnreadable"


def _network_reason(platform: Platform) -> str:
    return _condition(platform, "tenantclusters", name="a", kind="NetworkReady", namespace="team")[
        1
    ]
