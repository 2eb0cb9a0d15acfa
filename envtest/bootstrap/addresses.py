"""An IPAddress for each address that a service has, made and removed with it.

As the allocator of kube-apiserver does (pkg/registry/core/service/ipallocator).
"""

from typing import Final

import msgspec

from envtest.bootstrap.writing import Body, Writer
from envtest.server.api import Api
from envtest.storage import Event, Stored

_PREFIX: Final = "ipaddress.kubernetes.io"


class _Spec(msgspec.Struct):
    addresses: list[str] = msgspec.field(name="clusterIPs", default_factory=list)


class _Service(msgspec.Struct):
    spec: _Spec = msgspec.field(default_factory=_Spec)


_decode = msgspec.json.Decoder(_Service).decode


class ServiceAddresses:
    """Keeps IPAddresses in step with services."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._writer = Writer(api)
        self._resource = self._writer.find("networking.k8s.io", "ipaddresses")
        self._services = api.table(self._writer.find("", "services"))

    def attach(self) -> None:
        """Make what is missing now, and from now on follow every service."""
        for key in self._services.scan():
            self._make(key, _addresses(self._services.get(key)))
        self._services.listeners.append(self._notice)

    def _notice(self, event: Event) -> None:
        """Follow one change of a service; most change no address."""
        before = _addresses(event.previous)
        now = set() if event.type == "DELETED" else _addresses(event.current)
        self._drop(before - now)
        self._make(event.current.key, now - before)

    def _make(self, service: str, addresses: set[str]) -> None:
        for address in sorted(addresses):
            body = _object(address, service)
            if self._writer.get(self._resource, body["metadata"]) is None:
                self._writer.create(self._resource, body)

    def _drop(self, addresses: set[str]) -> None:
        for address in sorted(addresses):
            live = self._writer.get(self._resource, {"name": address})
            if live is not None:
                self._writer.delete(self._resource, live)


def _addresses(stored: Stored | None) -> set[str]:
    """Return the addresses that a service has; one without any says None."""
    return set() if stored is None else {*_decode(stored.body).spec.addresses} - {"None"}


def _object(address: str, service: str) -> Body:
    namespace, _, name = service.partition("/")
    labels = {
        f"{_PREFIX}/ip-family": "IPv6" if ":" in address else "IPv4",
        f"{_PREFIX}/managed-by": "ipallocator.k8s.io",
    }
    parent = {"resource": "services", "namespace": namespace, "name": name}
    return {"metadata": {"name": address, "labels": labels}, "spec": {"parentRef": parent}}
