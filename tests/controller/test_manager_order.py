"""The servers of a manager: as a standby, while it ends, and after it lost its lease."""

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

from controller.leases import OVERDUE_SECONDS, LeaderLost
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

LEASE_PATH = "/apis/coordination.k8s.io/v1/namespaces/system/leases/leader"
WIDGET_PATH = "/apis/example.com/v1/namespaces/default/widgets/a"


class ServingHarness:
    """A manager with leader election, probes, metrics, a webhook and a controller of widgets.

    Events of the manager are reconcile_begun, webhook_called and ended. The reconciler waits for
    may_end_reconcile. The webhook waits for may_answer_webhook, which is set unless a test
    replaces it.
    """

    def __init__(self, folder: Path) -> None:
        authority = Authority.create()
        pair = authority.issue_server_certificate("127.0.0.1")
        (folder / "tls.crt").write_bytes(pair.certificate)
        (folder / "tls.key").write_bytes(pair.key)
        self.trust = ssl.create_default_context(cadata=authority.pair.certificate.decode("ascii"))
        self.store = Store()
        self.store.put(WIDGET_PATH, {"metadata": {"name": "a", "namespace": "default"}})
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
        self.reconcile_begun, self.may_end_reconcile = anyio.Event(), anyio.Event()
        self.webhook_called, self.may_answer_webhook = anyio.Event(), anyio.Event()
        self.may_answer_webhook.set()
        self.ended = anyio.Event()

    async def reconcile(self, key: Key) -> Outcome:
        self.reconcile_begun.set()
        await self.may_end_reconcile.wait()
        return SETTLED

    async def judge(self, request: AdmissionRequest[Widget]) -> Answer:
        self.webhook_called.set()
        await self.may_answer_webhook.wait()
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
                    response = (
                        await client.post(url, content=build_review(), headers=JSON)
                        if "judge" in url
                        else (await client.get(url))
                    )
                except httpx.ConnectError:
                    continue
                assert response.is_success
                answering.add(server_name)
        return answering

    def record_ports(self) -> None:
        manager = self.manager
        self.ports = {
            "probes": manager.health_port,
            "metrics": manager.metrics_port,
            "webhooks": manager.webhook_port,
        }

    @property
    def holder(self) -> str:
        return str(
            self.store.objects.get(LEASE_PATH, {}).get("spec", {}).get("holderIdentity", "")
        )


JSON = {"Content-Type": "application/json"}
ALL_SERVERS = {"probes", "metrics", "webhooks"}


@asynccontextmanager
async def run_harness(harness: ServingHarness) -> AsyncIterator[None]:
    async with anyio.create_task_group() as group:
        group.start_soon(harness.run)
        with anyio.fail_after(10):
            await harness.manager.wait_serving()
            harness.record_ports()
            yield
        group.cancel_scope.cancel()


async def test_a_standby_answers_probes_scrapes_and_webhooks(tmp_path: Path) -> None:
    harness = ServingHarness(tmp_path)
    spec = {"holderIdentity": "other", "leaseDurationSeconds": 15}
    harness.store.put(
        LEASE_PATH, {"metadata": {"name": "leader", "namespace": "system"}, "spec": spec}
    )
    async with run_harness(harness):
        await harness.clock.advance(5)
        assert await harness.list_answering() == ALL_SERVERS
        assert not harness.reconcile_begun.is_set()


async def test_all_servers_answer_until_the_last_reconciler_has_ended(tmp_path: Path) -> None:
    harness = ServingHarness(tmp_path)
    async with run_harness(harness):
        await harness.clock.advance(0)
        await harness.reconcile_begun.wait()
        harness.manager.stop()
        await harness.clock.advance(1)
        assert await harness.list_answering() == ALL_SERVERS
        assert harness.holder == "us"
        harness.may_end_reconcile.set()
        await harness.ended.wait()
        assert await harness.list_answering() == set()


async def test_the_lease_is_released_last_when_all_servers_have_ended(tmp_path: Path) -> None:
    harness = ServingHarness(tmp_path)
    served_at_release: list[set[str]] = []

    async def note_servers_at_release() -> None:
        if harness.ended.is_set() or harness.holder:
            return
        served_at_release.append(await harness.list_answering())

    async with run_harness(harness):
        await harness.clock.advance(0)
        await harness.reconcile_begun.wait()
        harness.may_end_reconcile.set()
        harness.transport.before_answer = note_servers_at_release
        harness.manager.stop()
        await harness.ended.wait()
    assert served_at_release == [set()]


async def test_a_leader_whose_work_outlives_its_lease_fails_the_liveness_check(
    tmp_path: Path,
) -> None:
    class UncancellableHarness(ServingHarness):
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

    harness = UncancellableHarness(tmp_path)
    async with run_harness(harness), httpx.AsyncClient() as client:
        await harness.clock.advance(0)
        await harness.reconcile_begun.wait()
        liveness_url = f"http://127.0.0.1:{harness.ports['probes']}/healthz"
        harness.transport.hangs = True
        await harness.clock.advance(9)
        assert not harness.manager.lost.is_set()
        await harness.clock.advance(1)
        assert harness.manager.lost.is_set()
        assert (await client.get(liveness_url)).status_code == 200
        await harness.clock.advance(5 + OVERDUE_SECONDS + 1)  # the lease expires after 5 s
        response = await client.get(liveness_url)
        assert response.status_code == 503
        assert "work continues after the lease expired" in response.text
        harness.may_end_reconcile.set()
        await harness.ended.wait()


async def test_a_running_webhook_request_is_answered_before_the_webhooks_end(
    tmp_path: Path,
) -> None:
    harness = ServingHarness(tmp_path)
    harness.may_end_reconcile.set()
    harness.may_answer_webhook = anyio.Event()
    codes: list[int] = []
    async with run_harness(harness):
        await harness.clock.advance(0)

        async def send_review() -> None:
            url = f"https://127.0.0.1:{harness.ports['webhooks']}/judge"
            async with httpx.AsyncClient(verify=harness.trust) as client:
                codes.append(
                    (await client.post(url, content=build_review(), headers=JSON)).status_code
                )

        async with anyio.create_task_group() as group:
            group.start_soon(send_review)
            await harness.webhook_called.wait()
            harness.manager.stop()
            await harness.clock.advance(1)
            assert not harness.ended.is_set()
            harness.may_answer_webhook.set()
        await harness.ended.wait()
    assert codes == [200]


def count_open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="this system has no /proc/self/fd")
async def test_servers_leave_neither_files_nor_tasks_behind(tmp_path: Path) -> None:
    async def run_and_count_resources() -> tuple[int, int]:
        harness = ServingHarness(tmp_path)
        harness.may_end_reconcile.set()
        async with run_harness(harness):
            await harness.clock.advance(0)
            assert await harness.list_answering() == ALL_SERVERS
            harness.manager.stop()
            await harness.ended.wait()
        gc.collect()
        await settle()
        return count_open_files(), len(asyncio.all_tasks())

    counts = [await run_and_count_resources() for _ in range(6)]
    assert counts[1:] == [counts[0]] * 5
