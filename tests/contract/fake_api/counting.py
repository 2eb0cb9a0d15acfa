"""A transport that counts, for cases about which requests are sent."""

from typing import Any

from controller import Transport


class CountedTransport:
    """A transport that remembers the methods of its requests."""

    def __init__(self, inner: Transport) -> None:
        self._inner = inner
        self.methods: list[str] = []

    async def request(self, method: str, path: str, **rest: Any) -> bytes:
        self.methods.append(method)
        return await self._inner.request(method, path, **rest)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)
