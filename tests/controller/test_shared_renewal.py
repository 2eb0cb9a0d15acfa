"""Credentials that were refused are loaded again once for all requests, and never hold them up."""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest
from aiohttp import web

from controller import execplugin
from controller.config import _load_kubeconfigs, connect
from controller.credentials import Configuration, LoadedCredentials
from controller.errors import ConfigurationError, NoAnswer
from controller.httpserver import serve_app
from controller.pages import Bind
from controller.transport import Transport
from tests.controller.kubeconfigs import write_kubeconfig
from tests.polling import make_awaitable, until

pytestmark = pytest.mark.usefixtures("no_cluster")

VERSION = "client.authentication.k8s.io/v1"
FIRST = f"""
n=$(cat RUNS 2>/dev/null || echo 0); echo $((n + 1)) > RUNS.new; mv RUNS.new RUNS
if [ "$n" = 0 ]; then
  echo '{{"apiVersion": "{VERSION}", "kind": "ExecCredential", "status": {{"token": "old"}}}}'
  exit 0
fi
"""
"""The first run gives a token; all runs are counted."""


@asynccontextmanager
async def open_refused_transport(folder: Path, later: str) -> AsyncIterator[Transport]:
    """Yield a transport with a plugin to a server that refuses its token.

    Args:
        folder: the file RUNS in it has how often the plugin was run.
        later: what the plugin does at its second run and after.
    """

    async def refuse(request: web.Request) -> web.Response:
        del request
        body = {"kind": "Status", "apiVersion": "v1", "reason": "Unauthorized", "code": 401}
        return web.json_response(body, status=401)

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", refuse)
    async with serve_app(app, Bind("127.0.0.1", 0), "test") as port:
        shell_script = f"cd {folder}\n{FIRST}{later}"
        exec_ = {"apiVersion": VERSION, "command": "sh", "args": ["-c", shell_script]}
        path = write_kubeconfig(folder / "kubeconfig", f"http://127.0.0.1:{port}", {"exec": exec_})
        transport = await connect(path)
        try:
            yield transport
        finally:
            await transport.aclose()


def count_runs(folder: Path) -> int:
    """Return how often the plugin was run."""
    return int((folder / "RUNS").read_text())


async def collect_failures(transport: Transport, count: int) -> list[str]:
    """Return the errors of so many requests that are sent at once."""
    errors: list[str] = []

    async def send() -> None:
        with pytest.raises(ConfigurationError) as caught:
            await transport.request("GET", "/x")
        errors.append(str(caught.value))

    async with anyio.create_task_group() as group:
        for _ in range(count):
            group.start_soon(send)
    return errors


async def test_a_plugin_that_fails_runs_once_for_all_requests_and_again_after_longer_pauses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 1000.0
    monkeypatch.setattr(anyio, "current_time", lambda: now)
    async with open_refused_transport(
        tmp_path, "echo 'the login has expired' >&2; exit 3"
    ) as transport:
        for _ in range(3):
            for error in await collect_failures(transport, 20):
                assert "exec: process returned 3. the login has expired" in error
        assert count_runs(tmp_path) == 2
        now += 6
        await collect_failures(transport, 20)
        assert count_runs(tmp_path) == 3
        now += 6
        await collect_failures(transport, 1)
        assert count_runs(tmp_path) == 3, "the second pause is ten seconds"
        now += 5
        await collect_failures(transport, 1)
        assert count_runs(tmp_path) == 4


async def test_a_request_waits_for_a_hanging_plugin_no_longer_than_its_timeout(
    tmp_path: Path,
) -> None:
    async with open_refused_transport(
        tmp_path, "echo $$ > PID.new; mv PID.new PID; exec sleep 600"
    ) as transport:
        for _ in range(3):
            with pytest.raises(NoAnswer, match=r"no credentials within 0\.2 s: the kubeconfig's"):
                await transport.request("GET", "/x", timeout=0.2)
        await until(make_awaitable((tmp_path / "PID").exists), bool)
        assert count_runs(tmp_path) == 2, "all of them wait for the same run"
        process = int((tmp_path / "PID").read_text())
    with pytest.raises(ProcessLookupError):  # it ends with the transport
        os.kill(process, 0)


async def test_a_plugin_that_hangs_at_the_start_is_ended_and_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(execplugin, "ANSWER_SECONDS", 0.05)
    exec_ = {"apiVersion": VERSION, "command": "sleep", "args": ["600"]}
    path = write_kubeconfig(tmp_path / "kubeconfig", "http://127.0.0.1:1", {"exec": exec_})
    with pytest.raises(ConfigurationError, match=r"exec: sleep has not answered within 0\.05 s"):
        await connect(path)


async def test_a_load_that_cleans_up_is_not_interrupted_by_the_end_of_the_transport(
    tmp_path: Path,
) -> None:
    path = write_kubeconfig(tmp_path / "kubeconfig", "http://127.0.0.1:1", {"token": "one"})
    configuration = await _load_kubeconfigs([path], None, may_ask=False)
    begun, may_end = anyio.Event(), anyio.Event()
    is_clean = False

    async def load() -> Configuration:
        nonlocal is_clean
        with anyio.CancelScope(shield=True):  # as a plugin that ran too long is ended
            begun.set()
            await may_end.wait()
            is_clean = True
        return configuration

    credentials = LoadedCredentials(configuration, load)
    async with anyio.create_task_group() as group:
        group.start_soon(credentials.renew)
        await begun.wait()
        group.start_soon(credentials.aclose)
        await anyio.wait_all_tasks_blocked()
        may_end.set()
    assert is_clean
