"""The page of addresses beside the controllers; loaded only where it is served."""

from collections.abc import Collection

from controller.manager import Manager
from controller.pages import Bind
from controller.transport import Transport
from reconcilers.ui.serving import ServedPage
from reconcilers.ui.watched import PageInformers, make_event_informer
from reconcilers.wiring.shared import SharedInformers


def add_page(
    manager: Manager,
    transport: Transport,
    bind: Bind,
    cert_dir: str,
    integrations: Collection[str] = (),
) -> ServedPage:
    """Add the page of addresses to a manager after `assemble`; each replica serves it.

    Args:
        manager: has the caches that the page shows.
        transport: a connection to the API server, which reviews who may see the page.
        bind: the address to listen on.
        cert_dir: folder with tls.crt and tls.key; empty for a certificate that no client verifies.
        integrations: the names of the integrations that are on. Their pools are shown from watches
            of the page, because the integrations' watches run in the leading replica only.

    Returns:
        The page, which runs with the manager.
    """
    informers = SharedInformers.from_manager(manager)
    events = make_event_informer(transport, manager.clock)
    others = None
    if integrations:
        # Imported here, because most installations have no integration.
        from reconcilers.integrations.live import LiveViews  # noqa: PLC0415

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
