"""Finds addresses that two objects hold at the same time, by the watch of those objects.

A watch reports each write in the order of the server, so the state after each event was the state
of the server at one moment.
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
    """The addresses that each object of a kind holds, from the beginning of a storm.

    Args:
        path: the URL path of the objects of all namespaces.
        list_addresses: returns the addresses that an object holds.
        findings: addresses that two objects held at once, as sentences.
        writes: how many writes the watch reported.
        most_holders: the most objects that held addresses at the same time.
        objects: by namespace and name.
    """

    path: str
    list_addresses: Callable[[Body], Iterable[str]]
    findings: list[str] = field(default_factory=list)
    writes: int = 0
    most_holders: int = 0
    objects: dict[str, Body] = field(default_factory=dict)
    _holds: dict[str, Sequence[str]] = field(default_factory=dict)
    _holders: dict[str, set[str]] = field(default_factory=dict)
    _revision: int = 0
    _advanced: anyio.Event = field(default_factory=anyio.Event)

    async def follow(self, admin: httpx.AsyncClient) -> None:
        """Note every write until cancelled; the watch begins before there is any."""
        async with aclosing(follow_writes(admin, self.path)) as events:
            async for event, body in events:
                self.note(event, body)

    async def wait_for_writes(self, count: int, seconds: float) -> None:
        """Wait until the watch reports `count` more writes, or for `seconds` at most."""
        last = self.writes + count
        with anyio.move_on_after(seconds):
            while self.writes < last:
                await self._advanced.wait()

    async def wait_until_noted(self, admin: httpx.AsyncClient) -> None:
        """Wait until the watch has reported all writes up to now."""
        answer = await admin.get(self.path)
        items = answer.json()["items"]
        newest = max((int(item["metadata"]["resourceVersion"]) for item in items), default=0)
        gone = set(self.objects) - {_name(item) for item in items}
        with anyio.fail_after(SECONDS):
            while self._revision < newest or gone & set(self.objects):
                await self._advanced.wait()

    def note(self, event: str, body: Body) -> None:
        """Note an event of the watch: ADDED, MODIFIED, DELETED or BOOKMARK."""
        self._revision = int(body["metadata"]["resourceVersion"])
        if event != "BOOKMARK":
            self.writes += 1
            self._update_holdings(_name(body), body, gone=event == "DELETED")
        self._advanced.set()
        self._advanced = anyio.Event()

    def _update_holdings(self, name: str, body: Body, *, gone: bool) -> None:
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
        self.most_holders = max(self.most_holders, sum(map(bool, self._holds.values())))


def _name(body: Body) -> str:
    return f"{body['metadata'].get('namespace', '')}/{body['metadata']['name']}"
