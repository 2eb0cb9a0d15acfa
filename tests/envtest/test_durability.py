"""What was acknowledged is there after a kill -9; revisions never go back."""

import itertools
import json
import random
import signal
import subprocess
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from math import ceil
from pathlib import Path
from tempfile import TemporaryDirectory

import anyio
import httpx
import pytest
import yaml
from anyio.abc import Process
from hypothesis import example, given, settings
from hypothesis import strategies as st

from envtest import DiskError, TokenFileError, User, serve
from envtest.storage import Disk, Store
from tests.program import script

MAPS = "/api/v1/namespaces/default/configmaps"
SERVER = """
import sys, anyio
from pathlib import Path
from tempfile import TemporaryDirectory
from envtest import serve

async def main():
    async with serve(data=Path(sys.argv[1])) as server:
        print(server.get_kubeconfig(), end="---\\n", flush=True)
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
async def start_child(data: Path) -> AsyncIterator[Child]:
    command = script(SERVER, str(data))
    async with await anyio.open_process(command, stderr=subprocess.DEVNULL) as process:
        output = ""
        assert process.stdout is not None
        with anyio.fail_after(30):
            while not output.endswith("---\n"):
                output += (await process.stdout.receive()).decode()
        config = yaml.safe_load(output.removesuffix("---\n"))
        token = config["users"][0]["user"]["token"]
        async with httpx.AsyncClient(
            base_url=config["clusters"][0]["cluster"]["server"],
            headers={"Authorization": f"Bearer {token}"},
            verify=False,
        ) as http:
            yield Child(process, http)
            if process.returncode is None:
                process.send_signal(signal.SIGKILL)


@dataclass
class Ledger:
    """What one worker was told about its objects, and what it had asked for when the end came.

    States are the values that objects carry; None is an object that is not there.
    """

    reported: dict[str, str | None] = field(default_factory=dict)
    asked: dict[str, str | None] = field(default_factory=dict)
    revision: int = 0
    answers: int = 0

    def allows(self, name: str, stored_value: str | None) -> bool:
        """Return whether an object may be so after the crash."""
        allowed = {self.reported.get(name)}
        if name in self.asked:
            allowed.add(self.asked[name])
        return stored_value in allowed

    async def work(
        self,
        http: httpx.AsyncClient,
        rng: random.Random,
        prefix: str,
        answered: Callable[[], None],
    ) -> None:
        """Create, change and delete objects until the server is gone."""
        for number in itertools.count():
            name, value = f"{prefix}-{rng.randrange(5)}", str(number)
            there = self.reported.get(name) is not None
            removed = there and rng.random() < 0.3
            self.asked = {name: None if removed else value}
            try:
                answer = await self._send(http, name, value, there=there, removed=removed)
            except httpx.TransportError:
                return
            assert answer.is_success, answer.text
            meta = answer.json()["metadata"]
            self.revision = max(self.revision, int(meta.get("resourceVersion") or 0))
            self.reported |= self.asked
            self.asked = {}
            self.answers += 1
            answered()

    async def _send(
        self, http: httpx.AsyncClient, name: str, value: str, *, there: bool, removed: bool
    ) -> httpx.Response:
        if removed:
            return await http.delete(f"{MAPS}/{name}")
        body = {"metadata": {"name": name}, "data": {"n": value}}
        if there:
            return await http.put(f"{MAPS}/{name}", json=body)
        return await http.post(MAPS, json=body)


async def kill_at_some_point(server: Child, ledgers: dict[str, Ledger], seed: int) -> None:
    """Put a server under load, and kill it after a random number of answers, amid requests."""
    remaining = itertools.count(random.Random(seed).randint(1, 150), -1)
    enough = anyio.Event()

    def note_answer() -> None:
        if next(remaining) == 0:
            enough.set()

    async with anyio.create_task_group() as tasks:
        for prefix, ledger in ledgers.items():
            rng = random.Random(f"{seed}{prefix}")
            tasks.start_soon(ledger.work, server.http, rng, prefix, note_answer)
        await enough.wait()
        server.process.send_signal(signal.SIGKILL)


async def read_values_and_revision(server: Child) -> tuple[dict[str, str], int]:
    """Return the values of all objects, and the revision."""
    listed = (await server.http.get(MAPS)).json()
    values = {
        item["metadata"]["name"]: item["data"]["n"] for item in listed["items"] if "data" in item
    }
    return values, int(listed["metadata"]["resourceVersion"])


@pytest.mark.slow
async def test_nothing_acknowledged_is_lost_however_often_the_server_is_killed(
    tmp_path: Path,
) -> None:
    ledgers = {prefix: Ledger() for prefix in ("one", "two", "three", "four")}
    highest = 0
    for seed in range(4):
        async with start_child(tmp_path) as server:
            values, revision = await read_values_and_revision(server)
            assert revision >= max(highest, *(ledger.revision for ledger in ledgers.values()))
            for prefix, ledger in ledgers.items():
                for number in range(5):
                    name = f"{prefix}-{number}"
                    stored_value = values.get(name)
                    assert ledger.allows(name, stored_value), (seed, name, stored_value, ledger)
                    ledger.reported[name] = stored_value
                ledger.asked = {}
            highest = revision
            await kill_at_some_point(server, ledgers, seed)
    assert sum(ledger.answers for ledger in ledgers.values()) > 10


@pytest.mark.slow
async def test_a_watch_from_before_the_kill_delivers_what_happened_since(tmp_path: Path) -> None:
    async with start_child(tmp_path) as server:
        before = await server.revision()
        for name in ("a", "b"):
            await server.http.post(MAPS, json={"metadata": {"name": name}})
        await server.http.delete(f"{MAPS}/a")
        server.process.send_signal(signal.SIGKILL)

    query = {"watch": "1", "resourceVersion": str(before), "timeoutSeconds": "1"}
    async with start_child(tmp_path) as server:
        body = (await server.http.get(MAPS, params=query)).text
    events = [json.loads(line) for line in body.splitlines()]
    assert [(event["type"], event["object"]["metadata"]["name"]) for event in events] == [
        ("ADDED", "a"),
        ("ADDED", "b"),
        ("DELETED", "a"),
    ]


@pytest.mark.slow
async def test_a_deletion_survives_too_and_raises_the_revision(tmp_path: Path) -> None:
    async with start_child(tmp_path) as first:
        await first.http.post(MAPS, json={"metadata": {"name": "a"}})
        gone = (await first.http.delete(f"{MAPS}/a")).json()
        before = await first.revision()
        first.process.send_signal(signal.SIGKILL)
        assert gone["kind"] == "Status"

    async with start_child(tmp_path) as second:
        assert (await second.http.get(f"{MAPS}/a")).status_code == 404
        assert await second.revision() >= before


async def test_certificates_users_and_objects_are_the_same_after_a_restart(
    tmp_path: Path,
) -> None:
    async with serve(data=tmp_path) as first:
        authority = first.authority.pair.certificate
        tokens = (
            first.get_or_create_token("admin"),
            first.get_or_create_token("joe", ("readers",)),
        )
        uid = first.api.store.get_table("namespaces").get("default")
    async with serve(data=tmp_path) as second:
        assert second.authority.pair.certificate == authority
        assert (second.get_or_create_token("admin"), second.get_or_create_token("joe")) == tokens
        assert second.authenticator.find_request_user(f"Bearer {tokens[1]}", None) == User(
            "joe", ("readers", "system:authenticated"), "joe"
        )
        assert second.api.store.get_table("namespaces").get("default") == uid


async def test_a_folder_with_invalid_users_is_unlocked_and_can_be_repaired(
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


def fill_folder(folder: Path) -> bytes:
    """Store objects in a folder; return what its database consists of."""
    store = Store(Disk(folder))
    for number in range(300):
        name = f"n{number}"
        store.write("things", name, {"metadata": {"name": name, "labels": {"x": "y" * 200}}})
    store.close()
    return (folder / "objects.sqlite").read_bytes()


@given(share=st.floats(0, 1, exclude_max=True))
@example(share=0.0)
@example(share=1e-9)  # one byte is left, which SQLite takes for none
@example(share=0.96875)  # a fault that SQLite tells in two lines
@settings(max_examples=25, deadline=None)
def test_a_database_cut_short_is_reported_in_a_sentence(share: float) -> None:
    with TemporaryDirectory() as name:
        whole = fill_folder(Path(name))
        size = ceil(share * (len(whole) - 1))
        (Path(name) / "objects.sqlite").write_bytes(whole[:size])

        with pytest.raises(DiskError, match=r"objects\.sqlite .*; give another folder"):
            Store(Disk(Path(name)))


def test_a_database_with_holes_is_reported_in_a_sentence(tmp_path: Path) -> None:
    whole = bytearray(fill_folder(tmp_path))
    for start in range(4096, len(whole), 4096):
        whole[start : start + 100] = bytes(100)
    (tmp_path / "objects.sqlite").write_bytes(whole)

    with pytest.raises(DiskError, match="is damaged"):
        Store(Disk(tmp_path))


def test_a_file_that_is_no_database_is_refused_with_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "objects.sqlite").write_text("this is no database, whatever it is called\n" * 50)

    with pytest.raises(DiskError, match="give another folder"):
        Disk(tmp_path)


def test_a_folder_that_is_no_folder_is_refused_with_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    with pytest.raises(DiskError, match=r"cannot be used: .*give another folder"):
        Disk(tmp_path / "file")


@pytest.mark.parametrize("name", ["ca.key", "ca.crt", "service-accounts.key", "users.csv"])
@pytest.mark.parametrize("seconds_left", [0.0, 0.5])
async def test_a_damaged_file_is_named_and_the_folder_unlocked(
    tmp_path: Path, name: str, seconds_left: float
) -> None:
    async with serve(data=tmp_path) as server:
        server.get_or_create_token("admin")
    file = tmp_path / name
    whole = file.read_bytes()
    damaged = whole[: int(len(whole) * seconds_left)]
    # An empty list of users is one; bytes that are no text are none.
    file.write_bytes(b"\xff" + damaged if name == "users.csv" else damaged)

    with pytest.raises((DiskError, TokenFileError), match=rf"{name} .*; restore it"):
        async with serve(data=tmp_path):
            pass

    file.write_bytes(whole)
    async with serve(data=tmp_path) as server:
        assert server.url


def test_the_revision_of_a_deletion_is_remembered(tmp_path: Path) -> None:
    disk = Disk(tmp_path)
    store = Store(disk)
    store.write("things", "a", {"metadata": {"name": "a"}})
    store.delete("things", "a")
    store.close()

    again = Store(Disk(tmp_path))
    assert (again.revision, len(again.get_table("things"))) == (store.revision, 0)
    again.close()


def test_the_revision_of_a_forgotten_deletion_is_never_given_out_again(tmp_path: Path) -> None:
    store = Store(Disk(tmp_path))
    store.write("things", "a", {"metadata": {"name": "a"}})
    last = store.delete("things", "a").revision
    store.compact(last)
    store.close()

    again = Store(Disk(tmp_path))
    assert len(again.get_table("things")) == 0
    assert again.write("things", "b", {"metadata": {"name": "b"}}).revision == last + 1
    again.close()
