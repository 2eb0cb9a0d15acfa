"""Probes and metrics over HTTP: their responses and formats, and the ports that they listen on."""

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

ON_FREE_PORTS = ManagerOptions(metrics_bind="127.0.0.1:0", health_bind="127.0.0.1:0")
PROMETHEUS_3 = (
    "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,"
    "application/openmetrics-text;version=0.0.1;q=0.5,"
    "text/plain;version=1.0.0;escaping=allow-utf-8;q=0.4,text/plain;version=0.0.4;q=0.3,*/*;q=0.2"
)
"""The Accept header of Prometheus 3."""
FAILING_CHECK = Check("broken", lambda: Failing("cannot list widgets", "403: token of system:x"))


async def reconcile(key: Key) -> Outcome:
    return SETTLED


@asynccontextmanager
async def serve_manager(transport: StoreTransport) -> AsyncIterator[Manager]:
    """Run a manager with one controller on free ports; its clock stands still."""
    clock = VirtualClock()
    manager = Manager(transport, clock=clock, options=ON_FREE_PORTS)
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


async def get_page(port: int | None, path: str, **headers: str) -> httpx.Response:
    """Return the response to a GET of a page on a local port."""
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", verify=False) as client:
        return await client.get(path, headers=headers)


async def test_a_manager_whose_kinds_are_listed_is_alive_and_ready() -> None:
    async with serve_manager(StoreTransport(Store())) as manager:
        for path in ("/healthz", "/readyz"):
            response = await get_page(manager.health_port, path)
            assert (response.status_code, response.text) == (200, "ok")


async def test_readyz_names_the_verb_and_kind_that_fail_but_not_the_reason() -> None:
    transport = StoreTransport(Store())
    transport.errors_by_method["LIST"] = Forbidden(
        403, "Forbidden", "User system:x cannot list widgets"
    )
    async with serve_manager(transport) as manager:
        response = await get_page(manager.health_port, "/readyz")
        assert response.status_code == 503
        assert "cannot list widgets.example.com" in response.text
        assert "system:x" not in response.text
        verbose = await get_page(manager.health_port, "/readyz?verbose")
        assert "system:x" in verbose.text
        assert (await get_page(manager.health_port, "/healthz")).status_code == 200


async def test_a_single_check_can_be_run_alone_or_excluded() -> None:
    transport = StoreTransport(Store())
    transport.errors_by_method["LIST"] = Forbidden(403)
    async with serve_manager(transport) as manager:
        port, name = manager.health_port, "informer/widgets.example.com"
        assert (await get_page(port, f"/readyz/{name}")).status_code == 503
        assert (await get_page(port, "/readyz/ping")).status_code == 200
        assert (await get_page(port, f"/readyz?exclude={name}")).status_code == 200
        assert (await get_page(port, "/readyz/nonsense")).status_code == 404


async def test_metrics_are_served_in_prometheus_text_format() -> None:
    async with serve_manager(StoreTransport(Store())) as manager:
        response = await get_page(manager.metrics_port, "/metrics")
    assert response.headers["Content-Type"].startswith("text/plain; version=0.0.4")
    series = 'controller_runtime_reconcile_total{controller="widget",result="error"} 0.0'
    assert series in response.text
    assert 'workqueue_unfinished_work_seconds{controller="widget",name="widget"} 0.0' in (
        response.text
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
        response = await get_page(manager.metrics_port, "/metrics", Accept=accept)
    assert response.headers["Content-Type"].startswith(content_type)
    is_openmetrics = content_type.startswith("application/openmetrics")
    assert response.text.endswith("# EOF\n") == is_openmetrics
    assert 'controller_runtime_reconcile_total{controller="widget",result="error"} 0.0' in (
        response.text
    )


async def test_the_ports_are_closed_when_the_manager_ends() -> None:
    async with serve_manager(StoreTransport(Store())) as manager:
        port = manager.metrics_port
    with pytest.raises(httpx.ConnectError):
        await get_page(port, "/metrics")


async def test_a_port_that_is_in_use_is_a_configuration_error() -> None:
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
def test_a_bind_address_is_parsed_as_by_controller_runtime(
    content: str, bind: Bind | None
) -> None:
    assert parse_bind(content, "metrics") == bind


@pytest.mark.parametrize("content", ["8080", ":x", ":70000", "::1:80", "localhost"])
def test_the_refusal_of_an_invalid_bind_address_names_the_setting(content: str) -> None:
    with pytest.raises(ConfigurationError, match=f"--flag: '{content}' cannot be parsed"):
        parse_bind(content, "--flag")


def test_the_report_of_a_failing_probe_names_every_check_and_withholds_reasons() -> None:
    result = run_checks("readyz", [PING, FAILING_CHECK])
    assert not result.is_healthy
    assert result.body.splitlines() == [
        "[+]ping ok",
        "[-]broken failed: cannot list widgets: reason withheld",
        "readyz check failed",
    ]


def test_a_verbose_report_has_all_reasons() -> None:
    assert "token of system:x" in run_checks("readyz", [PING, FAILING_CHECK], verbose=True).body
    assert run_checks("healthz", [PING], verbose=True).body == "[+]ping ok\nhealthz check passed\n"


def test_an_excluded_check_is_not_run() -> None:
    assert run_checks("readyz", [PING, FAILING_CHECK], exclude=["broken"]).is_healthy


async def test_requests_that_are_no_http_are_answered_and_only_errors_of_pages_are_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def raise_lookup_error(request: PageRequest) -> PageResponse:
        raise LookupError(request.tail)

    async with serve(Bind("127.0.0.1", 0), {"/page": raise_lookup_error}, "a page") as port:
        oversized = await get_page(port, "/page", Cookie="a=" + "b" * 10_000)
        assert oversized.status_code == 400
        for raw_request in (
            b"GET /page HTTP/1.1\r\nno header\r\n\r\n",
            b"GET /page HTTP/9\r\n\r\n",
        ):
            async with await anyio.connect_tcp("127.0.0.1", port) as stream:
                await stream.send(raw_request)
                assert b"400 Bad Request" in await stream.receive()
        assert caplog.records == []
        assert (await get_page(port, "/page/below")).status_code == 500
    [record] = caplog.records
    assert record.levelname == "ERROR"
    assert "LookupError: below" in str(record.exc_text)


async def test_added_checks_count_for_their_own_probe_and_ports_are_logged() -> None:
    manager = Manager(StoreTransport(Store()), clock=VirtualClock(), options=ON_FREE_PORTS)
    manager.add_liveness_check(Check("scanner", lambda: Failing("scanner is stuck")))
    manager.add_readiness_check(Check("backlog", lambda: Failing("backlog is full")))
    async with anyio.create_task_group() as group:
        with capture_logs() as lines:
            group.start_soon(manager.run)
            with anyio.fail_after(5):
                await manager.wait_serving()
        alive = await get_page(manager.health_port, "/healthz")
        ready = await get_page(manager.health_port, "/readyz/backlog")
        with pytest.raises(RuntimeError, match="the manager runs already"):
            manager.add_liveness_check(PING)
        group.cancel_scope.cancel()
    assert (alive.status_code, "scanner is stuck" in alive.text) == (503, True)
    assert "backlog" not in alive.text
    assert (ready.status_code, "backlog is full" in ready.text) == (503, True)
    ports = {line["server"]: line["port"] for line in lines if line["event"] == "Serving"}
    assert ports == {"metrics": manager.metrics_port, "probes": manager.health_port}
