"""What is yielded of writes, whatever the server does with its watches."""

import json
from collections.abc import Iterable, Mapping
from contextlib import aclosing
from typing import Any

import httpx
import pytest

from tests.following import follow_writes

pytestmark = pytest.mark.asyncio
WRITES = [("b", 1, ""), ("a", 2, ""), ("a", 3, "address"), ("b", 4, "address"), ("b", 5, "other")]
"""Name, resourceVersion and content of each write, in the order in which they were made."""
SEEN_AT_ONCE = 3
"""How many writes were made before anyone asked."""


def body_of(write: tuple[str, int, str]) -> dict[str, Any]:
    name, revision, content = write
    return {"metadata": {"name": name, "resourceVersion": str(revision)}, "content": content}


def event_lines(writes: Iterable[tuple[str, int, str]]) -> str:
    lines = [json.dumps({"type": "MODIFIED", "object": body_of(write)}) for write in writes]
    return "".join(f"{line}\n" for line in lines)


def answer(query: Mapping[str, str]) -> str:
    """Answer as kube-apiserver does that ends each watch after two events."""
    newest = {write[0]: write for write in WRITES[:SEEN_AT_ONCE]}
    by_name = [newest[name] for name in sorted(newest)]
    if "watch" not in query:
        items = [body_of(write) for write in by_name]
        return json.dumps({"metadata": {"resourceVersion": str(SEEN_AT_ONCE)}, "items": items})
    begin = int(query["resourceVersion"])
    later = [write for write in WRITES if write[1] > begin]
    return event_lines(by_name if begin == 0 else later[:2])


async def test_no_write_comes_again_when_the_server_ends_watches() -> None:
    transport = httpx.MockTransport(
        lambda request: httpx.Response(200, text=answer(request.url.params))
    )
    seen = []
    async with (
        httpx.AsyncClient(transport=transport, base_url="http://server") as admin,
        aclosing(follow_writes(admin, "/objects")) as events,
    ):
        async for event, body in events:
            if event != "BOOKMARK":
                seen.append((body["metadata"]["name"], body["content"]))
            if body["metadata"]["resourceVersion"] == str(len(WRITES)):
                break
    assert seen == [("a", "address"), ("b", ""), ("b", "address"), ("b", "other")]
