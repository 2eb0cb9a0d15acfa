"""The certificate of a server, replaced while the server runs.

A `ServingCertificate` has two kinds of TLS contexts: one that listens, and one with the present
certificate that every new connection is switched to. So open connections are not affected, and a
certificate that does not fit its key replaces nothing. Rejected: loading a new pair into the
listening context, which is left with the new certificate and the old key if the key does not fit.

`CertificateFiles` reads tls.crt and tls.key of a folder, as cert-manager and Secret volumes
provide them, and compares their contents every ten seconds. Rejected: file notifications, which on
some file systems miss a symlink that is replaced, a rename, or a write in place.
"""

import os
import re
import ssl
import tempfile
from base64 import b64decode
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from prometheus_client import CollectorRegistry, Counter, Gauge

from controller.clock import Clock
from controller.errors import ConfigurationError
from controller.health import Check, Failing
from controller.loggers import get_logger

POLL_SECONDS = 10.0
CERTIFICATE_FILE = "tls.crt"
KEY_FILE = "tls.key"

_CERTIFICATE_BLOCK = re.compile(
    rb"-----BEGIN CERTIFICATE-----(.+?)-----END CERTIFICATE-----", re.DOTALL
)
_VERSION_TAG = 0xA0
_UTC_TIME_TAG = 0x17

log = get_logger(__name__)


class CertificateMetrics:
    """The metrics of serving certificates; the first two have controller-runtime's names."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.reads = Counter(
            "certwatcher_read_certificate_total",
            "How often a serving certificate was read.",
            registry=registry,
        )
        self.errors = Counter(
            "certwatcher_read_certificate_errors_total",
            "How often a serving certificate could not be used.",
            registry=registry,
        )
        self.expiry = Gauge(
            "controller_certificate_expiry_timestamp_seconds",
            "When the serving certificate ceases to be valid, in Unix time.",
            ["server"],
            registry=registry,
        )


class ServingCertificate:
    """The certificate that a server presents to new connections.

    A pair is a certificate and its key.

    Args:
        server: the server's name for messages and metrics: `webhook`, `metrics`.
        metrics: counts reads and failures.
    """

    def __init__(self, server: str, metrics: CertificateMetrics) -> None:
        self._server = server
        self._metrics = metrics
        # The context and the PEM texts of the present certificate; None before the first one.
        self._current: ssl.SSLContext | None = None
        self._pair: tuple[bytes, bytes] | None = None
        self._failure = "no certificate yet"
        self.listening_context = _create_server_context()
        """The TLS context that the server listens with; usable before there is a certificate."""
        # Called for every handshake, also if the client sends no server name.
        self.listening_context.sni_callback = self._switch_context

    def replace(self, certificate: bytes, key: bytes) -> bool:
        """Present this pair to new connections; log a pair that cannot be used, and keep the old.

        Args:
            certificate: PEM, the server's certificate first.
            key: PEM, not encrypted.

        Returns:
            Whether the pair can be used; True also if it is the present pair.
        """
        if self._pair == (certificate, key):
            # Most polls of the files find the present pair again. If there was an unusable pair in
            # between, its failure is over; should that pair come back, it is logged again.
            self._failure = ""
            return True
        try:
            context = _create_server_context()
            with _create_temporary_path(certificate + b"\n" + key) as path:
                # Without a password ssl would ask for that of an encrypted key on the terminal.
                context.load_cert_chain(path, password="")
            expiry = parse_expiry(certificate)
        except (ssl.SSLError, ValueError) as error:
            reason = getattr(error, "reason", None) or str(error)
            self.report_failure(f"the certificate and key cannot be used: {reason}")
            return False
        self._metrics.reads.inc()
        self._metrics.expiry.labels(self._server).set(expiry.timestamp())
        self._current, self._pair, self._failure = context, (certificate, key), ""
        log.info("Updated current TLS certificate", server=self._server)
        return True

    def report_failure(self, why: str) -> None:
        """Count a certificate that could not be read or used; the last good one stays in use.

        Args:
            why: the reason. It is logged when it differs from the last one, not at each poll.
        """
        self._metrics.reads.inc()
        self._metrics.errors.inc()
        if self._failure != why:
            log.error("Cannot read the serving certificate", server=self._server, error=why)
        self._failure = why

    def create_check(self) -> Check:
        """Return a readiness check that passes once there is a certificate."""

        def find_failure() -> Failing | None:
            """Return a failure until there is a certificate."""
            if self._current is not None:
                return None
            return Failing(f"the {self._server} server has no certificate", self._failure)

        return Check(f"{self._server}-certificate", find_failure)

    def _switch_context(
        self, connection: ssl.SSLObject | ssl.SSLSocket, _name: str | None, _: ssl.SSLContext
    ) -> int | None:
        """Use the present certificate for a new connection.

        Returns:
            None to go on with the handshake; a TLS alert, which ends it, if there is no
            certificate yet (the protocol of `SSLContext.sni_callback`).
        """
        if self._current is None:
            return ssl.ALERT_DESCRIPTION_INTERNAL_ERROR
        connection.context = self._current
        return None


class CertificateFiles:
    """Reads tls.crt and tls.key of a folder into a serving certificate, again when they change.

    Args:
        folder: where the files are.
        serving: gets their contents.
        clock: for the delays.
    """

    def __init__(self, folder: Path, serving: ServingCertificate, clock: Clock) -> None:
        self._folder = folder
        self._serving = serving
        self._clock = clock

    def start(self) -> None:
        """Read the files for the first time.

        Raises:
            ConfigurationError: there are no files that can be used.
        """
        if not self._read_certificate():
            raise ConfigurationError(
                f"{self._folder}: no usable {CERTIFICATE_FILE} and {KEY_FILE} there: the log says"
                " why"
            )

    async def run(self) -> None:
        """Read the files every ten seconds until cancelled."""
        while True:
            await self._clock.sleep(POLL_SECONDS)
            self._read_certificate()

    def _read_certificate(self) -> bool:
        """Read both files into the serving certificate; return whether they can be used."""
        try:
            certificate = (self._folder / CERTIFICATE_FILE).read_bytes()
            key = (self._folder / KEY_FILE).read_bytes()
        except OSError as error:
            self._serving.report_failure(f"{error.filename}: {error.strerror}")
            return False
        return self._serving.replace(certificate, key)


def parse_expiry(pem: bytes) -> datetime:
    """Return the notAfter time of the first certificate in `pem`.

    The standard library returns that time only for a certificate that a peer has sent. The package
    `cryptography` would take 8 MiB of memory, also in a controller that signs no certificates. So
    this function skips the fields before the time itself (RFC 5280, section 4.1). OpenSSL has
    checked the certificate before.

    Raises:
        ValueError: `pem` has no certificate, or one that cannot be read.
    """
    block = _CERTIFICATE_BLOCK.search(pem)
    if block is None:
        raise ValueError("there is no certificate in it")
    try:
        _, certificate, _ = _split_der_element(b64decode(block[1]))
        _, signed, _ = _split_der_element(certificate)
        # Before the validity come the version, which is optional, and then serial number,
        # signature and issuer. The first of these elements is read here.
        tag, _, rest = _split_der_element(signed)
        elements_to_skip = 3 if tag == _VERSION_TAG else 2
        for _ in range(elements_to_skip):
            _, _, rest = _split_der_element(rest)
        _, validity, _ = _split_der_element(rest)
        _, _, rest = _split_der_element(validity)  # after notBefore comes notAfter
        tag, contents, _ = _split_der_element(rest)
    except IndexError as error:
        raise ValueError("the certificate is cut short") from error
    timestamp = contents.decode("ascii")
    if tag == _UTC_TIME_TAG:
        # Years have two digits: 50 to 99 are 1950 to 1999 (RFC 5280, section 4.1.2.5.1).
        timestamp = ("20" if timestamp < "50" else "19") + timestamp
    return datetime.strptime(timestamp, "%Y%m%d%H%M%SZ").replace(tzinfo=UTC)


def _split_der_element(der: bytes) -> tuple[int, bytes, bytes]:
    """Return tag and content of the first element, and the bytes after the element.

    Raises:
        IndexError: the bytes end before the element does.
    """
    length, start = der[1], 2
    if length & 0x80:  # the low bits count the bytes of the length, which follow (X.690, 8.1.3.5)
        start += length & 0x7F
        length = int.from_bytes(der[2:start])
    if len(der) < start + length:
        raise IndexError(length)
    return der[0], der[start : start + length], der[start + length :]


def _create_server_context() -> ssl.SSLContext:
    """Return a TLS context for a server, without a certificate, from TLS 1.2 on."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context


@contextmanager
def _create_temporary_path(secret: bytes) -> Iterator[str]:
    """Return a path at which `secret` can be read inside the context: ssl reads only files.

    The file is in memory where the system can do that, as the root file system may be read-only.
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
