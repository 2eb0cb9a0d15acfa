"""The HTTPS server of webhooks: what it takes, what it refuses, which certificate it shows."""

import re
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import httpx
import pytest
from anyio.streams.tls import TLSAttribute
from cryptography import x509

from controller.certificates import CertificateFiles, CertificateMetrics, ServingCertificate
from controller.clock import SystemClock
from controller.errors import ConfigurationError, ServerFailure
from controller.manager import Manager
from controller.metrics import Metrics
from controller.options import ManagerOptions
from controller.pages import Bind
from controller.webhooks import AdmissionRequest, Allowed, Answer, Webhook
from controller.webhooks.authority import SERVING_LIFETIME
from controller.webhooks.selfsigned import SelfSignedCertificate
from controller.webhooks.served import Served, WebhookFamilies
from controller.webhooks.server import MAX_BYTES, WebhookServer
from envtest.certs import Authority
from tests.clock import VirtualClock
from tests.controller.store import Store, StoreTransport
from tests.controller.webhooks import conversions
from tests.controller.webhooks.conversions import GIZMOS, build_gizmo, create_gizmo_conversion
from tests.controller.webhooks.reviews import UID, allow, build_review
from tests.controller.widgets import WIDGETS, Widget

JSON = {"Content-Type": "application/json"}


def put(folder: Path, authority: Authority, name: str) -> None:
    """Put a new certificate for `name` and 127.0.0.1 where the server looks for one."""
    pair = authority.issue_server_certificate("127.0.0.1", name)
    (folder / "tls.crt").write_bytes(pair.certificate)
    (folder / "tls.key").write_bytes(pair.key)


class Harness:
    """A server with one webhook, its certificate, and a client that trusts it."""

    def __init__(self, folder: Path, clock: VirtualClock) -> None:
        self.authority = Authority.create()
        self.folder = folder
        self.clock = clock
        self.metrics = Metrics()
        self.holder = ServingCertificate("webhook", CertificateMetrics(self.metrics.registry))
        self.files = CertificateFiles(folder, self.holder, clock)
        self.trust = ssl.create_default_context(
            cadata=self.authority.pair.certificate.decode("ascii")
        )
        self.port = 0

    async def post(self, body: bytes, path: str = "/judge", **headers: str) -> httpx.Response:
        url = f"https://127.0.0.1:{self.port}"
        async with httpx.AsyncClient(base_url=url, verify=self.trust) as client:
            return await client.post(path, content=body, headers={**JSON, **headers})

    async def presented_name(self, server_hostname: str) -> str:
        """Return the first name in the certificate that a new connection gets."""
        async with await anyio.connect_tcp(
            "127.0.0.1", self.port, ssl_context=self.trust, tls_hostname=server_hostname
        ) as stream:
            data = stream.extra(TLSAttribute.peer_certificate_binary)
        assert data is not None
        names = x509.load_der_x509_certificate(data).extensions.get_extension_for_class(
            x509.SubjectAlternativeName
        )
        return names.value.get_values_for_type(x509.DNSName)[0]

    def count(self, series: str) -> float:
        lines = self.metrics.render_exposition()[0].decode().splitlines()
        return sum(float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith(series))


@asynccontextmanager
async def serve_webhook(tmp_path: Path, webhook: Served | None = None) -> AsyncIterator[Harness]:
    harness = Harness(tmp_path, VirtualClock())
    put(tmp_path, harness.authority, "first")
    harness.files.start()
    families = WebhookFamilies(harness.metrics.registry)
    server = WebhookServer(
        Bind("127.0.0.1", 0), harness.holder, clock=harness.clock, families=families
    )
    webhooks = [webhook or Webhook("/judge", allow, Widget)]
    async with server.serve(webhooks) as port, anyio.create_task_group() as group:
        group.start_soon(harness.files.run)
        harness.port = port
        yield harness
        group.cancel_scope.cancel()


async def test_a_request_over_https_is_answered(tmp_path: Path) -> None:
    async with serve_webhook(tmp_path) as harness:
        answer = await harness.post(build_review())
        assert (answer.status_code, answer.headers["Content-Type"]) == (200, "application/json")
        assert answer.json()["response"]["uid"] == UID
        assert harness.count('controller_runtime_webhook_requests_total{code="200"') == 1
        assert harness.count("controller_runtime_webhook_latency_seconds_count") == 1
        assert harness.count("controller_runtime_webhook_requests_in_flight") == 0


async def test_another_content_type_is_refused(tmp_path: Path) -> None:
    async with serve_webhook(tmp_path) as harness:
        answer = await harness.post(build_review(), **{"Content-Type": "text/plain"})
        status = answer.json()["response"]["status"]
        assert (answer.status_code, status["code"]) == (200, 400)
        assert status["message"] == "contentType=text/plain, expected application/json"


async def test_an_empty_body_is_refused(tmp_path: Path) -> None:
    async with serve_webhook(tmp_path) as harness:
        status = (await harness.post(b"")).json()["response"]["status"]
        assert (status["code"], status["message"]) == (400, "request body is empty")


async def test_a_body_beyond_the_limit_is_refused_with_413(tmp_path: Path) -> None:
    async with serve_webhook(tmp_path) as harness:
        status = (await harness.post(b" " * (MAX_BYTES + 1))).json()["response"]["status"]
        assert (status["code"], status["reason"]) == (413, "RequestEntityTooLarge")


@pytest.mark.survives_bugs
async def test_a_conversion_is_answered_and_counted_like_an_admission_request(
    tmp_path: Path,
) -> None:
    async with serve_webhook(tmp_path, create_gizmo_conversion()) as harness:
        good = await harness.post(
            conversions.build_review("v2", build_gizmo("v1", {})), "/convert-gizmo"
        )
        assert good.json()["response"]["result"] == {"status": "Success"}
        broken = conversions.build_review("v2", build_gizmo("v1", {"size": "big"}))
        bad = await harness.post(broken, "/convert-gizmo?timeout=30s")
        assert (bad.status_code, bad.json()["response"]["uid"]) == (200, conversions.UID)
        path = 'webhook="/convert-gizmo"'
        assert harness.count(f'controller_runtime_webhook_requests_total{{code="200",{path}') == 2
        assert harness.count(f"controller_runtime_webhook_latency_seconds_count{{{path}") == 2
        assert harness.count("controller_runtime_webhook_panics_total") == 1


async def test_a_conversion_beyond_the_limit_is_refused_by_a_status_that_api_servers_show(
    tmp_path: Path,
) -> None:
    async with serve_webhook(tmp_path, create_gizmo_conversion()) as harness:
        answer = await harness.post(b" " * (MAX_BYTES + 1), "/convert-gizmo")
        status = answer.json()
        assert (answer.status_code, status["kind"], status["code"]) == (413, "Status", 413)
        assert status["message"] == f"request entity is too large; limit is {MAX_BYTES} bytes"


async def test_an_unknown_path_is_not_found(tmp_path: Path) -> None:
    async with serve_webhook(tmp_path) as harness:
        assert (await harness.post(build_review(), "/other")).status_code == 404


@pytest.mark.survives_bugs
async def test_a_handler_that_raises_is_counted_as_a_panic(tmp_path: Path) -> None:
    async def fail(_: AdmissionRequest[Widget]) -> Answer:
        raise LookupError

    async with serve_webhook(tmp_path, Webhook("/judge", fail, Widget)) as harness:
        answer = await harness.post(build_review())
        assert answer.json()["response"]["status"]["code"] == 500
        assert harness.count("controller_runtime_webhook_panics_total") == 1
        assert (await harness.post(build_review())).status_code == 200


async def test_a_late_handler_answers_504_before_the_api_server_gives_up(tmp_path: Path) -> None:
    begun = anyio.Event()

    async def sleep(_: AdmissionRequest[Widget]) -> Answer:
        begun.set()
        await anyio.sleep_forever()
        return Allowed()

    async with serve_webhook(tmp_path, Webhook("/judge", sleep, Widget)) as harness:
        answers: list[httpx.Response] = []

        async def post() -> None:
            answers.append(await harness.post(build_review(), "/judge?timeout=5s"))

        async with anyio.create_task_group() as group:
            group.start_soon(post)
            await begun.wait()
            await harness.clock.advance(4.5)
        assert answers[0].status_code == 504
        assert harness.count('controller_runtime_webhook_requests_total{code="504"') == 1


async def test_a_new_certificate_is_used_for_new_connections_and_open_ones_stay(
    tmp_path: Path,
) -> None:
    async with serve_webhook(tmp_path) as harness:
        url = f"https://127.0.0.1:{harness.port}"
        async with httpx.AsyncClient(base_url=url, verify=harness.trust) as client:
            assert (await client.post("/judge", content=build_review(), headers=JSON)).is_success
            assert await harness.presented_name("first") == "first"
            put(tmp_path, harness.authority, "second")
            await harness.clock.advance(10)
            assert await harness.presented_name("second") == "second"
            # No name is sent for an address; the certificate is the new one all the same.
            assert await harness.presented_name("127.0.0.1") == "second"
            kept = await client.post("/judge", content=build_review(), headers=JSON)
            assert kept.extensions["network_stream"].get_extra_info("ssl_object") is not None
            assert kept.is_success
        assert harness.count("certwatcher_read_certificate_total") == 2


async def test_files_replaced_by_a_symlink_as_kubelet_does_it_are_read(tmp_path: Path) -> None:
    folder = tmp_path / "certs"
    for generation in ("..1", "..2"):
        (folder / generation).mkdir(parents=True)
    (folder / "..data").symlink_to("..1")
    for name in ("tls.crt", "tls.key"):
        (folder / name).symlink_to(f"..data/{name}")
    async with serve_webhook(folder) as harness:
        assert await harness.presented_name("first") == "first"
        put(folder / "..2", harness.authority, "second")
        (folder / "..new").symlink_to("..2")
        (folder / "..new").rename(folder / "..data")
        await harness.clock.advance(10)
        assert await harness.presented_name("second") == "second"


async def test_a_pair_that_does_not_fit_together_replaces_nothing(tmp_path: Path) -> None:
    async with serve_webhook(tmp_path) as harness:
        (tmp_path / "tls.key").write_bytes(harness.authority.issue_server_certificate("x").key)
        await harness.clock.advance(20)
        assert await harness.presented_name("first") == "first"
        (tmp_path / "tls.crt").unlink()
        await harness.clock.advance(10)
        assert await harness.presented_name("first") == "first"
        assert harness.count("certwatcher_read_certificate_errors_total") == 3
        put(tmp_path, harness.authority, "third")
        await harness.clock.advance(10)
        assert await harness.presented_name("third") == "third"


async def test_two_webhooks_at_one_path_are_a_mistake(tmp_path: Path) -> None:
    manager = Manager(StoreTransport(Store()), options=ManagerOptions(webhook_bind="0"))
    manager.add_webhook(Webhook("/judge", allow, Widget))
    with pytest.raises(ValueError, match="/judge already"):
        manager.add_webhook(Webhook("/judge", allow, Widget))


def test_a_webhook_without_an_address_is_refused_where_it_is_added() -> None:
    manager = Manager(StoreTransport(Store()), clock=VirtualClock())
    with pytest.raises(ConfigurationError, match=r"/judge is .*set ManagerOptions\.webhook_bind"):
        manager.add_webhook(Webhook("/judge", allow, Widget))


async def test_a_manager_whose_webhooks_are_switched_off_serves_none() -> None:
    options = ManagerOptions(webhook_bind="0")
    manager = Manager(StoreTransport(Store()), clock=VirtualClock(), options=options)
    manager.add_webhook(Webhook("/judge", allow, Widget))
    async with anyio.create_task_group() as group:
        group.start_soon(manager.run)
        await manager.wait_serving()
        assert manager.webhook_port is None
        manager.stop()


async def test_a_manager_serves_webhooks_before_its_caches_are_filled(tmp_path: Path) -> None:
    authority = Authority.create()
    put(tmp_path, authority, "first")
    options = ManagerOptions(
        webhook_bind="127.0.0.1:0", webhook_cert_dir=str(tmp_path), health_bind="127.0.0.1:0"
    )
    transport = StoreTransport(Store())
    transport.hangs = True
    manager = Manager(transport, clock=VirtualClock(), options=options)
    manager.add_webhook(Webhook("/judge", allow, Widget))
    async with anyio.create_task_group() as group:
        group.start_soon(manager.run)
        with anyio.fail_after(5):
            await manager.wait_serving()
        trust = ssl.create_default_context(cadata=authority.pair.certificate.decode("ascii"))
        async with httpx.AsyncClient(verify=trust) as client:
            url = f"https://127.0.0.1:{manager.webhook_port}/judge"
            assert (await client.post(url, content=build_review(), headers=JSON)).is_success
            ready = await client.get(f"http://127.0.0.1:{manager.health_port}/readyz?verbose")
            assert "[+]webhook-certificate ok" in ready.text
        group.cancel_scope.cancel()


async def test_a_kind_that_is_converted_here_does_not_keep_a_manager_from_being_ready(
    tmp_path: Path,
) -> None:
    put(tmp_path, Authority.create(), "first")
    options = ManagerOptions(
        webhook_bind="127.0.0.1:0", webhook_cert_dir=str(tmp_path), health_bind="127.0.0.1:0"
    )
    transport = StoreTransport(Store())
    # A Service leads to replicas that are ready: before one is, nothing can be converted.
    transport.errors_by_plural["gizmos"] = ServerFailure(500, "", "conversion webhook failed")
    manager = Manager(transport, clock=VirtualClock(), options=options)
    manager.add_webhook(create_gizmo_conversion())
    gizmo_informer, _ = manager.get_informer(GIZMOS), manager.get_informer(WIDGETS)
    async with anyio.create_task_group() as group:
        group.start_soon(manager.run)
        with anyio.fail_after(30):
            await manager.wait_serving()
            async with httpx.AsyncClient() as client:
                url = f"http://127.0.0.1:{manager.health_port}/readyz?verbose"
                while not (ready := await client.get(url)).is_success:
                    pass
        assert gizmo_informer.last_error is not None
        assert "[+]informer/widgets.example.com ok" in ready.text
        assert "gizmos" not in ready.text
        group.cancel_scope.cancel()


async def test_a_manager_whose_certificate_is_missing_does_not_start(tmp_path: Path) -> None:
    options = ManagerOptions(webhook_bind="127.0.0.1:0", webhook_cert_dir=str(tmp_path))
    manager = Manager(StoreTransport(Store()), clock=SystemClock(), options=options)
    manager.add_webhook(Webhook("/judge", allow, Widget))
    with pytest.raises(ConfigurationError, match=r"tls\.crt"):
        await manager.run()


async def test_before_there_is_a_certificate_connections_and_readiness_fail() -> None:
    metrics = Metrics()
    holder = ServingCertificate("webhook", CertificateMetrics(metrics.registry))
    failing = holder.create_check().run()
    assert failing is not None
    assert (failing.problem, failing.why) == (
        "the webhook server has no certificate",
        "no certificate yet",
    )
    families = WebhookFamilies(metrics.registry)
    server = WebhookServer(Bind("127.0.0.1", 0), holder, clock=VirtualClock(), families=families)
    async with server.serve([Webhook("/judge", allow, Widget)]) as port:
        authority = Authority.create()
        trust = ssl.create_default_context(cadata=authority.pair.certificate.decode("ascii"))
        url = f"https://127.0.0.1:{port}/judge"
        async with httpx.AsyncClient(verify=trust) as client:
            with pytest.raises(httpx.ConnectError):
                await client.post(url, content=build_review(), headers=JSON)
            pair = authority.issue_server_certificate("127.0.0.1")
            assert holder.replace(pair.certificate, pair.key)
            assert (await client.post(url, content=build_review(), headers=JSON)).is_success
    assert holder.create_check().run() is None


async def test_a_self_signed_certificate_is_renewed_before_it_expires() -> None:
    clock, metrics = VirtualClock(), Metrics()
    holder = ServingCertificate("metrics", CertificateMetrics(metrics.registry))
    async with anyio.create_task_group() as group:
        group.start_soon(SelfSignedCertificate(holder, clock, ("localhost",)).run)
        await clock.advance(0)
        assert holder.create_check().run() is None
        for renewals in range(1, 20):
            await clock.advance(SERVING_LIFETIME.total_seconds())
            exposition = metrics.render_exposition()[0].decode()
            match = re.search(
                r"^certwatcher_read_certificate_total (\S+)", exposition, re.MULTILINE
            )
            assert match is not None
            assert float(match[1]) > renewals
        group.cancel_scope.cancel()
    assert clock.waiting == 0
