"""An API server that takes connections and never says a word: worse than one that is off."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
from anyio.abc import ByteStream, SocketAttribute

from controller.jobs import running
from controller.meta import Key
from reconcilers.cli.demo.step import Deed
from reconcilers.cli.demo.world import World
from reconcilers.cli.local.objects import apply
from reconcilers.cli.local.platform import kubeconfig_secret

HOST = "127.0.0.1"


@asynccontextmanager
async def silence() -> AsyncIterator[str]:
    """Give the URL of such a server, inside the context."""
    listener = await anyio.create_tcp_listener(local_host=HOST)
    port = listener.extra(SocketAttribute.local_port)  # noqa: S610 - no Django's

    async def serve() -> None:
        async with listener:
            await listener.serve(_say_nothing)

    async with running([serve]):
        yield f"https://{HOST}:{port}"


async def _say_nothing(stream: ByteStream) -> None:
    async with stream:
        try:
            while True:
                await stream.receive()
        except (anyio.EndOfStream, anyio.BrokenResourceError):
            return


def leads_to(cluster: Key, url: str, like: Key) -> Deed:
    """Return the deed of writing a cluster's kubeconfig: another one's, with another URL."""

    async def act(world: World) -> None:
        other = world.tenant(like).server
        text = other.kubeconfig.replace(other.url, url)
        await apply(world.management.transport, kubeconfig_secret(cluster, text))

    return act
