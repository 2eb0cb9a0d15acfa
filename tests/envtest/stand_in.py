"""A stand-in for etcd, kube-apiserver and others, as far as starting them goes.

Copied under the name of one of them it takes that one's flags, listens where they say, and answers
what envtest asks before it calls the process ready. Asked for its flags (`-h`) it names none. A
file NAME.json beside it says how it misbehaves: `exit` (a code, at once), `says` (on standard
error), `refusals` (how often it answers 500 before it is ready), `stubborn` (does not end when
asked), `taken` (how often its port is), `tells` (a pipe to write to when it is asked for the first
time), `content` (of its answers).
It notes its process id, its flags and the certificates that clients show in NAME.notes.
"""

import json
import os
import signal
import socket
import ssl
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

_SELF = Path(sys.argv[0])
_FLAGS = dict(flag.removeprefix("--").partition("=")[::2] for flag in sys.argv[1:])


def _note(**values: object) -> None:
    with _SELF.with_name(f"{_SELF.name}.notes").open("a", encoding="utf-8") as notes:
        notes.write(json.dumps(values) + "\n")


def _read_behaviour() -> dict[str, Any]:
    path = _SELF.with_name(f"{_SELF.name}.json")
    stored_calls: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    if stored_calls.get("taken"):
        path.write_text(json.dumps({**stored_calls, "taken": stored_calls["taken"] - 1}))
    return stored_calls


def _choose_address() -> tuple[str, int]:
    if _SELF.name == "etcd":
        parts = urlsplit(_FLAGS["listen-client-urls"])
        return str(parts.hostname), int(parts.port or 0)
    if _is_metallb():
        return "", int(_FLAGS["port"])
    return _FLAGS["bind-address"], int(_FLAGS["secure-port"])


def _is_metallb() -> bool:
    return _SELF.name in ("metallb-controller", "controller")


def _create_tls_context() -> ssl.SSLContext | None:
    if _SELF.name == "etcd" or _is_metallb():
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(_FLAGS["tls-cert-file"], _FLAGS["tls-private-key-file"])
    if "client-ca-file" in _FLAGS:
        context.load_verify_locations(_FLAGS["client-ca-file"])
        context.verify_mode = ssl.CERT_OPTIONAL
    return context


class _Handler(BaseHTTPRequestHandler):
    refusals = 0
    tells = ""
    content = b""

    def do_GET(self) -> None:
        connection = self.connection
        if isinstance(connection, ssl.SSLSocket):
            certificate: Any = connection.getpeercert() or {}
            names = {key: value for part in certificate.get("subject", ()) for key, value in part}
            _note(path=self.path, subject=names)
        if _Handler.tells:
            Path(_Handler.tells).write_text("asked")
            _Handler.tells = ""
        refused = _Handler.refusals > 0
        _Handler.refusals -= refused
        self.send_response(500 if refused else 200)
        self.send_header("Content-Length", str(len(_Handler.content)))
        self.end_headers()
        self.wfile.write(_Handler.content)

    # typing_extensions is out of reach of what runs without site-packages.
    def log_message(self, *values: object) -> None:  # type: ignore[explicit-override]
        """Say nothing."""


def main() -> None:
    """Run as the stand-in for the program whose name this file has."""
    if sys.argv[1:] == ["-h"]:
        return
    behaviour = _read_behaviour()
    _note(pid=os.getpid(), flags=_FLAGS)
    sys.stderr.write(behaviour.get("says", "") + "\n")
    if behaviour.get("taken") and _is_metallb():
        # It only notes that in its log, and goes on without.
        sys.stderr.write("listen tcp :7472: bind: address already in use\n")
        signal.pause()
    if behaviour.get("taken"):
        sys.exit("listen tcp 127.0.0.1: bind: address already in use")
    if "exit" in behaviour:
        sys.exit(behaviour["exit"])
    if behaviour.get("stubborn"):
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    _Handler.refusals = behaviour.get("refusals", 0)
    _Handler.tells = behaviour.get("tells", "")
    _Handler.content = behaviour.get("content", "").encode()
    try:
        if ":" in _choose_address()[0]:
            ThreadingHTTPServer.address_family = socket.AF_INET6
        server = ThreadingHTTPServer(_choose_address(), _Handler)
    except OSError as error:
        sys.exit(f"bind: {str(error.strerror).lower()}")
    tls = _create_tls_context()
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
