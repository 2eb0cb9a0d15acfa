"""Every write to the objects of a path, from a LIST and the watch that follows it.

A watch from resourceVersion 0 would not do. It begins with all objects in no order of their
resourceVersions, so a watch that ends then cannot resume from the last one that came: the server
would report writes again that are older than what was seen.
"""

import json
from collections.abc import AsyncGenerator
from typing import Any

import httpx

from tests.streams import unwound

Body = dict[str, Any]


async def follow_writes(
    admin: httpx.AsyncClient, path: str
) -> AsyncGenerator[tuple[str, Body], None]:
    """Yield the objects that exist as ADDED, and then each event of their watch, for ever.

    A watch that the server ends is continued after the last event that came.

    Args:
        admin: the administrator's client.
        path: of the objects.

    Yields:
        ADDED, MODIFIED, DELETED or BOOKMARK, and the object. A bookmark has only a
        resourceVersion. One comes after the objects of the LIST.

    Raises:
        AssertionError: the server refused a request, or had forgotten the last event.
    """
    answer = await admin.get(path)
    assert answer.status_code == 200, answer.text
    collection = answer.json()
    for body in collection["items"]:
        yield "ADDED", body
    revision = collection["metadata"]["resourceVersion"]
    yield "BOOKMARK", {"metadata": {"resourceVersion": revision}}
    while True:
        query = {"watch": "true", "resourceVersion": revision, "allowWatchBookmarks": "true"}
        async with (
            admin.stream("GET", path, params=query, timeout=None) as watch,
            unwound(watch.aiter_lines()) as lines,
        ):
            assert watch.status_code == 200
            async for line in lines:
                event = json.loads(line)
                assert event["type"] != "ERROR", event
                yield event["type"], event["object"]
                revision = event["object"]["metadata"]["resourceVersion"]
