"""What the proxy saw and did, in order, to be looked at and waited for."""

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar, overload

import anyio
from typing_extensions import override

T = TypeVar("T")


class Record(Sequence[T]):
    """A sequence that grows; whoever waits for an entry is woken by it."""

    def __init__(self) -> None:
        self._entries: list[T] = []
        self._grown = anyio.Event()

    def add(self, entry: T) -> None:
        """Append an entry."""
        self._entries.append(entry)
        self._grown.set()
        self._grown = anyio.Event()

    async def wait(self, count: int = 1, where: Callable[[T], bool] | None = None) -> list[T]:
        """Wait until there are `count` entries, of those that `where` admits; return them."""
        while True:
            found = [entry for entry in self._entries if where is None or where(entry)]
            if len(found) >= count:
                return found
            await self._grown.wait()

    @overload
    def __getitem__(self, index: int) -> T: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[T]: ...
    @override
    def __getitem__(self, index: int | slice) -> T | Sequence[T]:
        return self._entries[index]

    @override
    def __iter__(self) -> Iterator[T]:
        return iter(tuple(self._entries))

    @override
    def __len__(self) -> int:
        return len(self._entries)
