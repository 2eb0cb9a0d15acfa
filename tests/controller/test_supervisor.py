"""Nothing ends silently: what each part does when called code is cancelled, raises or returns."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import anyio
import httpx
import pytest
from typing_extensions import override

from controller.clusters import Clusters
from controller.election import join_election
from controller.errors import UnexpectedEnd
from controller.leases import LeaderLost
from controller.manager import Manager
from controller.meta import Key
from controller.options import ManagerOptions
from controller.outcome import SETTLED, Outcome
from controller.renewable import Connection
from controller.transport import NO_QUERY
from controller.triggers import Watch, to_self
from controller.webhooks import AdmissionRequest, Allowed, Answer, Webhook
from tests.clock import VirtualClock, settle
from tests.controller.misbehaviour import MISBEHAVIOURS
from tests.controller.store import Store, StoreTransport
from tests.controller.webhooks.reviews import build_review
from tests.controller.widgets import WIDGETS, Widget

pytestmark = pytest.mark.survives_bugs

LEASE = "/apis/coordination.k8s.io/v1/namespaces/system/leases/leader"
ELECTING = ManagerOptions(
    leader_elect=True, lease_namespace="system", lease_name="leader", identity="a"
)
Misbehaviour = Callable[[], Awaitable[None]]

every_misbehaviour = pytest.mark.parametrize(
    "misbehave", MISBEHAVIOURS.values(), ids=MISBEHAVIOURS
)


class FailingTransport(StoreTransport):
    """A transport to a store whose next requests and watches end in a given misbehaviour."""

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self.misbehaviours: dict[str, Misbehaviour] = {}
        """By method, WATCH among them; each is used once unless `always` is set."""
        self.always = False

    @override
    async def request(self, method: str, path: str, **options: Any) -> bytes:
        await self._end(method)
        return await super().request(method, path, **options)

    @override
    @asynccontextmanager
    async def stream(
        self, path: str, *, query: Mapping[str, str] = NO_QUERY, accept: str = "application/json"
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        await self._end("WATCH")
        async with super().stream(path, query=query, accept=accept) as chunks:
            yield chunks

    async def _end(self, method: str) -> None:
        misbehave = (
            self.misbehaviours.get(method) if self.always else self.misbehaviours.pop(method, None)
        )
        if misbehave is not None:
            await misbehave()


class Harness:
    """A manager with one controller, over a store; its reconciler calls `first` once."""

    def __init__(self, options: ManagerOptions | None = None) -> None:
        self.clock = VirtualClock()
        self.store = Store()
        self.transport = FailingTransport(self.store)
        self.manager = Manager(self.transport, clock=self.clock, options=options)
        self.widgets = self.manager.get_informer(WIDGETS)
        self.seen: list[str] = []
        self.first: Misbehaviour | None = None
        self.controller = self.manager.add_controller(
            "widget", self.reconcile, watches=[Watch(self.widgets, to_self)]
        )
        self.failure: BaseException | None = None
        self._ended = anyio.Event()

    def widget(self, name: str) -> None:
        path = f"/apis/example.com/v1/namespaces/default/widgets/{name}"
        self.store.put(path, {"metadata": {"name": name, "namespace": "default"}})

    async def reconcile(self, key: Key) -> Outcome:
        self.seen.append(key.name)
        if self.first is not None:
            misbehave, self.first = self.first, None
            await misbehave()
        return SETTLED

    async def run(self) -> None:
        try:
            await self.manager.run()
        except Exception as error:  # noqa: BLE001 - the tests look at it
            self.failure = error
        finally:
            self._ended.set()

    def has_ended(self) -> bool:
        """Whether the manager has returned or raised."""
        return self._ended.is_set()

    def sample(self, name: str, **labels: str) -> float:
        return self.manager.metrics.registry.get_sample_value(name, labels) or 0


@asynccontextmanager
async def run_harness(harness: Harness) -> AsyncIterator[None]:
    async with anyio.create_task_group() as group:
        group.start_soon(harness.run)
        await harness.clock.advance(0)
        yield
        group.cancel_scope.cancel()


@every_misbehaviour
async def test_a_worker_tries_a_key_again_and_goes_on_with_others(misbehave: Misbehaviour) -> None:
    harness = Harness()
    harness.widget("a")
    harness.first = misbehave
    async with run_harness(harness):
        await harness.clock.advance(1)
        assert harness.seen == ["a", "a"]
        harness.widget("b")
        await harness.clock.advance(1)
        assert harness.seen == ["a", "a", "b"]
        assert not harness.has_ended()
    assert harness.sample("controller_runtime_reconcile_panics_total", controller="widget") == 1


async def test_a_worker_that_is_cancelled_while_it_waits_goes_on() -> None:
    harness = Harness()
    async with run_harness(harness):
        waiting = [
            task
            for task in asyncio.all_tasks()
            if "Controller._process_keys" in (task.get_name() or "")
        ]
        assert waiting
        for task in waiting:
            task.cancel()
        await settle()
        harness.widget("a")
        await harness.clock.advance(1)
        assert harness.seen == ["a"]
        assert not harness.has_ended()


@every_misbehaviour
@pytest.mark.parametrize("leader_only", [True, False])
async def test_a_service_is_started_again(misbehave: Misbehaviour, leader_only: bool) -> None:
    harness = Harness()
    begun: list[float] = []

    async def serve() -> None:
        begun.append(harness.clock.monotonic())
        if len(begun) == 1:
            await misbehave()
        await anyio.sleep_forever()

    harness.manager.add_service("job", serve, leader_only=leader_only)
    async with run_harness(harness):
        await harness.clock.advance(10)
        assert begun == [0, 1]
        assert not harness.has_ended()
    assert harness.sample("controller_service_restarts_total", service="job") == 1


@pytest.mark.parametrize("leader_only", [True, False])
async def test_a_service_that_returns_ends_the_manager_with_an_error(leader_only: bool) -> None:
    harness = Harness()

    async def serve() -> None:
        await harness.clock.sleep(5)

    harness.manager.add_service("job", serve, leader_only=leader_only)
    async with run_harness(harness):
        await harness.clock.advance(4.9)
        assert not harness.has_ended()
        await harness.clock.advance(0.1)
        assert harness.has_ended()
    assert isinstance(harness.failure, UnexpectedEnd)
    assert "job returned" in str(harness.failure)


async def test_a_service_may_return_when_the_manager_is_stopped() -> None:
    harness = Harness()

    async def serve() -> None:
        harness.manager.stop()

    harness.manager.add_service("job", serve)
    async with run_harness(harness):
        await harness.clock.advance(1)
        assert harness.has_ended()
    assert harness.failure is None


async def test_probes_fail_from_the_moment_in_which_a_part_ends_by_itself() -> None:
    options = ManagerOptions(health_bind="127.0.0.1:0")
    harness = Harness(options)
    release = anyio.Event()

    async def stubborn() -> None:
        with anyio.CancelScope(shield=True):
            await release.wait()

    async def serve() -> None:
        await harness.clock.sleep(5)

    harness.manager.add_service("stubborn", stubborn)
    harness.manager.add_service("job", serve)
    async with run_harness(harness), httpx.AsyncClient() as probes:
        await harness.manager.wait_serving()
        url = f"http://127.0.0.1:{harness.manager.health_port}"
        for page in ("healthz", "readyz"):
            assert (await probes.get(f"{url}/{page}")).status_code == 200
        await harness.clock.advance(5)
        assert not harness.has_ended()
        for page in ("healthz", "readyz"):
            answer = await probes.get(f"{url}/{page}")
            assert answer.status_code == 503
            assert "job has ended" in answer.text
        release.set()


@pytest.mark.parametrize("drain", [True, False])
async def test_a_controller_whose_workers_end_by_themselves_ends_the_manager(drain: bool) -> None:
    harness = Harness()
    async with run_harness(harness):
        assert not harness.has_ended()
        harness.controller.queue.shut_down(drain=drain)
        await harness.clock.advance(0)
        assert harness.has_ended()
    assert isinstance(harness.failure, UnexpectedEnd)
    assert "controller/widget" in str(harness.failure)


@every_misbehaviour
async def test_a_controller_that_cannot_start_ends_the_manager_with_an_error(
    misbehave: Misbehaviour,
) -> None:
    harness = Harness()

    class Bad(Watch[Widget]):
        @override
        async def wait_ready(self) -> None:
            await misbehave()

    harness.manager.add_controller(
        "bad", harness.reconcile, watches=[Bad(harness.widgets, to_self)]
    )
    async with run_harness(harness):
        await harness.clock.advance(1)
        assert harness.has_ended()
    assert harness.failure is not None


@every_misbehaviour
@pytest.mark.parametrize("method", ["GET", "WATCH"])
async def test_an_informer_lists_and_watches_again(misbehave: Misbehaviour, method: str) -> None:
    harness = Harness()
    harness.transport.misbehaviours[method] = misbehave
    async with run_harness(harness):
        await harness.clock.advance(30)
        harness.widget("a")
        await harness.clock.advance(30)
        assert harness.seen == ["a"]
        assert not harness.has_ended()
    assert harness.transport.misbehaviours == {}


@every_misbehaviour
async def test_one_bad_request_does_not_cost_the_lease(misbehave: Misbehaviour) -> None:
    harness = Harness(ELECTING)
    async with run_harness(harness):
        harness.transport.misbehaviours |= {"PUT": misbehave, "GET": misbehave}
        await harness.clock.advance(30)
        assert harness.transport.misbehaviours == {}
        assert not harness.has_ended()
        harness.widget("a")
        await harness.clock.advance(1)
        assert harness.seen == ["a"]
    assert harness.store.objects[LEASE]["spec"]["holderIdentity"] == ""


@every_misbehaviour
async def test_a_leader_whose_requests_all_fail_has_lost_the_lease(
    misbehave: Misbehaviour,
) -> None:
    harness = Harness(ELECTING)
    async with run_harness(harness):
        harness.transport.always = True
        harness.transport.misbehaviours["PUT"] = misbehave
        await harness.clock.advance(10)
        assert harness.has_ended()
    assert isinstance(harness.failure, LeaderLost)
    assert harness.manager.lost.is_set()


@every_misbehaviour
async def test_a_candidate_goes_on_after_a_bad_request(misbehave: Misbehaviour) -> None:
    harness = Harness(ELECTING)
    harness.transport.misbehaviours["GET"] = misbehave
    harness.widget("a")
    async with run_harness(harness):
        await harness.clock.advance(30)
        assert harness.seen == ["a"]
        assert not harness.has_ended()


@every_misbehaviour
async def test_a_leader_whose_renewal_ends_by_itself_has_lost_the_lease(
    misbehave: Misbehaviour,
) -> None:
    reported, lost = list[float](), anyio.Event()

    class Elector:
        is_leading = True

        async def acquire(self) -> None: ...

        async def hold(self) -> None:
            await misbehave()

        async def release(self) -> None: ...

    async def lead() -> None:
        async with join_election(Elector(), reported.append, lost) as wait:  # type: ignore[arg-type] # all that it uses
            assert await wait(anyio.Event())
            await anyio.sleep_forever()

    with pytest.raises(ExceptionGroup) as raised:
        await lead()
    assert raised.group_contains(LeaderLost)
    assert lost.is_set()
    assert reported[-1] == 0


@pytest.mark.parametrize(
    "misbehave", [misbehave for name, misbehave in MISBEHAVIOURS.items() if "its task" not in name]
)
async def test_a_webhook_refuses_the_request_and_answers_the_next(misbehave: Misbehaviour) -> None:
    misbehaviours = [misbehave]

    async def judge(request: AdmissionRequest[Widget]) -> Answer:
        if misbehaviours:
            await misbehaviours.pop()()
        return Allowed()

    webhook, clock = Webhook("/judge", judge, Widget), VirtualClock()
    body, failed = await webhook.answer(build_review(), clock, 10)
    assert failed
    assert b'"code":500' in body
    body, failed = await webhook.answer(build_review(), clock, 10)
    assert not failed
    assert b'"allowed":true' in body


async def test_the_caller_that_started_the_task_of_a_webhook_may_cancel_it() -> None:
    async def judge(request: AdmissionRequest[Widget]) -> Answer:
        await MISBEHAVIOURS["cancels its task"]()
        return Allowed()

    with pytest.raises(asyncio.CancelledError):
        await Webhook("/judge", judge, Widget).answer(build_review(), VirtualClock(), 10)
    current = asyncio.current_task()
    assert current is not None
    assert current.uncancel() == 0


@every_misbehaviour
async def test_a_remote_cluster_is_connected_again_after_its_connect_misbehaved(
    misbehave: Misbehaviour,
) -> None:
    clock, store, misbehaviours = VirtualClock(), Store(), [misbehave]
    path = "/apis/example.com/v1/namespaces/default/widgets/a"
    store.put(path, {"metadata": {"name": "a", "namespace": "default"}})

    async def connect(key: Key) -> Connection:
        if misbehaviours:
            await misbehaviours.pop()()
        return Connection(StoreTransport(store), identity="one")

    clusters, key = Clusters(connect, clock), Key("tenants", "one")
    widgets = clusters.watch_kind(WIDGETS)
    async with anyio.create_task_group() as group:
        group.start_soon(clusters.run)
        clusters.open(key)
        await clock.advance(60)
        cache = widgets.get_cache(key)
        assert cache is not None
        assert len(cache) == 1
        group.cancel_scope.cancel()
