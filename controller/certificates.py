"""The certificate that a server shows, replaced while it runs.

A `Holder` has one TLS context that listens and another one that new connections are handed to;
replacing the latter touches no connection that is open, and a pair that does not fit
together replaces nothing. `CertificateFiles` reads tls.crt and tls.key of a folder, as
cert-manager and Secret volumes provide them, and again when they change. The contents are
compared every ten seconds: that sees the symlink swap of a volume, a rename and a write in place
alike, where file notifications miss one or the other on some file systems.

Loading a changed pair into the listening context was rejected: where the key does not fit, the
context is left with the new certificate and the old key.
"""

import os
import ssl
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import structlog

from controller.clock import Clock
from controller.errors import ConfigurationError
from controller.health import Check, Failing
from controller.servingmetrics import CertificateSeries
from controller.validity import valid_until

POLL_SECONDS = 10.0
CERTIFICATE_FILE = "tls.crt"
KEY_FILE = "tls.key"

log = structlog.get_logger(__name__)


class Holder:
    """The certificate that is shown to new connections.

    Args:
        what: whose it is, for messages: `webhook`, `metrics`.
        series: counts readings.
    """

    def __init__(self, what: str, series: CertificateSeries) -> None:
        self._what = what
        self._series = series
        self._current: ssl.SSLContext | None = None
        self._pair: tuple[bytes, bytes] | None = None
        self._fault = "no certificate yet"
        self.listening = _server_context()
        """What a server listens with, before there is a certificate too."""
        # Asked for every handshake, also for one whose client names no server.
        self.listening.sni_callback = self._hand_over

    def show(self, certificate: bytes, key: bytes) -> bool:
        """Show this pair from now on; one that cannot be used is logged, and the old one stays.

        Args:
            certificate: PEM, the serving certificate first.
            key: PEM, without a password.

        Returns:
            Whether it is shown.
        """
        if self._pair == (certificate, key):
            return True
        try:
            context = _server_context()
            with _readable(certificate + b"\n" + key) as path:
                # With a password given, an encrypted key is an error, no question on a terminal.
                context.load_cert_chain(path, password="")
            until = valid_until(certificate)
        except (ssl.SSLError, ValueError) as error:
            reason = getattr(error, "reason", None) or str(error)
            self.failed(f"the certificate and key cannot be used: {reason}")
            return False
        self._series.reads.inc()
        self._series.expiry.labels(self._what).set(until.timestamp())
        self._current, self._pair, self._fault = context, (certificate, key), ""
        log.info("Updated current TLS certificate", server=self._what)
        return True

    def failed(self, why: str) -> None:
        """Note that there is nothing newer to show, and why; what is shown stays."""
        self._series.reads.inc()
        self._series.errors.inc()
        if self._fault != why:
            log.error("Cannot read the serving certificate", server=self._what, error=why)
        self._fault = why

    def check(self) -> Check:
        """Return a check that holds while there is a certificate to show."""

        def ask() -> Failing | None:
            if self._current is not None:
                return None
            return Failing(f"the {self._what} server has no certificate", self._fault)

        return Check(f"{self._what}-certificate", ask)

    def _hand_over(
        self, connection: ssl.SSLObject | ssl.SSLSocket, _name: str | None, _: ssl.SSLContext
    ) -> int | None:
        if self._current is None:
            return ssl.ALERT_DESCRIPTION_INTERNAL_ERROR
        connection.context = self._current
        return None


class CertificateFiles:
    """tls.crt and tls.key of a folder, shown by a holder, read again when they change.

    Args:
        folder: where they are.
        holder: shows them.
        clock: for the pauses.
    """

    def __init__(self, folder: Path, holder: Holder, clock: Clock) -> None:
        self._folder = folder
        self._holder = holder
        self._clock = clock

    def start(self) -> None:
        """Read the files for the first time.

        Raises:
            ConfigurationError: there are none that can be used.
        """
        if not self._read():
            raise ConfigurationError(
                f"{self._folder}: no usable {CERTIFICATE_FILE} and {KEY_FILE} there: the log says"
                " why"
            )

    async def run(self) -> None:
        """Look every ten seconds whether they have changed, until cancelled."""
        while True:
            await self._clock.sleep(POLL_SECONDS)
            self._read()

    def _read(self) -> bool:
        try:
            certificate = (self._folder / CERTIFICATE_FILE).read_bytes()
            key = (self._folder / KEY_FILE).read_bytes()
        except OSError as error:
            self._holder.failed(f"{error.filename}: {error.strerror}")
            return False
        return self._holder.show(certificate, key)


def _server_context() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context


@contextmanager
def _readable(secret: bytes) -> Iterator[str]:
    """Give a path at which `secret` can be read inside the context; ssl reads files only.

    It stays in memory where the system can do that: the root file system may be read-only.
    """
    if hasattr(os, "memfd_create"):
        handle = os.memfd_create("certificate")
        try:
            os.write(handle, secret)
            yield f"/proc/self/fd/{handle}"
        finally:
            os.close(handle)
        return
    handle, path = tempfile.mkstemp(prefix="certificate-")  # readable by its owner alone
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(secret)
        yield path
    finally:
        os.unlink(path)
