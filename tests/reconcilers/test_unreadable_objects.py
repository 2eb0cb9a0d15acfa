"""Objects that cannot be decoded are not treated as absent, nor written from older versions.

Tests with `is_restarted` spoil an object before the controllers start, or while they run.
"""

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

SPEC_WITH_BAD_CIDR: Json = {"spec": {"cidr": 7}}
SPEC_WITH_BAD_NETWORK: Json = {"spec": {"network": 7}}
LAB_IS_UNREADABLE = "NetworkPool butler-system/lab cannot be read; correct or delete it"


def _read_ready(platform: Platform, plural: str, name: str) -> tuple[str, str, str]:
    return _read_condition(platform, plural, name=name, kind="Ready", namespace=make.NAMESPACE)


def _read_condition(
    platform: Platform, plural: str, name: str, kind: str, namespace: str
) -> tuple[str, str, str]:
    """Return status, reason and message of the condition of a type `kind`."""
    conditions = platform.server.see(plural, name, namespace=namespace)["status"]["conditions"]
    condition = next(c for c in conditions if c["type"] == kind)
    return condition["status"], condition["reason"], condition["message"]


def _list_writes(platform: Platform, plural: str) -> list[Any]:
    """Return the requests to the management cluster that write objects of one kind."""
    written = {"patch", "post", "delete"}
    return [r for r in platform.server.requests if r.plural == plural and r.verb in written]


def _make_platform(*pools: str) -> Platform:
    """Return a management cluster with these pools and a provider that refers to them.

    Without pools, the provider refers to the absent pool `lab`.
    """
    platform = Platform()
    for number, name in enumerate(pools):
        platform.server.add("networkpools", make.pool(name, f"10.{40 + number}.0.0/24"))
    platform.server.add("providerconfigs", make.provider(*(pools or ("lab",))))
    return platform


@pytest.mark.parametrize("finalizers", [[], None], ids=["without finalizer", "with finalizer"])
@pytest.mark.parametrize("is_restarted", [True, False], ids=["restarted", "running"])
async def test_nothing_is_written_to_a_waiting_allocation_that_became_unreadable(
    finalizers: list[str] | None, is_restarted: bool
) -> None:
    platform = _make_platform("lab")
    meta: dict[str, Any] = {} if finalizers is None else {"finalizers": finalizers}
    waiting = make.allocation("one", of="absent", tenant="x/y", **meta)
    platform.server.add("ipallocations", waiting)
    if not is_restarted:
        async with platform.running():
            await platform.clock.advance(30)
            await _check_allocation_is_not_written(platform)
    else:
        platform.server.edit("ipallocations", "one", {"spec": {"count": "many"}})
        async with platform.running():
            await platform.clock.advance(30)
            await _check_allocation_is_not_written(platform)


async def _check_allocation_is_not_written(platform: Platform) -> None:
    """Spoil the allocation `one`, create its pool, and check that no allocation is written."""
    spoilt: Json = {"spec": {"count": "many"}, "metadata": {"finalizers": None, "labels": None}}
    platform.server.edit("ipallocations", "one", spoilt)
    # A readable allocation would be written now, as the pool appears that it asks for.
    platform.server.add("networkpools", make.pool("absent", "10.60.0.0/24"))
    await platform.clock.advance(1)
    platform.server.requests.clear()
    await platform.clock.advance(600)
    assert not _list_writes(platform, "ipallocations")


@pytest.mark.parametrize("is_restarted", [True, False], ids=["restarted", "running"])
async def test_an_allocation_reports_that_its_pool_is_unreadable(is_restarted: bool) -> None:
    platform = _make_platform("lab")
    if is_restarted:
        platform.server.edit("networkpools", "lab", SPEC_WITH_BAD_CIDR)
    async with platform.running():
        await platform.clock.advance(5)
        platform.server.edit("networkpools", "lab", SPEC_WITH_BAD_CIDR)
        platform.server.add("ipallocations", make.allocation("one", tenant="x/y"))
        await platform.clock.advance(30)
        assert _read_ready(platform, "ipallocations", "one") == (
            "False",
            "PoolUnreadable",
            LAB_IS_UNREADABLE,
        )
        platform.server.requests.clear()
        await platform.clock.advance(600)
        assert not _list_writes(platform, "ipallocations")
        platform.server.edit("networkpools", "lab", {"spec": {"cidr": "10.40.0.0/24"}})
        await platform.clock.advance(5)
        assert platform.phase("ipallocations", "one") == "Allocated"


@pytest.mark.parametrize("is_restarted", [True, False], ids=["restarted", "running"])
async def test_a_provider_counts_an_unreadable_pool_neither_as_absent_nor_as_free(
    is_restarted: bool,
) -> None:
    platform = _make_platform("lab")
    if is_restarted:
        platform.server.edit("networkpools", "lab", SPEC_WITH_BAD_CIDR)
    async with platform.running():
        await platform.clock.advance(5)
        platform.server.edit("networkpools", "lab", SPEC_WITH_BAD_CIDR)
        await platform.clock.advance(5)
        status, reason, message = _read_condition(
            platform,
            "providerconfigs",
            name="default",
            kind="PoolAvailable",
            namespace=make.NAMESPACE,
        )
        assert (status, reason) == ("False", "PoolUnreadable")
        assert LAB_IS_UNREADABLE in message


@pytest.mark.parametrize("is_restarted", [True, False], ids=["restarted", "running"])
async def test_no_pool_that_follows_an_unreadable_pool_is_chosen_for_a_cluster(
    is_restarted: bool,
) -> None:
    """The provider refers to the pools `lab` and `behind` in this order; `lab` is unreadable."""
    platform = _make_platform("lab", "behind")
    platform.tenant("a")
    if is_restarted:
        platform.server.edit("networkpools", "lab", SPEC_WITH_BAD_CIDR)
    async with platform.running():
        await platform.clock.advance(5)
        platform.server.edit("networkpools", "lab", SPEC_WITH_BAD_CIDR)
        platform.server.add("tenantclusters", make.tenant())
        await platform.clock.advance(60)
        assert platform.server.all("ipallocations") == []
        status, reason, message = _read_condition(
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


async def test_a_waiting_allocation_of_an_unreadable_pool_is_not_moved_to_another_pool() -> None:
    platform = _make_platform("lab", "behind")
    platform.server.edit("networkpools", "behind", {"spec": {"cidr": 7}})
    platform.server.edit("networkpools", "lab", {"spec": {"cidr": "10.40.0.0/29"}})
    full = make.allocation("full", tenant="x/y", held_range=("10.40.0.0", "10.40.0.7"))
    platform.server.add("ipallocations", full)
    cluster = make.tenant()
    tenant_annotation = {names.ANNOTATION_TENANT_UID: cluster.metadata.uid}
    request = make.allocation("team-a-lb", size=8, of="behind", annotations=tenant_annotation)
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


@pytest.mark.parametrize("is_restarted", [True, False], ids=["restarted", "running"])
@pytest.mark.parametrize("is_named", [True, False], ids=["named", "by default"])
async def test_a_cluster_whose_provider_is_unreadable_gets_no_range_of_another_provider(
    is_named: bool, is_restarted: bool
) -> None:
    platform = _make_platform("lab")
    platform.server.add("providerconfigs", make.provider("lab", name="other"))
    platform.tenant("a")
    spec = {"providerConfigRef": {"name": "default", "namespace": make.NAMESPACE}}
    if is_restarted:
        platform.server.edit("providerconfigs", "default", SPEC_WITH_BAD_NETWORK)
    async with platform.running():
        await platform.clock.advance(5)
        platform.server.edit("providerconfigs", "default", SPEC_WITH_BAD_NETWORK)
        platform.server.add("tenantclusters", make.tenant(spec=spec if is_named else None))
        await platform.clock.advance(30)
        assert platform.server.all("ipallocations") == []
        assert _read_condition(
            platform, "tenantclusters", name="a", kind="NetworkReady", namespace="team"
        ) == (
            "False",
            "ProviderConfigUnreadable",
            "ProviderConfig butler-system/default cannot be read; correct or delete it",
        )
        platform.server.requests.clear()
        await platform.clock.advance(600)
        assert not _list_writes(platform, "providerconfigs")
        assert not _list_writes(platform, "tenantclusters")


@pytest.mark.parametrize(
    ("reference", "is_kept"),
    [({"name": "default"}, True), ({"name": 7}, True), ({"name": "other"}, False), (None, False)],
    ids=["names it", "unreadable reference", "names another", "names none"],
)
async def test_a_deleted_provider_stays_while_a_cluster_that_may_name_it_cannot_be_read(
    reference: Json | None, is_kept: bool
) -> None:
    platform = _make_platform("lab")
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
        assert platform.server.has("providerconfigs", "default") == is_kept


async def test_a_deleted_provider_reports_which_unreadable_cluster_keeps_it() -> None:
    platform = _make_platform("lab")
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
        ready = _read_ready(platform, "providerconfigs", "default")
        assert ready == ("False", "TenantClusterUnreadable", message)
        events = [event for event in platform.server.all("events") if event["note"] == message]
        assert [event["reason"] for event in events] == ["TenantClusterUnreadable"]
        platform.server.requests.clear()
        await platform.clock.advance(600)
        assert not _list_writes(platform, "providerconfigs"), "the condition is written once"
        spec["networking"] = {}
        spec["providerConfigRef"] = {"name": "other"}
        platform.server.edit("tenantclusters", "a", {"spec": spec}, namespace="team")
        await platform.clock.advance(60)
        assert not platform.server.has("providerconfigs", "default")


async def test_fifty_clusters_share_requests_while_the_platforms_default_is_unknown() -> None:
    """The platform's default provider is unknown as the ButlerConfig may not be read."""
    platform = _make_platform("lab")
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
        assert not _list_writes(platform, "tenantclusters")


async def test_two_leaders_report_the_same_while_definitions_may_not_be_listed() -> None:
    """Then it is unknown whether the platform's kind, ButlerConfig, is served."""
    platform = _make_platform("lab")
    refused = Forbidden(403, "Forbidden", "definitions may not be listed")
    platform.server.fail(refused, times=100_000, plural="customresourcedefinitions")
    platform.server.add("tenantclusters", make.tenant())
    async with platform.running():
        await platform.clock.advance(1)
        first = _read_condition(
            platform, "tenantclusters", name="a", kind="NetworkReady", namespace="team"
        )
        assert first[1] == "ProviderConfigUnknown"
        assert BUTLER_CONFIG.full_name in first[2]
        await platform.clock.advance(11)
        assert (
            _read_condition(
                platform, "tenantclusters", name="a", kind="NetworkReady", namespace="team"
            )
            == first
        )


async def test_an_unreadable_allocation_enqueues_its_own_pool_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    passes: list[str] = []
    reconcile = PoolPasses.reconcile

    async def reconcile_and_record(
        reconciler: PoolPasses[Any, Any, Any, Any], key: Key
    ) -> Outcome:
        passes.append(key.name)
        return await reconcile(reconciler, key)

    monkeypatch.setattr(PoolPasses, "reconcile", reconcile_and_record)
    platform = _make_platform("lab", "other")
    platform.server.add("ipallocations", make.allocation("odd", of="lab", tenant="x/y"))
    async with platform.running():
        await platform.clock.advance(7)
        passes.clear()
        platform.server.edit("ipallocations", "odd", {"spec": {"count": "many"}})
        await platform.clock.advance(2)
        assert set(passes) == {"lab"}


async def test_pools_allocate_again_once_an_unreadable_allocation_of_any_pool_is_deleted() -> None:
    """The pool of the allocation `odd` is unreadable, so it may hold addresses of any pool."""
    platform = _make_platform("lab")
    platform.server.add("ipallocations", make.allocation("odd", tenant="x/y", finalizers=[]))
    platform.server.edit("ipallocations", "odd", {"spec": {"poolRef": 7}})
    platform.server.add("ipallocations", make.allocation("one", tenant="x/y"))
    async with platform.running():
        await platform.clock.advance(30)
        assert platform.phase("ipallocations", "one") == "Pending"
        platform.server.vanish("ipallocations", "odd")
        await platform.clock.advance(2)
        assert platform.phase("ipallocations", "one") == "Allocated"


async def test_waiting_objects_report_an_unreadable_pool_or_provider_within_two_seconds() -> None:
    platform = _make_platform("lab")
    platform.server.edit("networkpools", "lab", {"spec": {"cidr": "10.40.0.0/29"}})
    full = make.allocation("full", tenant="x/y", held_range=("10.40.0.0", "10.40.0.7"))
    platform.server.add("ipallocations", full)
    platform.server.add("ipallocations", make.allocation("one", tenant="x/y"))
    platform.server.add("tenantclusters", make.tenant())
    platform.tenant("a")
    async with platform.running():
        await platform.clock.advance(7)
        assert _read_network_reason(platform) == "PoolExhausted"
        platform.server.edit("networkpools", "lab", SPEC_WITH_BAD_CIDR)
        await platform.clock.advance(2)
        assert _read_ready(platform, "ipallocations", "one")[1] == "PoolUnreadable"
        assert _read_network_reason(platform) == "PoolUnreadable"
        available = _read_condition(
            platform,
            "providerconfigs",
            name="default",
            kind="PoolAvailable",
            namespace=make.NAMESPACE,
        )
        assert available[1] == "PoolUnreadable"
        platform.server.edit("networkpools", "lab", {"spec": {"cidr": "10.40.0.0/29"}})
        await platform.clock.advance(7)
        assert _read_network_reason(platform) == "PoolExhausted"
        platform.server.edit("providerconfigs", "default", SPEC_WITH_BAD_NETWORK)
        await platform.clock.advance(2)
        assert _read_network_reason(platform) == "ProviderConfigUnreadable"


def _read_network_reason(platform: Platform) -> str:
    return _read_condition(
        platform, "tenantclusters", name="a", kind="NetworkReady", namespace="team"
    )[1]
