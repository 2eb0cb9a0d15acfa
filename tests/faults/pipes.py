"""A TCP proxy that can delay bytes, cut connections, and alternate between servers."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from itertools import cycle
from typing import Self

import anyio
from anyio.abc import SocketAttribute, SocketStream

from envtest.faults import Record

HOST = "127.0.0.1"
Address = tuple[str, int]
_CHUNK = 64 * 1024
_CONNECTION_ENDS = (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError)


class Pipe:
    """A TCP proxy that gives each connection to the next of its servers. Create it by `before`.

    Attributes:
        port: the port on which it listens.
        connections: the server of each connection, in order.
        delay_seconds: the delay of every byte from a server.
        refuses_connections: whether new connections are closed at once.
    """

    def __init__(self, targets: tuple[Address, ...]) -> None:
        self.port = 0
        self.delay_seconds = 0.0
        self.connections: Record[Address] = Record()
        self.refuses_connections = False
        self._turns = cycle(targets)
        self._open: set[anyio.CancelScope] = set()

    @classmethod
    @asynccontextmanager
    async def before(cls, *targets: Address) -> AsyncIterator[Self]:
        """Run a proxy before some servers for as long as the context lasts.

        Args:
            targets: the servers; each connection goes to the next one.
        """
        pipe = cls(targets)
        async with await anyio.create_tcp_listener(local_host=HOST) as listener:
            pipe.port = listener.extra(SocketAttribute.local_port)
            async with anyio.create_task_group() as group:
                group.start_soon(listener.serve, pipe._handle_connection)
                yield pipe
                group.cancel_scope.cancel()

    def cut_connections(self) -> None:
        """End all connections, so that clients have to open new ones."""
        for scope in self._open:
            scope.cancel()

    async def _handle_connection(self, client: SocketStream) -> None:
        target = next(self._turns)
        async with client:
            if self.refuses_connections:
                return
            try:
                server = await anyio.connect_tcp(*target)
            except OSError:
                return  # a load balancer, too, closes connections to a server that is down
            self.connections.add(target)
            async with server, anyio.create_task_group() as group:
                self._open.add(group.cancel_scope)
                try:
                    connection = group.cancel_scope
                    group.start_soon(_copy, client, server, lambda: 0.0, connection)
                    group.start_soon(_copy, server, client, lambda: self.delay_seconds, connection)
                    await anyio.sleep_forever()
                finally:
                    self._open.discard(group.cancel_scope)


async def _copy(
    source: SocketStream,
    sink: SocketStream,
    delay: Callable[[], float],
    connection: anyio.CancelScope,
) -> None:
    """Copy bytes until either side closes, and then cancel the scope of the connection.

    Args:
        source: the side that sends the bytes.
        sink: the side that receives them.
        delay: returns the seconds by which bytes that arrive now are delayed.
        connection: the scope to cancel at the end.
    """
    send_queue, receive_queue = anyio.create_memory_object_stream[tuple[float, bytes]](
        float("inf")
    )

    async def receive() -> None:
        with send_queue, suppress(*_CONNECTION_ENDS):
            while True:
                chunk = await source.receive(_CHUNK)
                send_queue.send_nowait((anyio.current_time() + delay(), chunk))

    async with anyio.create_task_group() as group:
        group.start_soon(receive)
        with receive_queue, suppress(*_CONNECTION_ENDS):
            async for due, chunk in receive_queue:
                await anyio.sleep_until(due)
                await sink.send(chunk)
        group.cancel_scope.cancel()
    connection.cancel()
