"""Probes and metrics over HTTP: what they say, to whom, and where they listen."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
import httpx
import pytest
from structlog.testing import capture_logs

from controller.errors import ConfigurationError, Forbidden
from controller.health import PING, Check, Failing, run_checks
from controller.httpserver import serve
from controller.manager import Manager
from controller.meta import Key
from controller.options import ManagerOptions
from controller.outcome import SETTLED, Outcome
from controller.pages import Bind, PageRequest, PageResponse, parse_bind
from controller.triggers import Watch, to_self
from tests.clock import VirtualClock
from tests.controller.store import Store, StoreTransport
from tests.controller.widgets import WIDGETS

LOCAL = ManagerOptions(metrics_bind="127.0.0.1:0", health_bind="127.0.0.1:0")
PROMETHEUS_3 = (
    "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,"
    "application/openmetrics-text;version=0.0.1;q=0.5,"
    "text/plain;version=1.0.0;escaping=allow-utf-8;q=0.4,text/plain;version=0.0.4;q=0.3,*/*;q=0.2"
)
"""What Prometheus 3 asks for."""
BROKEN = Check("broken", lambda: Failing("cannot list widgets", "403: token of system:x"))


async def reconcile(key: Key) -> Outcome:
    return SETTLED


@asynccontextmanager
async def serve_manager(transport: StoreTransport) -> AsyncIterator[Manager]:
    """Run a manager with one controller on free ports; its clock stands still."""
    clock = VirtualClock()
    manager = Manager(transport, clock=clock, options=LOCAL)
    manager.add_controller(
        "widget", reconcile, watches=[Watch(manager.get_informer(WIDGETS), to_self)]
    )
    async with anyio.create_task_group() as group:
        group.start_soon(manager.run)
        with anyio.fail_after(5):
            await manager.wait_serving()
        await clock.advance(0)
        yield manager
        group.cancel_scope.cancel()


async def ask(port: int | None, path: str, **headers: str) -> httpx.Response:
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", verify=False) as client:
        return await client.get(path, headers=headers)


async def test_a_manager_whose_kinds_are_listed_is_alive_and_ready() -> None:
    async with serve_manager(StoreTransport(Store())) as manager:
        for path in ("/healthz", "/readyz"):
            answer = await ask(manager.health_port, path)
            assert (answer.status_code, answer.text) == (200, "ok")


async def test_readyz_names_the_verb_and_kind_that_fail_but_not_the_reason() -> None:
    transport = StoreTransport(Store())
    transport.refused["LIST"] = Forbidden(403, "Forbidden", "User system:x cannot list widgets")
    async with serve_manager(transport) as manager:
        answer = await ask(manager.health_port, "/readyz")
        assert answer.status_code == 503
        assert "cannot list widgets.example.com" in answer.text
        assert "system:x" not in answer.text
        verbose = await ask(manager.health_port, "/readyz?verbose")
        assert "system:x" in verbose.text
        assert (await ask(manager.health_port, "/healthz")).status_code == 200


async def test_one_check_can_be_run_alone_or_excluded() -> None:
    transport = StoreTransport(Store())
    transport.refused["LIST"] = Forbidden(403)
    async with serve_manager(transport) as manager:
        port, name = manager.health_port, "informer/widgets.example.com"
        assert (await ask(port, f"/readyz/{name}")).status_code == 503
        assert (await ask(port, "/readyz/ping")).status_code == 200
        assert (await ask(port, f"/readyz?exclude={name}")).status_code == 200
        assert (await ask(port, "/readyz/nonsense")).status_code == 404


async def test_metrics_are_served_in_prometheus_text_format() -> None:
    async with serve_manager(StoreTransport(Store())) as manager:
        answer = await ask(manager.metrics_port, "/metrics")
    assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
    series = 'controller_runtime_reconcile_total{controller="widget",result="error"} 0.0'
    assert series in answer.text
    assert 'workqueue_unfinished_work_seconds{controller="widget",name="widget"} 0.0' in (
        answer.text
    )


@pytest.mark.parametrize(
    ("accept", "content_type"),
    [
        (PROMETHEUS_3, "application/openmetrics-text; version=1.0.0"),
        ("application/openmetrics-text;version=1.0.0,text/plain;q=0.5", "application/openmetrics"),
        ("text/plain;version=0.0.4", "text/plain; version=0.0.4"),
        ("*/*", "text/plain; version=0.0.4"),
    ],
)
async def test_metrics_are_served_in_the_format_that_is_asked_for(
    accept: str, content_type: str
) -> None:
    async with serve_manager(StoreTransport(Store())) as manager:
        answer = await ask(manager.metrics_port, "/metrics", Accept=accept)
    assert answer.headers["Content-Type"].startswith(content_type)
    is_openmetrics = content_type.startswith("application/openmetrics")
    assert answer.text.endswith("# EOF\n") == is_openmetrics
    assert 'controller_runtime_reconcile_total{controller="widget",result="error"} 0.0' in (
        answer.text
    )


async def test_the_ports_are_closed_when_the_manager_ends() -> None:
    async with serve_manager(StoreTransport(Store())) as manager:
        port = manager.metrics_port
    with pytest.raises(httpx.ConnectError):
        await ask(port, "/metrics")


async def test_a_port_that_is_taken_is_a_configuration_error() -> None:
    async with serve_manager(StoreTransport(Store())) as manager:
        options = ManagerOptions(metrics_bind=f"127.0.0.1:{manager.metrics_port}")
        with pytest.raises(ConfigurationError, match=r"cannot listen on 127\.0\.0\.1:\d+ for met"):
            await Manager(StoreTransport(Store()), options=options).run()


@pytest.mark.parametrize(
    ("content", "bind"),
    [
        (":8080", Bind("", 8080)),
        ("127.0.0.1:0", Bind("127.0.0.1", 0)),
        ("[::1]:9443", Bind("::1", 9443)),
        ("0", None),
        ("", None),
    ],
)
def test_addresses_are_written_as_for_other_controllers(content: str, bind: Bind | None) -> None:
    assert parse_bind(content, "metrics") == bind


@pytest.mark.parametrize("content", ["8080", ":x", ":70000", "::1:80", "localhost"])
def test_a_setting_that_is_no_address_is_refused_by_its_name(content: str) -> None:
    with pytest.raises(ConfigurationError, match=f"--flag: '{content}' cannot be parsed"):
        parse_bind(content, "--flag")


def test_a_failing_report_names_every_check_and_withholds_reasons() -> None:
    result = run_checks("readyz", [PING, BROKEN])
    assert not result.is_healthy
    assert result.body.splitlines() == [
        "[+]ping ok",
        "[-]broken failed: cannot list widgets: reason withheld",
        "readyz check failed",
    ]


def test_a_verbose_report_has_all_reasons() -> None:
    assert "token of system:x" in run_checks("readyz", [PING, BROKEN], verbose=True).body
    assert run_checks("healthz", [PING], verbose=True).body == "[+]ping ok\nhealthz check passed\n"


def test_an_excluded_check_is_not_run() -> None:
    assert run_checks("readyz", [PING, BROKEN], exclude=["broken"]).is_healthy


async def test_a_request_that_is_no_http_is_answered_and_fills_no_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def broken(request: PageRequest) -> PageResponse:
        raise LookupError(request.tail)

    async with serve(Bind("127.0.0.1", 0), {"/page": broken}, "a page") as port:
        large = await ask(port, "/page", Cookie="a=" + "b" * 10_000)
        assert large.status_code == 400
        for raw_request in (
            b"GET /page HTTP/1.1\r\nno header\r\n\r\n",
            b"GET /page HTTP/9\r\n\r\n",
        ):
            async with await anyio.connect_tcp("127.0.0.1", port) as stream:
                await stream.send(raw_request)
                assert b"400 Bad Request" in await stream.receive()
        assert caplog.records == []
        assert (await ask(port, "/page/below")).status_code == 500
    [ours] = caplog.records
    assert ours.levelname == "ERROR"
    assert "LookupError: below" in str(ours.exc_text)


async def test_own_checks_are_asked_behind_each_probe_and_ports_are_logged() -> None:
    manager = Manager(StoreTransport(Store()), clock=VirtualClock(), options=LOCAL)
    manager.add_liveness_check(Check("scanner", lambda: Failing("scanner is stuck")))
    manager.add_readiness_check(Check("backlog", lambda: Failing("backlog is full")))
    async with anyio.create_task_group() as group:
        with capture_logs() as lines:
            group.start_soon(manager.run)
            with anyio.fail_after(5):
                await manager.wait_serving()
        alive = await ask(manager.health_port, "/healthz")
        ready = await ask(manager.health_port, "/readyz/backlog")
        with pytest.raises(RuntimeError, match="the manager runs already"):
            manager.add_liveness_check(PING)
        group.cancel_scope.cancel()
    assert (alive.status_code, "scanner is stuck" in alive.text) == (503, True)
    assert "backlog" not in alive.text
    assert (ready.status_code, "backlog is full" in ready.text) == (503, True)
    ports = {line["server"]: line["port"] for line in lines if line["event"] == "Serving"}
    assert ports == {"metrics": manager.metrics_port, "probes": manager.health_port}
