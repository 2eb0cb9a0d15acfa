"""What a manager serves: before its caches are filled, while standing by, while ending."""

import asyncio
import gc
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import httpx
import pytest
from typing_extensions import override

from controller.leases import LeaderLost
from controller.manager import Manager
from controller.meta import Key
from controller.options import ManagerOptions
from controller.outcome import SETTLED, Outcome
from controller.triggers import Watch, to_self
from controller.webhooks import AdmissionRequest, Allowed, Answer, Webhook
from envtest.certs import Authority
from tests.clock import VirtualClock, settle
from tests.controller.store import Store, StoreTransport
from tests.controller.webhooks.reviews import build_review
from tests.controller.widgets import WIDGETS, Widget

LEASE = "/apis/coordination.k8s.io/v1/namespaces/system/leases/leader"
WIDGET = "/apis/example.com/v1/namespaces/default/widgets/a"


class Harness:
    """A manager that elects, serves probes, metrics and a webhook, and has something to do."""

    def __init__(self, folder: Path) -> None:
        authority = Authority.create()
        pair = authority.sign_server("127.0.0.1")
        (folder / "tls.crt").write_bytes(pair.certificate)
        (folder / "tls.key").write_bytes(pair.key)
        self.trust = ssl.create_default_context(cadata=authority.pair.certificate.decode("ascii"))
        self.store = Store()
        self.store.put(WIDGET, {"metadata": {"name": "a", "namespace": "default"}})
        self.transport = StoreTransport(self.store)
        self.clock = VirtualClock()
        options = ManagerOptions(
            leader_elect=True,
            lease_namespace="system",
            lease_name="leader",
            identity="us",
            metrics_bind="127.0.0.1:0",
            health_bind="127.0.0.1:0",
            webhook_bind="127.0.0.1:0",
            webhook_cert_dir=str(folder),
        )
        self.manager = Manager(self.transport, clock=self.clock, options=options)
        widgets = self.manager.get_informer(WIDGETS)
        self.manager.add_controller("widget", self.reconcile, watches=[Watch(widgets, to_self)])
        self.manager.add_webhook(Webhook("/judge", self.judge, Widget))
        self.begun, self.go_on = anyio.Event(), anyio.Event()
        self.asked, self.answer = anyio.Event(), anyio.Event()
        self.answer.set()
        self.ended = anyio.Event()

    async def reconcile(self, key: Key) -> Outcome:
        self.begun.set()
        await self.go_on.wait()
        return SETTLED

    async def judge(self, request: AdmissionRequest[Widget]) -> Answer:
        self.asked.set()
        await self.answer.wait()
        return Allowed()

    async def run(self) -> None:
        await self.manager.run()
        self.ended.set()

    async def list_answering(self) -> set[str]:
        """Return the servers that answer at this moment."""
        ports = {
            "probes": f"http://127.0.0.1:{self.ports['probes']}/healthz",
            "metrics": f"http://127.0.0.1:{self.ports['metrics']}/metrics",
            "webhooks": f"https://127.0.0.1:{self.ports['webhooks']}/judge",
        }
        answering = set()
        async with httpx.AsyncClient(verify=self.trust) as client:
            for server_name, url in ports.items():
                try:
                    answer = (
                        await client.post(url, content=build_review(), headers=JSON)
                        if "judge" in url
                        else (await client.get(url))
                    )
                except httpx.ConnectError:
                    continue
                assert answer.is_success
                answering.add(server_name)
        return answering

    def note_ports(self) -> None:
        manager = self.manager
        self.ports = {
            "probes": manager.health_port,
            "metrics": manager.metrics_port,
            "webhooks": manager.webhook_port,
        }

    @property
    def holder(self) -> str:
        return str(self.store.objects.get(LEASE, {}).get("spec", {}).get("holderIdentity", ""))


JSON = {"Content-Type": "application/json"}
ALL = {"probes", "metrics", "webhooks"}


@asynccontextmanager
async def run_harness(harness: Harness) -> AsyncIterator[None]:
    async with anyio.create_task_group() as group:
        group.start_soon(harness.run)
        with anyio.fail_after(10):
            await harness.manager.wait_serving()
            harness.note_ports()
            yield
        group.cancel_scope.cancel()


async def test_a_standby_answers_probes_scrapes_and_webhooks(tmp_path: Path) -> None:
    harness = Harness(tmp_path)
    spec = {"holderIdentity": "other", "leaseDurationSeconds": 15}
    harness.store.put(LEASE, {"metadata": {"name": "leader", "namespace": "system"}, "spec": spec})
    async with run_harness(harness):
        await harness.clock.advance(5)
        assert await harness.list_answering() == ALL
        assert not harness.begun.is_set()


async def test_everything_is_served_until_the_last_work_has_ended(tmp_path: Path) -> None:
    harness = Harness(tmp_path)
    async with run_harness(harness):
        await harness.clock.advance(0)
        await harness.begun.wait()
        harness.manager.stop()
        await harness.clock.advance(1)
        assert await harness.list_answering() == ALL
        assert harness.holder == "us"
        harness.go_on.set()
        await harness.ended.wait()
        assert await harness.list_answering() == set()


async def test_the_lease_goes_last_when_nothing_is_served_any_more(tmp_path: Path) -> None:
    harness = Harness(tmp_path)
    served_at_release: list[set[str]] = []

    async def look_around() -> None:
        if harness.ended.is_set() or harness.holder:
            return
        served_at_release.append(await harness.list_answering())

    async with run_harness(harness):
        await harness.clock.advance(0)
        await harness.begun.wait()
        harness.go_on.set()
        harness.transport.before_answer = look_around
        harness.manager.stop()
        await harness.ended.wait()
    assert served_at_release == [set()]


async def test_a_leader_whose_work_outlives_its_lease_fails_the_liveness_check(
    tmp_path: Path,
) -> None:
    class Stubborn(Harness):
        @override
        async def reconcile(self, key: Key) -> Outcome:
            with anyio.CancelScope(shield=True):
                await super().reconcile(key)
            return SETTLED

        @override
        async def run(self) -> None:
            with pytest.raises(LeaderLost):
                await self.manager.run()
            self.ended.set()

    harness = Stubborn(tmp_path)
    async with run_harness(harness), httpx.AsyncClient() as client:
        await harness.clock.advance(0)
        await harness.begun.wait()
        alive = f"http://127.0.0.1:{harness.ports['probes']}/healthz"
        harness.transport.hangs = True
        await harness.clock.advance(9)
        assert not harness.manager.lost.is_set()
        await harness.clock.advance(1)
        assert harness.manager.lost.is_set()
        assert (await client.get(alive)).status_code == 200
        await harness.clock.advance(26)
        answer = await client.get(alive)
        assert answer.status_code == 503
        assert "work continues after the lease expired" in answer.text
        harness.go_on.set()
        await harness.ended.wait()


async def test_a_running_webhook_request_is_answered_before_the_webhooks_end(
    tmp_path: Path,
) -> None:
    harness = Harness(tmp_path)
    harness.go_on.set()
    harness.answer = anyio.Event()
    codes: list[int] = []
    async with run_harness(harness):
        await harness.clock.advance(0)

        async def ask() -> None:
            url = f"https://127.0.0.1:{harness.ports['webhooks']}/judge"
            async with httpx.AsyncClient(verify=harness.trust) as client:
                codes.append(
                    (await client.post(url, content=build_review(), headers=JSON)).status_code
                )

        async with anyio.create_task_group() as group:
            group.start_soon(ask)
            await harness.asked.wait()
            harness.manager.stop()
            await harness.clock.advance(1)
            assert not harness.ended.is_set()
            harness.answer.set()
        await harness.ended.wait()
    assert codes == [200]


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="this system has no /proc/self/fd")
async def test_servers_leave_neither_files_nor_tasks_behind(tmp_path: Path) -> None:
    async def once() -> tuple[int, int]:
        harness = Harness(tmp_path)
        harness.go_on.set()
        async with run_harness(harness):
            await harness.clock.advance(0)
            assert await harness.list_answering() == ALL
            harness.manager.stop()
            await harness.ended.wait()
        gc.collect()
        await settle()
        return open_files(), len(asyncio.all_tasks())

    counts = [await once() for _ in range(6)]
    assert counts[1:] == [counts[0]] * 5
