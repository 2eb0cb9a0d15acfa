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
from controller.httpserver import listening
from controller.jobs import run_in_background
from controller.loggers import get_logger
from controller.pages import Bind
from controller.transport import Transport
from controller.webhooks.selfsigned import SelfSignedCertificate
from reconcilers.ui.feed import Feed
from reconcilers.ui.server import application, token_guard
from reconcilers.ui.watched import PageInformers

log = get_logger(__name__)

NAMES = ("localhost", "127.0.0.1")
"""Of the certificate that is made up where none is given."""
WHAT = "the page"
DRAIN_SECONDS = 0.1
"""0 would mean for ever."""


@asynccontextmanager
async def local_page(
    transport: Transport, clock: Clock, bind: Bind, watched: PageInformers | None = None
) -> AsyncIterator[str]:
    """Serve the page by plain HTTP on this machine inside the context, which returns its URL.

    The URL has a token that is made up each time: other people's programs on this machine reach
    the port, too, and would read with the rights of the user who started this.

    Args:
        transport: the API server; what it may read is shown.
        clock: the time.
        bind: where to listen; a loopback address.
        watched: what is shown; None for all that the API server has.

    Raises:
        ConfigurationError: the address cannot be listened on, or is not this machine's own.
    """
    check_loopback(bind)
    watched = watched or PageInformers.over(transport, clock)
    feed, token = Feed(watched, clock), secrets.token_urlsafe(24)
    app = application(feed, token_guard(token), clock)
    tasks = [informer.run for informer in (*watched.kinds, watched.events)]
    async with (
        run_in_background([*tasks, *watched.others_run, feed.run]),
        _listening(app, bind) as port,
    ):
        host = f"[{bind.host}]" if ":" in bind.host else bind.host
        yield f"http://{host}:{port}/#token={token}"


def _listening(
    app: web.Application, bind: Bind, tls: ssl.SSLContext | None = None
) -> AbstractAsyncContextManager[int]:
    """Listen, and wait hardly at all in the end: streams do not end by themselves."""
    return listening(app, bind, WHAT, tls=tls, drain_seconds=DRAIN_SECONDS, cancel_abandoned=True)


def check_loopback(bind: Bind) -> None:
    """Raise unless an address is this machine's own.

    Raises:
        ConfigurationError: other machines reach it.
    """
    if not _is_loopback(bind.host):
        raise ConfigurationError(
            f"{bind.host or 'all addresses'}: this page is plain HTTP, so it is served on loopback"
            " addresses only; `butler-ipam run --ui-bind-address` serves it to others, by HTTPS"
        )


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


class ServedPage:
    """The page beside the controllers: by HTTPS, to whom the API server and RBAC let in.

    Args:
        watched: informers; the manager runs those of the four kinds.
        transport: the API server, which reviews access.
        clock: the time.
        bind: where to listen.
        cert_dir: folder with tls.crt and tls.key; empty for a certificate that no client verifies.
    """

    def __init__(
        self, watched: PageInformers, transport: Transport, clock: Clock, bind: Bind, cert_dir: str
    ) -> None:
        self._clock, self._bind, self._cert_dir = clock, bind, cert_dir
        self._watched = watched
        self._feed = Feed(watched, clock)
        self._reviewer = AccessReviewer(transport, clock)
        # In a registry of its own: the manager's has the series of its own certificates already.
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
            update = SelfSignedCertificate(self._serving, self._clock, NAMES).run
        app = application(self._feed, self._reviewer.guard, self._clock)
        tls = self._serving.listening_context
        async with (
            run_in_background([update, self._watched.events.run, *self._watched.others_run]),
            _listening(app, self._bind, tls) as port,
        ):
            log.info(
                "Serving the page of addresses", **{"ui-address": f"{self._bind.host}:{port}"}
            )
            await self._feed.run()
