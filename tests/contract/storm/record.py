"""Everything that holds addresses, as its watch reports it: no two objects hold one address.

A watch reports each write, in the order in which the server made them, so what is true after each
event was true at each moment.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any

import anyio
import httpx

from tests.following import follow_writes
from tests.polling import SECONDS

Body = Mapping[str, Any]


@dataclass
class Record:
    """Who held what, from the beginning of a storm.

    Args:
        path: of the objects, of all namespaces.
        list_addresses: returns what an object holds; what is equal cannot be held twice.
        findings: what was held twice, as sentences.
        events: how many writes were seen.
        most: of how many objects something was held at once.
    """

    path: str
    list_addresses: Callable[[Body], Iterable[str]]
    findings: list[str] = field(default_factory=list)
    events: int = 0
    most: int = 0
    objects: dict[str, Body] = field(default_factory=dict)
    _holds: dict[str, Sequence[str]] = field(default_factory=dict)
    _holders: dict[str, set[str]] = field(default_factory=dict)
    _revision: int = 0
    _moved: anyio.Event = field(default_factory=anyio.Event)

    async def follow(self, admin: httpx.AsyncClient) -> None:
        """Note every write until cancelled; the watch begins before there is any."""
        async with aclosing(follow_writes(admin, self.path)) as events:
            async for event, body in events:
                self.note(event, body)

    async def grows_by(self, events: int, seconds: float) -> None:
        """Wait for so many writes, or for so many seconds if there are fewer."""
        last = self.events + events
        with anyio.move_on_after(seconds):
            while self.events < last:
                await self._moved.wait()

    async def wait_until_noted(self, admin: httpx.AsyncClient) -> None:
        """Wait until all that was written up to now is noted."""
        answer = await admin.get(self.path)
        body = answer.json()["items"]
        newest = max((int(item["metadata"]["resourceVersion"]) for item in body), default=0)
        gone = set(self.objects) - {_name(item) for item in body}
        with anyio.fail_after(SECONDS):
            while self._revision < newest or gone & set(self.objects):
                await self._moved.wait()

    def note(self, kind: str, body: Body) -> None:
        """Note a write: ADDED, MODIFIED or DELETED, or a bookmark."""
        self._revision = int(body["metadata"]["resourceVersion"])
        if kind != "BOOKMARK":
            self.events += 1
            self._change(_name(body), body, gone=kind == "DELETED")
        self._moved.set()
        self._moved = anyio.Event()

    def _change(self, name: str, body: Body, *, gone: bool) -> None:
        before = self._holds.pop(name, ())
        for address in before:
            self._holders[address].discard(name)
        self.objects.pop(name, None)
        if gone:
            return
        self.objects[name] = body
        addresses = self._holds[name] = tuple(self.list_addresses(body))
        for address in addresses:
            others = self._holders.setdefault(address, set())
            if others - {name} and address not in before:
                self.findings.append(
                    f"revision {self._revision}: {name} holds {address}, and so does"
                    f" {sorted(others)}"
                )
            others.add(name)
        self.most = max(self.most, sum(map(bool, self._holds.values())))


def _name(body: Body) -> str:
    return f"{body['metadata'].get('namespace', '')}/{body['metadata']['name']}"
