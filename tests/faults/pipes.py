"""TCP connections carried to where they belong: late, or to several servers in turn."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from itertools import cycle
from typing import Self

import anyio
from anyio.abc import SocketAttribute, SocketStream

from envtest.faults import Record

HOST = "127.0.0.1"
Place = tuple[str, int]
_CHUNK = 64 * 1024
_BROKEN = (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError)


class Pipe:
    """Listens on a port and carries each connection to one of some servers. Made by `before`.

    Attributes:
        port: where it listens.
        carried: which server each connection was given to, in order.
        late: by how many seconds every byte from a server is late.
        shut: whether connections are ended as soon as they come.
    """

    def __init__(self, targets: tuple[Place, ...]) -> None:
        self.port = 0
        self.late = 0.0
        self.carried: Record[Place] = Record()
        self.shut = False
        self._turns = cycle(targets)
        self._open: set[anyio.CancelScope] = set()

    @classmethod
    @asynccontextmanager
    async def before(cls, *targets: Place) -> AsyncIterator[Self]:
        """Carry connections for as long as the context lasts.

        Args:
            targets: the servers; each connection goes to the next one.
        """
        pipe = cls(targets)
        async with await anyio.create_tcp_listener(local_host=HOST) as listener:
            pipe.port = listener.extra(SocketAttribute.local_port)
            async with anyio.create_task_group() as group:
                group.start_soon(listener.serve, pipe._carry)
                yield pipe
                group.cancel_scope.cancel()

    def cut_connections(self) -> None:
        """End all connections, so that clients have to open new ones."""
        for scope in self._open:
            scope.cancel()

    async def _carry(self, client: SocketStream) -> None:
        target = next(self._turns)
        async with client:
            if self.shut:
                return
            try:
                server = await anyio.connect_tcp(*target)
            except OSError:
                return  # as a balancer answers for a server that is not there
            self.carried.add(target)
            async with server, anyio.create_task_group() as group:
                self._open.add(group.cancel_scope)
                try:
                    over = group.cancel_scope
                    group.start_soon(_copy, client, server, lambda: 0.0, over)
                    group.start_soon(_copy, server, client, lambda: self.late, over)
                    await anyio.sleep_forever()
                finally:
                    self._open.discard(group.cancel_scope)


async def _copy(
    source: SocketStream, sink: SocketStream, late: Callable[[], float], over: anyio.CancelScope
) -> None:
    """Carry bytes until one side ends; that ends the connection."""
    sending, waiting = anyio.create_memory_object_stream[tuple[float, bytes]](float("inf"))

    async def take() -> None:
        with sending, suppress(*_BROKEN):
            while True:
                chunk = await source.receive(_CHUNK)
                sending.send_nowait((anyio.current_time() + late(), chunk))

    async with anyio.create_task_group() as group:
        group.start_soon(take)
        with waiting, suppress(*_BROKEN):
            async for due, chunk in waiting:
                await anyio.sleep_until(due)
                await sink.send(chunk)
        group.cancel_scope.cancel()
    over.cancel()
