"""A reader of the page of addresses, which controllers serve that were installed."""

import json
from typing import Any

import aiohttp
import anyio

from tests.manifests.clusters import HOME, Cluster
from tests.polling import SECONDS


async def updates(url: str, token: str) -> tuple[int, list[dict[str, Any]]]:
    """Return the answer's status, and what is sent up to the first event of the controllers."""
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


async def token_of(cluster: Cluster, name: str) -> str:
    """Make a ServiceAccount; return a token of it."""
    await cluster.kubectl("create", "serviceaccount", name, "-n", HOME)
    return (await cluster.kubectl("create", "token", name, "-n", HOME)).strip()
