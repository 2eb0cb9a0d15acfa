"""A reader of the controllers' live page of addresses."""

import json
from typing import Any

import aiohttp
import anyio

from tests.manifests.clusters import HOME, Cluster
from tests.polling import SECONDS


async def read_updates(url: str, token: str) -> tuple[int, list[dict[str, Any]]]:
    """Read the page's stream of updates up to the first update with Kubernetes Events.

    Args:
        url: the base URL of the page.
        token: the bearer token of the reader.

    Returns:
        The HTTP status, and the updates; no updates if the status is not 200.
    """
    updates: list[dict[str, Any]] = []
    async with (
        aiohttp.ClientSession(headers={"Authorization": f"Bearer {token}"}) as http,
        http.get(f"{url}/ui/updates", ssl=False) as answer,
    ):
        if answer.status == 200:
            with anyio.fail_after(SECONDS):
                while not any(update.get("events") for update in updates):
                    line = await answer.content.readline()
                    assert line, f"the stream ended: {updates}"
                    if line.startswith(b"data: "):
                        updates.append(json.loads(line.removeprefix(b"data: ")))
        return answer.status, updates


async def create_token(cluster: Cluster, name: str) -> str:
    """Create a ServiceAccount and return a token of it."""
    await cluster.kubectl("create", "serviceaccount", name, "-n", HOME)
    return (await cluster.kubectl("create", "token", name, "-n", HOME)).strip()
