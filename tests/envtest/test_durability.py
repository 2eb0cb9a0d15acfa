"""What was acknowledged is there after a kill -9; revisions never go back."""

import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import anyio
import httpx
import pytest
import yaml
from anyio.abc import Process

from envtest import DiskError, TokenFileError, User, serve
from envtest.storage import Disk, Store

MAPS = "/api/v1/namespaces/default/configmaps"
SERVER = """
import sys, anyio
from pathlib import Path
from envtest import serve

async def main():
    async with serve(data=Path(sys.argv[1])) as server:
        print(server.kubeconfig(), end="---\\n", flush=True)
        await anyio.sleep_forever()

anyio.run(main)
"""


@dataclass
class Child:
    """A server in a process of its own."""

    process: Process
    http: httpx.AsyncClient

    async def revision(self) -> int:
        listed = await self.http.get(MAPS)
        return int(listed.json()["metadata"]["resourceVersion"])


@asynccontextmanager
async def child(data: Path) -> AsyncIterator[Child]:
    command = [sys.executable, "-c", SERVER, str(data)]
    async with await anyio.open_process(command, stderr=subprocess.DEVNULL) as process:
        text = ""
        assert process.stdout is not None
        with anyio.fail_after(30):
            while not text.endswith("---\n"):
                text += (await process.stdout.receive()).decode()
        config = yaml.safe_load(text.removesuffix("---\n"))
        token = config["users"][0]["user"]["token"]
        async with httpx.AsyncClient(
            base_url=config["clusters"][0]["cluster"]["server"],
            headers={"Authorization": f"Bearer {token}"},
            verify=False,
        ) as http:
            yield Child(process, http)
            if process.returncode is None:
                process.send_signal(signal.SIGKILL)


async def write_until_it_breaks(
    http: httpx.AsyncClient, worker: int, done: set[str], enough: anyio.Event
) -> None:
    for number in range(10_000):
        name = f"w{worker}-{number}"
        body = {"metadata": {"name": name}, "data": {"n": str(number)}}
        try:
            answer = await http.post(MAPS, json=body)
        except httpx.TransportError:
            return
        if answer.status_code == 201:
            done.add(name)
        if len(done) >= 200:
            enough.set()


@pytest.mark.slow
async def test_nothing_acknowledged_is_lost_when_the_server_is_killed(tmp_path: Path) -> None:
    acknowledged: set[str] = set()
    enough = anyio.Event()
    async with child(tmp_path) as first, anyio.create_task_group() as tasks:
        for worker in range(4):
            tasks.start_soon(write_until_it_breaks, first.http, worker, acknowledged, enough)
        await enough.wait()
        before = await first.revision()
        first.process.send_signal(signal.SIGKILL)

    async with child(tmp_path) as second:
        listed = (await second.http.get(MAPS)).json()
        after = await second.revision()

    assert acknowledged <= {item["metadata"]["name"] for item in listed["items"]}
    assert after >= before


@pytest.mark.slow
async def test_a_deletion_survives_too_and_raises_the_revision(tmp_path: Path) -> None:
    async with child(tmp_path) as first:
        await first.http.post(MAPS, json={"metadata": {"name": "a"}})
        await first.http.delete(f"{MAPS}/a")
        before = await first.revision()
        first.process.send_signal(signal.SIGKILL)

    async with child(tmp_path) as second:
        assert (await second.http.get(f"{MAPS}/a")).status_code == 404
        assert await second.revision() >= before


async def test_certificates_users_and_objects_are_the_same_after_a_restart(
    tmp_path: Path,
) -> None:
    async with serve(data=tmp_path) as first:
        authority = first.authority.pair.certificate
        tokens = (first.credentials("admin"), first.credentials("joe", ("readers",)))
        uid = first.api.store.table("namespaces").get("default")
    async with serve(data=tmp_path) as second:
        assert second.authority.pair.certificate == authority
        assert (second.credentials("admin"), second.credentials("joe")) == tokens
        assert second.authenticator.of_request(f"Bearer {tokens[1]}", None) == User(
            "joe", ("readers", "system:authenticated"), "joe"
        )
        assert second.api.store.table("namespaces").get("default") == uid


async def test_a_folder_whose_users_make_no_sense_is_let_go_and_can_be_mended(
    tmp_path: Path,
) -> None:
    (tmp_path / "users.csv").write_text("nobody")
    with pytest.raises(TokenFileError):
        async with serve(data=tmp_path):
            pass

    (tmp_path / "users.csv").unlink()
    async with serve(data=tmp_path) as server:
        assert server.url


async def test_two_servers_cannot_share_a_folder(tmp_path: Path) -> None:
    async with serve(data=tmp_path):
        with pytest.raises(DiskError, match="is another server using this folder"):
            async with serve(data=tmp_path):
                pass


def test_a_folder_that_is_no_folder_is_refused_with_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "objects.sqlite").write_text("this is no database, whatever it is called\n" * 50)

    with pytest.raises(DiskError, match="give another folder"):
        Disk(tmp_path)


def test_the_revision_of_a_deletion_is_remembered(tmp_path: Path) -> None:
    disk = Disk(tmp_path)
    store = Store(disk)
    store.write("things", "a", {"metadata": {"name": "a"}})
    store.delete("things", "a", {"metadata": {"name": "a"}})
    store.close()

    again = Store(Disk(tmp_path))
    assert (again.revision, len(again.table("things"))) == (store.revision, 0)
    again.close()
