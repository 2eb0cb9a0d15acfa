"""What the running server says of itself, and keeps saying: its addresses, its life, its trust.

kube-apiserver looks after its own service every ten seconds, and renews its lease as often. Nobody
can take these objects away for longer than that.
"""

import socket
from asyncio import TimerHandle, get_running_loop
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import copy_context
from datetime import datetime
from ipaddress import ip_address
from typing import Final

from envtest.bootstrap import objects
from envtest.bootstrap.writing import Body, Writer
from envtest.server import clock
from envtest.server.api import Api
from envtest.server.clock import ServerClock

_SECONDS: Final = 10.0
# Addresses for documentation: nobody is asked, but a route to them tells this machine's own.
_ANYWHERE: Final = {4: "192.0.2.1", 6: "2001:db8::1"}


class Upkeep:
    """Keeps the objects by which one server is found."""

    def __init__(
        self, api: Api, *, service: str, address: str, port: int, client_authority: str
    ) -> None:
        """Take what there is to tell.

        Args:
            api: the state.
            service: the address of the server's own service.
            address: at which the server listens.
            port: at which it listens.
            client_authority: PEM of the authority whose client certificates count.
        """
        self._writer = Writer(api)
        self._service = objects.service(service, port)
        self._places = (
            ("", "endpoints", objects.endpoints(address, port)),
            ("discovery.k8s.io", "endpointslices", objects.endpoint_slice(address, port)),
            ("", "configmaps", objects.authentication(client_authority)),
        )
        self._host = socket.gethostname()

    def look(self) -> None:
        """Make what is missing, mend what is wrong, renew the lease."""
        for namespace in objects.namespaces():
            self._ensure("", "namespaces", namespace)
        self._tell_service()
        for group, plural, wanted in self._places:
            self._ensure(group, plural, wanted, mend=True)
        now = clock.now()
        self._ensure("", "configmaps", objects.token_tracking(now.strftime("%Y-%m-%d")))
        self._renew(now)

    def _ensure(self, group: str, plural: str, wanted: Body, *, mend: bool = False) -> None:
        """Make an object if it is not there; mend all that it should hold, if that is asked."""
        writer, resource = self._writer, self._writer.find(group, plural)
        live = writer.get(resource, wanted["metadata"])
        if live is None:
            writer.create(resource, wanted)
        elif mend:
            writer.update(resource, live, {**live, **wanted, "metadata": _labelled(live, wanted)})

    def _tell_service(self) -> None:
        """Keep the ports and the type of the server's service; the rest is everybody's."""
        writer, wanted = self._writer, self._service
        resource = writer.find("", "services")
        live = writer.get(resource, wanted["metadata"])
        if live is None:
            writer.create(resource, wanted)
            return
        spec = {**live["spec"], "ports": wanted["spec"]["ports"], "type": "ClusterIP"}
        writer.update(resource, live, {**live, "spec": spec})

    def _renew(self, now: datetime) -> None:
        """Say that this server is alive."""
        writer = self._writer
        resource = writer.find("coordination.k8s.io", "leases")
        wanted = objects.lease(self._host, now)
        live = writer.get(resource, wanted["metadata"])
        if live is None:
            writer.create(resource, wanted)
            return
        spec = {**live.get("spec", {}), "renewTime": wanted["spec"]["renewTime"]}
        meta = _labelled(live, wanted)
        writer.update(resource, live, {**live, "metadata": meta, "spec": spec})


@contextmanager
def kept_up(upkeep: Upkeep, ruling: ServerClock) -> Iterator[None]:
    """Look now, and again and again until the block ends.

    A timer and not a task: a task group would tie whoever starts a server to one task.

    Args:
        upkeep: what looks.
        ruling: the server's clock.
    """
    loop = get_running_loop()
    timer: TimerHandle

    def look() -> None:
        nonlocal timer
        timer = loop.call_later(_SECONDS, look)
        # A copy: whoever starts a server goes on by its own clock.
        copy_context().run(_look_by, ruling, upkeep)

    look()
    try:
        yield
    finally:
        timer.cancel()


def _look_by(ruling: ServerClock, upkeep: Upkeep) -> None:
    ruling.rule()
    upkeep.look()


def reachable(bound: str) -> str:
    """Return an address by which others reach a server.

    A server that listens on all addresses has that of the way out of this machine, if there is
    one. One that listens on the loopback has nothing else: kube-apiserver would then tell of
    an address at which it does not listen.

    Args:
        bound: the address that the server listens on.
    """
    address = ip_address(bound)
    if not address.is_unspecified:
        return bound
    family = socket.AF_INET if address.version == 4 else socket.AF_INET6
    with socket.socket(family, socket.SOCK_DGRAM) as way:
        try:
            way.connect((_ANYWHERE[address.version], 9))
        except OSError:
            return "127.0.0.1" if address.version == 4 else "::1"
        return str(way.getsockname()[0])


def _labelled(live: Body, wanted: Body) -> Body:
    """Return metadata with the labels that are missing or wrong."""
    labels = {**(live["metadata"].get("labels") or {}), **wanted["metadata"].get("labels", {})}
    return {**live["metadata"], **({"labels": labels} if labels else {})}
