"""The ways into tenants: shared, kept while they work, closed when no pass uses them."""

from contextlib import suppress
from typing import Any

import anyio
import pytest
from typing_extensions import override

from controller.errors import Conflict, Invalid, NoAnswer, ServerFailure
from controller.meta import Key
from reconcilers.api.services import SERVICE
from reconcilers.clusteraccess.tenantclients import TenantClients
from reconcilers.clusteraccess.tenantfailures import TenantUnavailable
from reconcilers.loadbalancers.metallb.kinds import IP_ADDRESS_POOL
from reconcilers.tenantcluster.record.records import TenantRecords
from tests.reconcilers import make
from tests.reconcilers.lab import Lab
from tests.reconcilers.server import Server

POOL = Key("metallb-system", "default-pool")


def _secrets_read(lab: Lab) -> int:
    return lab.server.count(verb="get", plural="secrets")


async def test_a_client_is_kept_while_it_works() -> None:
    lab = Lab()
    tenant = lab.start_tenant_server("a")
    for _ in range(3):
        async with lab.tenants.open_client(make.tenant()):
            pass
    assert _secrets_read(lab) == 1
    assert tenant.closed == 0


async def test_passes_at_the_same_time_share_one_client_and_take_turns() -> None:
    lab = Lab()
    lab.start_tenant_server("a")
    inside, clients = 0, []

    async def enter() -> None:
        nonlocal inside
        async with lab.tenants.open_client(make.tenant()) as client:
            inside += 1
            assert inside == 1
            clients.append(client)
            await lab.clock.sleep(1)
            inside -= 1

    async with anyio.create_task_group() as group:
        for _ in range(3):
            group.start_soon(enter)
        await lab.clock.advance(3)
    assert len(set(map(id, clients))) == 1
    assert len(clients) == 3


async def test_a_client_that_failed_is_closed_when_no_request_waits_for_it_any_more() -> None:
    lab = Lab()
    tenant = lab.start_tenant_server("a")

    async def reset() -> None:
        async with lab.tenants.open_client(make.tenant()):
            await lab.clock.sleep(1)
            raise NoAnswer("connection reset")

    async def fail() -> None:
        with pytest.raises(TenantUnavailable):
            await reset()

    async def wait() -> None:
        with pytest.raises(TenantUnavailable, match="connection reset"):
            async with lab.tenants.open_client(make.tenant()):
                pytest.fail("the tenant has just been found silent")

    async with anyio.create_task_group() as group:
        group.start_soon(fail)
        await lab.clock.advance(0.5)
        group.start_soon(wait)
        await lab.clock.advance(0.5)
    assert tenant.closed == 1


@pytest.mark.parametrize("error", [NoAnswer("reset"), ServerFailure(503, "", "starting")])
async def test_a_tenant_that_fails_is_not_tried_for_a_while(error: Exception) -> None:
    lab = Lab()
    lab.start_tenant_server("a")
    with pytest.raises(TenantUnavailable) as first:
        async with lab.tenants.open_client(make.tenant()):
            raise error
    with pytest.raises(TenantUnavailable) as second:
        async with lab.tenants.open_client(make.tenant()):
            pytest.fail("it should have been left in peace")
    assert (second.value.reason, second.value.message) == ("TenantUnreachable", str(first.value))
    await lab.clock.advance(5)
    async with lab.tenants.open_client(make.tenant()):
        pass


async def test_once_a_tenant_answers_its_delays_are_reset() -> None:
    lab = Lab()
    lab.start_tenant_server("a")
    for pause in (5, 10, 20):
        with pytest.raises(TenantUnavailable):
            async with lab.tenants.open_client(make.tenant()):
                raise NoAnswer("reset")
        await lab.clock.advance(pause)
    async with lab.tenants.open_client(make.tenant()):
        pass
    with pytest.raises(TenantUnavailable):
        async with lab.tenants.open_client(make.tenant()):
            raise NoAnswer("reset")
    await lab.clock.advance(5)
    async with lab.tenants.open_client(make.tenant()):
        pass


async def test_a_write_that_is_refused_for_its_content_keeps_the_client_and_delays_nothing() -> (
    None
):
    lab = Lab()
    tenant = lab.start_tenant_server("a")
    with pytest.raises(TenantUnavailable, match="Invalid: 422") as refused:
        async with lab.tenants.open_client(make.tenant()):
            raise Invalid(422, "Invalid", "no prefixes")
    assert refused.value.reason == "TenantRefused"
    async with lab.tenants.open_client(make.tenant()):
        pass
    assert tenant.closed == 0


async def test_a_conflict_is_no_failure_of_the_tenant() -> None:
    lab = Lab()
    tenant = lab.start_tenant_server("a")
    with pytest.raises(Conflict):
        async with lab.tenants.open_client(make.tenant()):
            raise Conflict(409, "Conflict", "moved on")
    assert tenant.closed == 0


async def test_a_recreated_cluster_is_connected_to_by_its_own_kubeconfig() -> None:
    lab = Lab()
    before = lab.start_tenant_server("a")
    async with lab.tenants.open_client(make.tenant()):
        pass
    after = lab.start_tenant_server("a")
    async with lab.tenants.open_client(make.tenant(uid="another")) as client:
        with pytest.raises(Exception, match="404"):
            await client.get(IP_ADDRESS_POOL, POOL)
    assert (before.closed, before.count(plural="ipaddresspools")) == (1, 0)
    assert after.count(plural="ipaddresspools") == 1


async def test_all_clients_are_closed_at_the_end() -> None:
    lab = Lab()
    servers = [lab.start_tenant_server(name) for name in "ab"]
    for name in "ab":
        async with lab.tenants.open_client(make.tenant(name)):
            pass
    await lab.tenants.aclose()
    assert [server.closed for server in servers] == [1, 1]


async def test_a_kubeconfig_that_reads_files_is_refused_as_unsafe() -> None:
    lab = Lab()
    meta = {"name": "a-admin-kubeconfig", "namespace": "team"}
    lab.server.add("secrets", {"metadata": meta, "data": {"admin.conf": "ZXZpbDogdHJ1ZQ=="}})
    strict = TenantClients(
        lab.client, lab.settings.tenant, clock=lab.clock, accesses=TenantRecords()
    )
    with pytest.raises(TenantUnavailable) as refused:
        async with strict.open_client(make.tenant()):
            pytest.fail("it must not be entered")
    assert refused.value.reason == "KubeconfigRefused"


async def test_of_many_tenants_that_do_not_answer_only_a_few_are_tried_at_once() -> None:
    lab = Lab()
    names = [f"t{number}" for number in range(6)]
    for name in names:
        lab.start_tenant_server(name)
        with pytest.raises(TenantUnavailable):
            async with lab.tenants.open_client(make.tenant(name)):
                raise NoAnswer("timed out")
    await lab.clock.advance(5)
    tried = []

    async def enter(name: str) -> None:
        with suppress(TenantUnavailable):
            async with lab.tenants.open_client(make.tenant(name)):
                tried.append(name)
                await lab.clock.sleep(10)

    async with anyio.create_task_group() as group:
        for name in names:
            group.start_soon(enter, name)
        await lab.clock.advance(0)
        assert len(tried) == 2
        lab.start_tenant_server("healthy")
        async with lab.tenants.open_client(make.tenant("healthy")):
            pass
        await lab.clock.advance(10)
    for name in names[2:]:
        async with lab.tenants.open_client(make.tenant(name)):
            pass


class _Endless(Server):
    """An API server whose list of Services always goes on."""

    @override
    async def request(self, method: str, path: str, **rest: Any) -> bytes:
        if not path.endswith("/services"):
            return await super().request(method, path, **rest)
        self.pages += 1
        assert self.pages < 1_000, "it is read for ever"
        return b'{"metadata": {"resourceVersion": "1", "continue": "more"}, "items": []}'

    pages = 0


async def test_a_list_that_never_ends_is_not_read_for_ever() -> None:
    lab = Lab()
    lab.start_tenant_server("a")
    lab.tenant_servers["a"] = _Endless(lab.clock, ("services", "namespaces"))
    with pytest.raises(TenantUnavailable, match="larger than"):
        async with lab.tenants.open_client(make.tenant()) as client:
            await client.list(SERVICE)
