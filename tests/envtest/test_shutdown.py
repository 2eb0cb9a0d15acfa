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
from tests.envtest.samples import PATH, build_gauge_definition
from tests.envtest.test_connections import (
    WATCH,
    build_request_head,
    open_client,
    open_connection,
    read_head,
)
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


def count_resources() -> tuple[int, int, int]:
    """Return how many files, tasks and threads there are."""
    return len(os.listdir("/proc/self/fd")), len(asyncio.all_tasks()), threading.active_count()


@asynccontextmanager
async def keep_busy(server: EmbeddedServer) -> AsyncIterator[httpx.AsyncClient]:
    """Keep watches open, and a request whose body does not come; yield a client."""
    async with (
        open_client(server) as http,
        open_connection(server) as watch,
        open_connection(server) as late,
        open_connection(server),
    ):
        definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
        assert (await http.post(definitions, json=build_gauge_definition())).status_code in {
            201,
            409,
        }
        assert (await http.get(PATH)).status_code == 200
        await watch.send(build_request_head(server, "GET", WATCH) + b"\r\n")
        await read_head(watch)
        await late.send(build_request_head(server, "POST", PATH, "Content-Length: 100") + b"\r\n{")
        yield http


@pytest.mark.parametrize("has_data_folder", [True, False])
async def test_a_server_that_stops_leaves_no_files_tasks_or_threads_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, has_data_folder: bool
) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(scratch))
    data = tmp_path / "data" if has_data_folder else None
    counted = []
    for _ in range(4):
        with anyio.fail_after(60):
            async with (
                serve(data=data, namespace_controller=True, garbage_collector=True) as server,
                keep_busy(server),
            ):
                pass
        await settle()
        counted.append(count_resources())
    # The first one loads what is loaded once.
    assert counted[1] == counted[-1]
    assert os.listdir(scratch) == []


async def test_a_server_stops_while_clients_still_have_connections() -> None:
    before = count_resources()
    with anyio.fail_after(30):
        server_scope = serve()
        server = await server_scope.__aenter__()
        async with keep_busy(server):
            await server_scope.__aexit__(None, None, None)
            assert len(server.watchers) == 0
    await settle()
    assert count_resources()[1:] == before[1:]


async def test_a_process_that_gets_sigterm_closes_its_database_and_exits_with_0(
    tmp_path: Path,
) -> None:
    data = tmp_path / "data"
    command = script(_CHILD, str(data))
    async with await anyio.open_process(command, stderr=subprocess.STDOUT) as process:
        assert process.stdout is not None
        with anyio.fail_after(60):
            output = await process.stdout.receive()
            process.send_signal(signal.SIGTERM)
            async for chunk in process.stdout:
                output += chunk
            code = await process.wait()
    assert code == 0, output
    assert output.startswith(b"https://127.0.0.1:")
    assert output.count(b"\n") == 1, output
    # Closed in good order: what was in the write-ahead log is in the database.
    assert not list(data.glob("objects.sqlite-*"))


async def test_a_server_leaves_the_garbage_collector_of_its_host_as_it_was() -> None:
    before = (gc.isenabled(), gc.get_threshold())
    async with serve():
        assert (gc.isenabled(), gc.get_threshold()) == before
    assert (gc.isenabled(), gc.get_threshold()) == before
