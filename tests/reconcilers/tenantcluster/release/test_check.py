"""The release check: when a tenant's range counts as released, and when as still in use."""

from typing import Any

import anyio
import pytest

from controller.errors import Forbidden, NoAnswer, NotFound, ServerFailure
from controller.outcome import Blocked
from reconcilers.api import names
from reconcilers.configuration.settings import Settings
from reconcilers.ipallocation.release import InUse, Released
from tests.reconcilers import make
from tests.reconcilers.lab import TENANT_KINDS, Lab
from tests.reconcilers.server import Json, Server

METALLB = "metallb-system"
HELD_RANGE = ("10.40.0.0", "10.40.0.7")
MARK_REVISION = 500
PROJECTION_BEGUN = {names.ANNOTATION_PROJECTION_BEGUN: "2026-01-01T00:00:00Z"}
DELETION_TIME = "2026-01-01T00:00:00Z"


def _make_lab(**meta: Any) -> tuple[Lab, Server]:
    """Return a lab with cluster a, to which ranges were projected, and its tenant's API server."""
    lab = Lab()
    lab.server.add("tenantclusters", make.tenant(**({"annotations": PROJECTION_BEGUN} | meta)))
    return lab, lab.start_tenant_server("a")


def _add_pool(tenant: Server, *addresses: str, basis: int = MARK_REVISION) -> None:
    """Create our IPAddressPool, as it is written from allocations at revision `basis`."""
    annotations = {names.ANNOTATION_PROJECTION_BASIS: str(basis)}
    meta = {"name": "default-pool", "namespace": METALLB, "annotations": annotations}
    spec = {"addresses": list(addresses)}
    tenant.add("ipaddresspools", {"metadata": meta, "spec": spec})


def _add_service(tenant: Server, ip: str) -> None:
    """Create Service default/web, which shows an address."""
    status: Json = {"loadBalancer": {"ingress": [{"ip": ip}]}}
    meta = {"name": "web", "namespace": "default"}
    tenant.add("services", {"metadata": meta, "spec": {"type": "LoadBalancer"}, "status": status})


async def _check(lab: Lab, **fields: Any) -> Released | InUse:
    """Return the answer of the release check about a range that was marked at MARK_REVISION."""
    allocation = make.allocation("team-a-lb", **({"held_range": HELD_RANGE} | fields))
    return await lab.tenant_gate.check(allocation, MARK_REVISION)


def _get_reason(answer: Released | InUse) -> str:
    """Return why a range is still in use."""
    assert isinstance(answer, InUse)
    return answer.why


async def test_released_when_neither_services_nor_a_pool_written_since_the_mark_have_the_range() -> (  # noqa: E501
    None
):
    lab, tenant = _make_lab()
    _add_pool(tenant, "10.40.0.8-10.40.0.15")
    _add_service(tenant, "10.40.0.8")
    assert isinstance(await _check(lab), Released)


async def test_in_use_while_the_pool_was_not_written_since_the_mark() -> None:
    lab, tenant = _make_lab()
    _add_pool(tenant, "10.40.0.8-10.40.0.15", basis=MARK_REVISION - 1)
    assert "was not written since" in _get_reason(await _check(lab))


@pytest.mark.parametrize(
    "entry", ["10.40.0.0-10.40.0.7", "10.40.0.7-10.40.0.9", "10.40.0.0/16", "?"]
)
async def test_in_use_while_the_pool_has_any_address_of_the_range(entry: str) -> None:
    lab, tenant = _make_lab()
    _add_pool(tenant, "10.40.0.64/32", entry)
    assert "still has the range" in _get_reason(await _check(lab))


async def test_in_use_while_a_service_shows_an_address_of_the_range() -> None:
    lab, tenant = _make_lab()
    _add_pool(tenant, "10.40.0.8-10.40.0.15")
    _add_service(tenant, "10.40.0.3")
    assert (
        _get_reason(await _check(lab)) == "Service default/web still shows an address of the range"
    )


async def test_released_when_the_pool_is_gone_and_no_service_shows_the_range() -> None:
    lab, tenant = _make_lab()
    assert isinstance(await _check(lab), Released)
    _add_service(tenant, "10.40.0.3")
    assert isinstance(await _check(lab), InUse)


async def test_released_when_discovery_shows_that_metallb_is_not_served() -> None:
    lab, tenant = _make_lab()
    tenant.served = ("services",)
    assert isinstance(await _check(lab), Released)


async def test_in_use_while_a_service_shows_an_address_of_an_uninstalled_metallb() -> None:
    lab, tenant = _make_lab()
    _add_service(tenant, "10.40.0.3")
    tenant.served = ("services", "namespaces")
    assert (
        _get_reason(await _check(lab)) == "Service default/web still shows an address of the range"
    )
    tenant.vanish("services", "web", namespace="default")
    assert isinstance(await _check(lab), Released)


async def test_in_use_for_ten_seconds_after_the_kinds_of_metallb_are_gone() -> None:
    """A MetalLB that was paused could hand out the range when it resumes."""
    lab = Lab(Settings())
    lab.server.add("tenantclusters", make.tenant(annotations=PROJECTION_BEGUN))
    tenant = lab.start_tenant_server("a", ("services", "namespaces"))
    assert "giving MetalLB 10 s" in _get_reason(await _check(lab))
    await lab.clock.advance(9)
    assert isinstance(await _check(lab), InUse)
    await lab.clock.advance(1)
    _add_service(tenant, "10.40.0.3")
    assert isinstance(await _check(lab), InUse)
    tenant.vanish("services", "web", namespace="default")
    assert isinstance(await _check(lab), Released)


async def test_the_wait_of_ten_seconds_starts_again_if_the_kinds_of_metallb_were_served_again() -> (  # noqa: E501
    None
):
    lab = Lab(Settings())
    lab.server.add("tenantclusters", make.tenant(annotations=PROJECTION_BEGUN))
    tenant = lab.start_tenant_server("a", ("services", "namespaces"))
    assert "giving MetalLB 10 s" in _get_reason(await _check(lab))
    await lab.clock.advance(9)
    tenant.served = TENANT_KINDS
    _add_pool(tenant, "10.40.0.8-10.40.0.15")
    assert "giving MetalLB 10 s" in _get_reason(await _check(lab))
    await lab.clock.advance(9)
    tenant.served = ("services", "namespaces")
    assert "giving MetalLB 10 s" in _get_reason(await _check(lab))
    await lab.clock.advance(10)
    assert isinstance(await _check(lab), Released)


async def test_in_use_while_discovery_of_metallb_fails() -> None:
    lab, tenant = _make_lab()
    tenant.served = ("services",)
    tenant.fail(ServerFailure(503, "", "starting"), verb="discover")
    assert isinstance(await _check(lab), InUse)


@pytest.mark.parametrize("error", [NoAnswer("timed out"), Forbidden(403, "Forbidden", "no")])
async def test_in_use_while_the_tenant_does_not_answer(error: Any) -> None:
    lab, tenant = _make_lab()
    tenant.fail(error, plural="ipaddresspools")
    assert "cannot be asked" in _get_reason(await _check(lab))


async def test_in_use_while_services_cannot_be_read() -> None:
    lab, tenant = _make_lab()
    meta = {"name": "odd", "namespace": "default"}
    tenant.add("services", {"metadata": meta, "spec": {"type": 7}})
    assert isinstance(await _check(lab), InUse)


async def test_node_addresses_are_in_use_until_their_cluster_is_gone_without_asking_the_tenant() -> (  # noqa: E501
    None
):
    lab, tenant = _make_lab()
    assert "until TenantCluster team/a is gone" in _get_reason(await _check(lab, kind="nodes"))
    assert tenant.requests == []


async def test_released_when_a_live_read_shows_that_the_cluster_does_not_exist() -> None:
    lab, _ = _make_lab()
    lab.hold_events("tenantclusters")
    lab.server.vanish("tenantclusters", "a", namespace="team")
    assert isinstance(await _check(lab, tenant="team/other"), Released)
    assert lab.server.count(verb="get", plural="tenantclusters") == 1


async def test_a_404_for_the_kind_of_clusters_does_not_release_the_range() -> None:
    lab, _ = _make_lab()
    lab.server.add(
        "ipallocations", make.allocation("x", tenant="team/other", held_range=HELD_RANGE)
    )
    lab.server.delete("ipallocations", "x")
    lab.use_real_release_check()
    lab.server.fail(NotFound(404, "", "404 page not found"), plural="tenantclusters")
    with pytest.raises(Exception, match="404"):
        await lab.run_allocation_pass("x")
    assert lab.server.has("ipallocations", "x")


async def test_a_range_of_an_earlier_cluster_of_the_name_is_in_use_while_the_tenant_shows_it() -> (
    None
):
    lab, tenant = _make_lab(annotations={})
    owner = {names.ANNOTATION_TENANT_UID: "uid-of-the-earlier-one"}
    assert isinstance(await _check(lab, annotations=owner), Released)
    _add_service(tenant, "10.40.0.3")
    assert isinstance(await _check(lab, annotations=owner), InUse)


async def test_released_with_the_annotation_release_anyway() -> None:
    lab, tenant = _make_lab(annotations=PROJECTION_BEGUN | {names.ANNOTATION_RELEASE_ANYWAY: ""})
    tenant.fail(NoAnswer("timed out"), times=9)
    assert isinstance(await _check(lab), Released)


class TestOfAClusterThatIsBeingDeleted:
    """Its ranges are released without asking the tenant if the cluster counts as torn down."""

    async def test_released_when_nothing_was_ever_projected(self) -> None:
        lab, _ = _make_lab(annotations={}, deletionTimestamp=DELETION_TIME)
        assert isinstance(await _check(lab), Released)

    async def test_released_when_its_kubeconfig_secret_is_gone(self) -> None:
        lab, _ = _make_lab(deletionTimestamp=DELETION_TIME)
        lab.server.vanish("secrets", "a-admin-kubeconfig", namespace="team")
        assert isinstance(await _check(lab), Released)

    async def test_not_released_while_reading_the_secret_is_forbidden(self) -> None:
        lab, _ = _make_lab(deletionTimestamp=DELETION_TIME)
        lab.server.fail(Forbidden(403, "Forbidden", "no"), plural="secrets", times=9)
        with pytest.raises(Forbidden):
            await _check(lab)

    async def test_not_released_when_the_404_of_the_secret_came_from_a_proxy(self) -> None:
        lab, _ = _make_lab(deletionTimestamp=DELETION_TIME)
        lab.server.fail(NotFound(404, "", "page not found"), plural="secrets", times=9)
        with pytest.raises(NotFound):
            await _check(lab)

    async def test_released_when_the_teardown_grace_has_passed(self) -> None:
        lab, tenant = _make_lab(deletionTimestamp=DELETION_TIME)
        tenant.fail(NoAnswer("timed out"), times=99)
        assert isinstance(await _check(lab), InUse)
        await lab.clock.advance(599)
        assert isinstance(await _check(lab), InUse)
        await lab.clock.advance(1)
        assert isinstance(await _check(lab), Released)
        kind, reason, message = lab.recorded.events[-1]
        assert (kind, reason) == ("Warning", "TeardownGracePassed")
        assert message.startswith("Releasing team-a-lb without confirmation: the tenant")

    async def test_the_grace_stays_over_if_the_write_of_the_release_fails(self) -> None:
        lab, tenant = _make_lab(deletionTimestamp=DELETION_TIME)
        tenant.fail(NoAnswer("timed out"), times=99)
        assert isinstance(await _check(lab), InUse)
        await lab.clock.advance(600)
        assert isinstance(await _check(lab), Released)
        assert isinstance(await _check(lab), Released)

    async def test_the_grace_counts_from_the_first_failed_attempt_not_from_the_deletion(
        self,
    ) -> None:
        lab, tenant = _make_lab(deletionTimestamp=DELETION_TIME)
        await lab.clock.advance(10_000)  # no controller ran in that time
        tenant.fail(NoAnswer("timed out"), times=1)
        assert isinstance(await _check(lab), InUse)

    async def test_in_use_while_the_pool_of_a_reachable_tenant_has_the_range(self) -> None:
        lab, tenant = _make_lab(deletionTimestamp=DELETION_TIME)
        _add_pool(tenant, "10.40.0.0-10.40.0.7")
        assert isinstance(await _check(lab), InUse)


class TestOfAClusterThatIsNotBeingDeleted:
    """Its ranges stay in use where those of a deleted cluster would be released."""

    async def test_in_use_even_if_nothing_was_projected_and_there_is_no_secret(self) -> None:
        lab, _ = _make_lab(annotations={})
        lab.server.vanish("secrets", "a-admin-kubeconfig", namespace="team")
        assert "kubeconfig" in _get_reason(await _check(lab))

    async def test_in_use_however_long_the_tenant_does_not_answer(self) -> None:
        lab, tenant = _make_lab()
        tenant.fail(NoAnswer("timed out"), times=99)
        await lab.clock.advance(10_000)
        assert isinstance(await _check(lab), InUse)


async def test_the_range_of_a_deleted_allocation_is_removed_from_the_tenant_first() -> None:
    lab = Lab()
    lab.server.add("networkpools", make.pool())
    lab.server.add("providerconfigs", make.provider("lab"))
    lab.server.add("tenantclusters", make.tenant())
    tenant = lab.start_tenant_server("a")
    await lab.run_until_at_rest()
    lab.use_real_release_check()
    lab.server.delete("ipallocations", "team-a-lb")
    assert await lab.run_allocation_pass("team-a-lb") == Blocked("WaitingForTenant", 5.0)
    await lab.run_cluster_pass()
    assert tenant.all("ipaddresspools") == []
    await lab.run_allocation_pass("team-a-lb")
    assert not lab.server.has("ipallocations", "team-a-lb")


async def test_in_use_while_a_pass_over_the_cluster_is_writing_the_range_to_the_tenant(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lab = Lab()
    lab.server.add("networkpools", make.pool())
    lab.server.add("providerconfigs", make.provider("lab"))
    lab.server.add("tenantclusters", make.tenant(status={"phase": "Ready"}))
    lab.server.add("ipallocations", make.allocation("team-a-lb", held_range=HELD_RANGE))
    tenant = lab.start_tenant_server("a")
    request, arrived = tenant.request, anyio.Event()

    async def request_slowly(method: str, path: str, **rest: Any) -> bytes:
        if method == "POST":
            arrived.set()
            await lab.clock.sleep(1)
        return await request(method, path, **rest)

    monkeypatch.setattr(tenant, "request", request_slowly)
    answers = []

    async def check() -> None:
        allocation: Any = lab.caches["ipallocations"].get(make.key("team-a-lb"))
        answers.append(await lab.tenant_gate.check(allocation, allocation.metadata.revision))

    async with anyio.create_task_group() as group:
        group.start_soon(lab.run_cluster_pass)
        await arrived.wait()
        lab.server.delete("ipallocations", "team-a-lb")
        group.start_soon(check)
        await lab.clock.advance(1)
    assert isinstance(answers[0], InUse)


async def test_a_service_that_keeps_its_address_causes_few_writes_while_the_range_waits() -> None:
    lab = Lab()
    lab.server.add("networkpools", make.pool())
    lab.server.add("providerconfigs", make.provider("lab"))
    lab.server.add("tenantclusters", make.tenant())
    tenant = lab.start_tenant_server("a")
    await lab.run_until_at_rest()
    _add_service(tenant, "10.40.0.3")
    second = make.allocation("team-a-lb-1", held_range=("10.40.0.64", "10.40.0.65"))
    lab.server.add("ipallocations", second)
    await lab.run_until_at_rest()
    lab.server.delete("ipallocations", "team-a-lb")
    before = len(lab.server.history)
    await lab.run_until_at_rest()
    assert lab.server.has("ipallocations", "team-a-lb")
    assert len(lab.server.history) - before <= 6
    ready = lab.find_condition("ipallocations", "team-a-lb", "Ready")
    assert ready["message"] == "Service default/web still shows an address of the range"
    pool = tenant.see("ipaddresspools", "default-pool", namespace=METALLB)
    assert pool["spec"]["addresses"] == ["10.40.0.64-10.40.0.65"]
    tenant.vanish("services", "web", namespace="default")
    await lab.run_allocation_pass("team-a-lb")
    assert not lab.server.has("ipallocations", "team-a-lb")
