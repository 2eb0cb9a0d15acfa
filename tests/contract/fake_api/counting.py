"""A transport that records requests, for tests that check how many are sent."""

from typing import Any

from controller import Transport


class CountedTransport:
    """A transport that appends the HTTP method of each request to `methods`."""

    def __init__(self, inner: Transport) -> None:
        self._inner = inner
        self.methods: list[str] = []

    async def request(self, method: str, path: str, **rest: Any) -> bytes:
        """Note the method of a request, then send the request."""
        self.methods.append(method)
        return await self._inner.request(method, path, **rest)

    def __getattr__(self, name: str) -> Any:
        """Return an attribute of the inner transport."""
        return getattr(self._inner, name)
