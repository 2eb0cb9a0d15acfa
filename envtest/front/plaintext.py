"""Clients that speak HTTP where TLS is spoken: they are told so in a sentence they can read.

Go's server does that, too. To all others such a connection looks like one that was made, said
nothing and is at its end, so that nobody else has to know.
"""

import ssl
from typing import Any

from typing_extensions import override

SENTENCE = b"HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n"


class _Session(ssl.SSLObject):
    """One connection over memory."""

    outgoing: ssl.MemoryBIO
    _spoke_http = False

    @override
    def do_handshake(self) -> None:
        try:
            super().do_handshake()
        except ssl.SSLError as error:
            if error.reason != "HTTP_REQUEST":
                raise
            self._spoke_http = True
            self.outgoing.write(SENTENCE)

    @override
    def read(self, len: int = 1024, buffer: Any = None) -> Any:  # the library's own names
        return b"" if self._spoke_http else super().read(len, buffer)

    @override
    def unwrap(self) -> None:
        if not self._spoke_http:
            super().unwrap()

    @override
    def getpeercert(self, binary_form: bool = False) -> Any:  # as the library has it
        return None if self._spoke_http else super().getpeercert(binary_form)


class ServerContext(ssl.SSLContext):
    """The TLS of a server that answers those who forget it."""

    @override
    def wrap_bio(
        self, incoming: ssl.MemoryBIO, outgoing: ssl.MemoryBIO, *args: Any, **options: Any
    ) -> ssl.SSLObject:
        self.sslobject_class = _Session
        session = super().wrap_bio(incoming, outgoing, *args, **options)
        assert isinstance(session, _Session)
        session.outgoing = outgoing
        return session
