"""Yields every write to the objects of a collection, by a LIST and the watches after it.

A watch from resourceVersion 0 is no alternative. It begins with all objects, not in the order of
their resourceVersions. If it ends then, it cannot be resumed from the last object: the server
would report older writes again.
"""

import json
from collections.abc import AsyncGenerator
from typing import Any

import httpx

from tests.streams import unwind_on_exit

Body = dict[str, Any]


async def follow_writes(
    admin: httpx.AsyncClient, path: str
) -> AsyncGenerator[tuple[str, Body], None]:
    """Yield the objects that exist as ADDED, and then each event of their watch, for ever.

    When the server ends a watch, the next one starts after the last event.

    Args:
        admin: the administrator's client.
        path: the URL path of the collection.

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
            unwind_on_exit(watch.aiter_lines()) as lines,
        ):
            assert watch.status_code == 200
            async for line in lines:
                event = json.loads(line)
                assert event["type"] != "ERROR", event
                yield event["type"], event["object"]
                revision = event["object"]["metadata"]["resourceVersion"]
