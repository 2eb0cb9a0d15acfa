"""The page of addresses beside the controllers; loaded only where it is served."""

from collections.abc import Collection

from controller.manager import Manager
from controller.pages import Bind
from controller.transport import Transport
from reconcilers.ui.serving import ServedPage
from reconcilers.ui.watched import PageInformers, events_of
from reconcilers.wiring.shared import SharedInformers


def add_page(
    manager: Manager,
    transport: Transport,
    bind: Bind,
    cert_dir: str,
    integrations: Collection[str] = (),
) -> ServedPage:
    """Add the page of addresses to what `assemble` has put on a manager; each replica serves it.

    Args:
        manager: what was assembled; its caches are what the page shows.
        transport: the API server, which reviews who may see the page.
        bind: where to listen.
        cert_dir: folder with tls.crt and tls.key; empty for a certificate that no client verifies.
        integrations: those that are on; their pools are shown, by watches of the page's own, as
            theirs run in one replica only.
    """
    informers = SharedInformers.from_manager(manager)
    events = events_of(transport, manager.clock)
    others = None
    if integrations:
        from reconcilers.integrations.live import LiveViews  # noqa: PLC0415 - most run without

        others = LiveViews(transport, manager.clock, informers.pools.cache, platforms=integrations)
    watched = PageInformers(
        informers.pools,
        informers.allocations,
        clusters=informers.clusters,
        providers=informers.providers,
        events=events,
        others=others,
    )
    page = ServedPage(watched, transport, clock=manager.clock, bind=bind, cert_dir=cert_dir)
    manager.add_service("ui", page.run, leader_only=False)
    return page
