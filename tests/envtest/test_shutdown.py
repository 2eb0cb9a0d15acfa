"""Nothing remains of an embedded server that stopped: no task, thread, file, socket or process."""

import asyncio
import gc
import os
import signal
import subprocess
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import httpx
import pytest

from envtest import EmbeddedServer, serve
from tests.clock import settle
from tests.envtest.samples import PATH, crd
from tests.envtest.test_connections import WATCH, client, connection, head, read_head
from tests.program import script

pytestmark = pytest.mark.skipif(
    not Path("/proc/self/fd").is_dir(), reason="no /proc to count files in"
)
_CHILD = """
import signal, sys, anyio
from pathlib import Path
from envtest import serve

async def main():
    with anyio.open_signal_receiver(signal.SIGTERM) as signals:
        options = {"namespace_controller": True, "garbage_collector": True}
        async with serve(data=Path(sys.argv[1]), **options) as server:
            print(server.url, flush=True)
            async for _ in signals:
                break

anyio.run(main)
"""


def remains() -> tuple[int, int, int]:
    """Return how many files, tasks and threads there are."""
    return len(os.listdir("/proc/self/fd")), len(asyncio.all_tasks()), threading.active_count()


@asynccontextmanager
async def busy(server: EmbeddedServer) -> AsyncIterator[httpx.AsyncClient]:
    """Keep a server busy: with watches, and with a request whose body does not come."""
    async with (
        client(server) as http,
        connection(server) as watch,
        connection(server) as late,
        connection(server),
    ):
        definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
        assert (await http.post(definitions, json=crd())).status_code in {201, 409}
        assert (await http.get(PATH)).status_code == 200
        await watch.send(head(server, "GET", WATCH) + b"\r\n")
        await read_head(watch)
        await late.send(head(server, "POST", PATH, "Content-Length: 100") + b"\r\n{")
        yield http


@pytest.mark.parametrize("kept", [True, False])
async def test_a_server_that_stops_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, kept: bool
) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(scratch))
    data = tmp_path / "data" if kept else None
    counted = []
    for _ in range(4):
        with anyio.fail_after(60):
            async with (
                serve(data=data, namespace_controller=True, garbage_collector=True) as server,
                busy(server),
            ):
                pass
        await settle()
        counted.append(remains())
    # The first one loads what is loaded once.
    assert counted[1] == counted[-1]
    assert os.listdir(scratch) == []


async def test_a_server_stops_under_clients_that_are_still_there() -> None:
    before = remains()
    with anyio.fail_after(30):
        server_scope = serve()
        server = await server_scope.__aenter__()
        async with busy(server):
            await server_scope.__aexit__(None, None, None)
            assert len(server.watchers) == 0
    await settle()
    assert remains()[1:] == before[1:]


async def test_a_process_that_is_asked_to_end_ends(tmp_path: Path) -> None:
    data = tmp_path / "data"
    command = script(_CHILD, str(data))
    async with await anyio.open_process(command, stderr=subprocess.STDOUT) as process:
        assert process.stdout is not None
        with anyio.fail_after(60):
            said = await process.stdout.receive()
            process.send_signal(signal.SIGTERM)
            async for more in process.stdout:
                said += more
            code = await process.wait()
    assert code == 0, said
    assert said.startswith(b"https://127.0.0.1:")
    assert said.count(b"\n") == 1, said
    # Closed in good order: what was in the write-ahead log is in the database.
    assert not list(data.glob("objects.sqlite-*"))


async def test_a_server_leaves_the_garbage_collector_of_its_host_as_it_was() -> None:
    before = (gc.isenabled(), gc.get_threshold())
    async with serve():
        assert (gc.isenabled(), gc.get_threshold()) == before
    assert (gc.isenabled(), gc.get_threshold()) == before
