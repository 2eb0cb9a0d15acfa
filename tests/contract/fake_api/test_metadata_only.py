"""Reads of metadata only; a real server sends nothing but the metadata then."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest
from typing_extensions import override

from controller import Change, Client, Key, Manager, MetadataOnly, Resource, Transport
from controller.testing import FakeApi
from controller.transport import NO_QUERY
from envtest.settings import read_settings
from tests.contract.fake_api.gauges import GAUGES, create_gauge, get_version, make_gauge_body
from tests.envtest.samples import GROUP
from tests.polling import SECONDS

HEADS = Resource(GROUP, "v1", "Gauge", "gauges", MetadataOnly)
PLACE = b'"hall"'
"""Bytes of the spec of each gauge, which metadata does not have."""

pytestmark = pytest.mark.asyncio(loop_scope="module")


class RecordingTransport(Transport):
    """A transport that appends the bytes of all answers to `received`."""

    def __init__(self, inner: Transport) -> None:
        self.received = b""
        self._inner = inner

    @override
    async def request(self, method: str, path: str, **more: Any) -> bytes:
        answer = await self._inner.request(method, path, **more)
        self.received += answer
        return answer

    @override
    @asynccontextmanager
    async def stream(
        self, path: str, *, query: Mapping[str, str] = NO_QUERY, accept: str = ""
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        async with self._inner.stream(path, query=query, accept=accept) as chunks:
            yield self._record(chunks)

    async def _record(self, chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        async for chunk in chunks:
            self.received += chunk
            yield chunk

    @override
    async def aclose(self) -> None:
        await self._inner.aclose()


def sends_whole_objects(transport: Transport) -> bool:
    """Return whether a server answers requests for metadata with whole objects.

    The fake API and the embedded server do, and clients drop the rest. Real servers do not.
    """
    return isinstance(transport, FakeApi) or read_settings().kind == "embedded"


async def test_lists_watches_and_gets_bring_the_metadata_and_nothing_else(
    transport: Transport, client: Client
) -> None:
    await create_gauge(client, "before")
    recording = RecordingTransport(transport)
    manager = Manager(recording)
    heads = manager.get_informer(HEADS)
    seen = dict[str, str]()
    changed = anyio.Event()

    def note_change(change: Change[MetadataOnly]) -> None:
        if change.new is not None:
            seen[change.new.metadata.name] = change.new.metadata.labels.get("state", "")
            changed.set()

    heads.add_handler(note_change)

    async def wait_for(expected: dict[str, str]) -> None:
        nonlocal changed
        while seen != expected:
            await changed.wait()
            changed = anyio.Event()

    async with anyio.create_task_group() as group:
        group.start_soon(manager.run)
        with anyio.fail_after(SECONDS):
            await heads.wait_synced()
            await wait_for({"before": ""})
            after = await client.create(
                GAUGES, "default", make_gauge_body("after", labels={"state": "new"})
            )
            await wait_for({"before": "", "after": "new"})
            await client.patch(
                GAUGES, get_version(after), {"metadata": {"labels": {"state": "old"}}}
            )
            await wait_for({"before": "", "after": "old"})
            listed = await manager.client.list(HEADS)
            read = await manager.client.get(HEADS, Key("default", "after"))
        manager.stop()
    assert {metadata_only.metadata.name for metadata_only in listed.items} == {"before", "after"}
    assert read == MetadataOnly(read.metadata)
    assert b'"after"' in recording.received
    assert (PLACE in recording.received) == sends_whole_objects(transport)
