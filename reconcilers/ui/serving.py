"""Serving the page: on a person's own machine, and beside the controllers."""

import secrets
import ssl
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from ipaddress import ip_address
from pathlib import Path

from aiohttp import web
from prometheus_client import CollectorRegistry

from controller.accessreviews import AccessReviewer
from controller.certificates import CertificateFiles, CertificateMetrics, ServingCertificate
from controller.clock import Clock
from controller.errors import ConfigurationError
from controller.httpserver import serve_app
from controller.jobs import run_in_background
from controller.loggers import get_logger
from controller.pages import Bind
from controller.transport import Transport
from controller.webhooks.selfsigned import SelfSignedCertificate
from reconcilers.ui.feed import Feed
from reconcilers.ui.server import make_application, make_token_guard
from reconcilers.ui.watched import PageInformers

log = get_logger(__name__)

CERTIFICATE_NAMES = ("localhost", "127.0.0.1")
"""The names in the self-signed certificate, which is used if none is given."""
SERVER_NAME = "the page"
"""The server's name in error messages."""
DRAIN_SECONDS = 0.1
"""How long to wait for open streams at the end; 0 would mean for ever."""


@asynccontextmanager
async def serve_local_page(
    transport: Transport, clock: Clock, bind: Bind, watched: PageInformers | None = None
) -> AsyncIterator[str]:
    """Serve the page by plain HTTP on this machine during the context, and yield its URL.

    The URL has a random token, because programs of other users on this machine reach the port,
    too. Without the token, they could read with the rights of the user who serves the page.

    Args:
        transport: a connection to the API server, with the rights that decide what is shown.
        clock: the time.
        bind: the address to listen on; it has to be a loopback address.
        watched: the objects to show; None for all objects of the API server.

    Raises:
        ConfigurationError: the address cannot be listened on, or is not this machine's own.
    """
    check_loopback(bind)
    watched = watched or PageInformers.from_transport(transport, clock)
    feed, token = Feed(watched, clock), secrets.token_urlsafe(24)
    app = make_application(feed, make_token_guard(token), clock)
    tasks = [informer.run for informer in (*watched.kinds, watched.events)]
    async with (
        run_in_background([*tasks, *watched.other_pool_tasks, feed.run]),
        _listen(app, bind) as port,
    ):
        host = f"[{bind.host}]" if ":" in bind.host else bind.host
        yield f"http://{host}:{port}/#token={token}"


def _listen(
    app: web.Application, bind: Bind, tls: ssl.SSLContext | None = None
) -> AbstractAsyncContextManager[int]:
    """Return a context manager that serves an application and yields its port.

    At the end of the context, open streams get DRAIN_SECONDS, and then are cancelled: a stream of
    updates does not end by itself in that time.
    """
    return serve_app(
        app, bind, SERVER_NAME, tls=tls, drain_seconds=DRAIN_SECONDS, cancel_abandoned=True
    )


def check_loopback(bind: Bind) -> None:
    """Raise ConfigurationError unless an address is a loopback address.

    Raises:
        ConfigurationError: other machines could reach the address.
    """
    if not _is_loopback(bind.host):
        raise ConfigurationError(
            f"{bind.host or 'all addresses'}: this page is plain HTTP, so it is served on loopback"
            " addresses only; `butler-ipam run --ui-bind-address` serves it to others, by HTTPS"
        )


def _is_loopback(host: str) -> bool:
    """Return whether a host is a loopback address or `localhost`."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


class ServedPage:
    """The page beside the controllers, by HTTPS, for users whom RBAC of the API server allows it.

    Args:
        watched: the informers; the manager runs those of our four kinds.
        transport: a connection to the API server, which reviews access.
        clock: the time.
        bind: the address to listen on.
        cert_dir: folder with tls.crt and tls.key; empty for a certificate that no client verifies.
    """

    def __init__(
        self, watched: PageInformers, transport: Transport, clock: Clock, bind: Bind, cert_dir: str
    ) -> None:
        self._clock, self._bind, self._cert_dir = clock, bind, cert_dir
        self._watched = watched
        self._feed = Feed(watched, clock)
        self._reviewer = AccessReviewer(transport, clock)
        # A separate registry, because the manager's registry has series of the same names already.
        self._serving = ServingCertificate("ui", CertificateMetrics(CollectorRegistry()))

    async def run(self) -> None:
        """Serve until cancelled.

        Raises:
            ConfigurationError: the address cannot be listened on, or there is no certificate.
        """
        if self._cert_dir:
            files = CertificateFiles(Path(self._cert_dir), self._serving, self._clock)
            files.start()
            update = files.run
        else:
            update = SelfSignedCertificate(self._serving, self._clock, CERTIFICATE_NAMES).run
        app = make_application(self._feed, self._reviewer.guard, self._clock)
        tls = self._serving.listening_context
        async with (
            run_in_background([update, self._watched.events.run, *self._watched.other_pool_tasks]),
            _listen(app, self._bind, tls) as port,
        ):
            log.info(
                "Serving the page of addresses", **{"ui-address": f"{self._bind.host}:{port}"}
            )
            await self._feed.run()
