"""The demo: it happens, and where it does not, it says which step."""

import signal

import anyio
import pytest

from controller.cache import Change
from controller.clock import SystemClock
from controller.endpoint import Endpoint
from controller.transport import HttpTransport
from reconcilers.api import names
from reconcilers.api.crd import crds
from reconcilers.api.ipallocation import IPAllocation
from reconcilers.cli.demo import cast, sights
from reconcilers.cli.demo.audit import Broken, Witness, vouches
from reconcilers.cli.demo.command import perform
from reconcilers.cli.demo.player import DidNotHappen, play
from reconcilers.cli.demo.step import Step, declare
from reconcilers.cli.demo.world import World
from reconcilers.cli.local.platform import Platform
from reconcilers.cli.local.servers import ApiServer, api_server
from reconcilers.cli.local.signals import sole
from reconcilers.ipallocation.gate import LetGo
from reconcilers.tenantcluster.gate import TenantGate
from reconcilers.tenantcluster.metallb import MetalLB
from tests.clock import VirtualClock
from tests.reconcilers.cli.commands import call, started
from tests.reconcilers.make import allocation


async def test_the_whole_story_happens() -> None:
    done = await call("demo")
    told = done.stdout.decode()
    assert done.returncode == 0, told + done.stderr.decode()
    assert "no two ranges ever overlapped" in told
    assert "All 13 steps happened" in told
    assert done.stderr == b""


async def test_an_interrupted_demo_ends_without_a_traceback() -> None:
    async with started("demo") as demo:
        await demo.until("An administrator declares")
        assert await demo.stop(signal.SIGINT) == 130
    assert "Traceback" not in demo.told + demo.complained


async def test_a_demo_that_fails_names_the_step_and_shows_the_end_of_the_log() -> None:
    done = await call("demo", "--step-timeout=0s")
    complained = done.stderr.decode()
    assert done.returncode == 1
    assert "error: step 1 of 13 (An administrator declares two pools) did not happen" in complained
    assert "    log: " in complained
    assert "Traceback" not in complained


async def test_a_demo_that_cannot_start_its_servers_says_why() -> None:
    done = await call("demo", KUBEBUILDER_ASSETS="/nowhere")
    assert done.returncode == 1
    assert "/nowhere" in done.stderr.decode()
    assert "Traceback" not in done.stderr.decode()


async def test_a_demo_does_not_touch_a_cluster_that_exists() -> None:
    done = await call("demo", USE_EXISTING_CLUSTER="true", KUBECONFIG="/nowhere")
    assert done.returncode == 1
    assert "Traceback" not in done.stderr.decode()


async def test_a_step_that_does_not_happen_is_named() -> None:
    clock = VirtualClock()
    transport = HttpTransport(Endpoint("https://nowhere.invalid"))
    nowhere = ApiServer("management", "https://nowhere.invalid", "embedded", "", transport)
    world, told = World(Platform(nowhere, {}), clock), list[str]()
    step = Step("A pool is served by nobody", (sights.pool_in_use(cast.PRIMARY, 0),))
    failures = list[str]()

    async def watch_it() -> None:
        with pytest.raises(DidNotHappen) as failure:
            await play([step], world, clock, told.append, 30.0)
        failures.append(str(failure.value))

    async with anyio.create_task_group() as group:
        group.start_soon(watch_it)
        await clock.advance(29.9)
        assert failures == []
        await clock.advance(0.1)
    expected = "step 1 of 1 (A pool is served by nobody) did not happen within 30.0 s:"
    assert failures == [f"{expected} there is no NetworkPool butler-system/vlan40"]


async def test_the_demo_notices_a_range_that_is_released_before_its_tenant_let_go(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def hasty(*arguments: object) -> LetGo:
        return LetGo("nobody was asked")

    async def nothing(*arguments: object) -> None:
        """Leave the tenant's pool as it is."""

    monkeypatch.setattr(TenantGate, "ask", hasty)
    monkeypatch.setattr(MetalLB, "_withdraw", nothing)
    with pytest.raises(ExceptionGroup) as failure:
        await perform(30.0)
    assert "was released, and IPAddressPool default-pool in the tenant still has it" in str(
        sole(failure.value)
    )


async def test_what_the_server_refuses_is_told() -> None:
    clock = SystemClock()
    refused = Step("Nonsense is declared", (), (declare(cast.pool("x", "nonsense", [])),))
    async with api_server("management", crds()) as server:
        world = World(Platform(server, {}), clock)
        await _namespace(world)
        with pytest.raises(DidNotHappen, match=r"Nonsense is declared.*cidr"):
            await play([refused], world, clock, lambda _: None, 5.0)


async def _namespace(world: World) -> None:
    await declare(cast.namespace(names.DEFAULT_NAMESPACE))(world)


def test_a_witness_sees_an_overlap_that_lasted_one_moment() -> None:
    witness = Witness()
    one, other = _holding("one", "10.0.0.1", "10.0.0.4"), _holding("other", "10.0.0.4", "10.0.0.6")
    witness.see(Change(None, one))
    witness.see(Change(None, other))
    witness.see(Change(other, None))
    with pytest.raises(Broken, match="other and one overlap"):
        vouches(witness)(World.__new__(World))


def test_a_witness_sees_no_overlap_in_a_range_that_is_handed_on() -> None:
    witness = Witness()
    one, other = _holding("one", "10.0.0.1", "10.0.0.4"), _holding("other", "10.0.0.4", "10.0.0.6")
    witness.see(Change(None, one))
    witness.see(Change(one, None))
    witness.see(Change(None, other))
    assert witness.overlaps == []
    assert len(witness.handed_out) == 2


def _holding(name: str, start: str, end: str) -> IPAllocation:
    return allocation(name, held=(start, end))
