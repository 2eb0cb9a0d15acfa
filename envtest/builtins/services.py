"""Services: defaults, cluster addresses and node ports. Nothing balances load here.

What is checked is what a person gets wrong or a controller depends on: types, ports, addresses
that are taken, the class of a load balancer and the addresses in its status. Texts are those of
k8s.io/kubernetes/pkg/apis/core/validation/validation.go.
"""

from collections.abc import Iterator
from ipaddress import IPv4Network, ip_address
from typing import Any, Final

import msgspec
from typing_extensions import override

from envtest.builtins.rules import BuiltinRules
from envtest.schema.errors import (
    FieldError,
    build_required_error,
    duplicate,
    forbidden,
    invalid,
    not_supported,
)
from envtest.schema.names import label_errors, qualified_name_errors
from envtest.server import objectmeta
from envtest.server.objectmeta import Body
from envtest.storage import Store

NODE_PORTS: Final = range(30000, 32768)
_TYPES: Final = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")
_PROTOCOLS: Final = ("SCTP", "TCP", "UDP")
_IP: Final = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"
# Where a type exposes node ports.
_OUTSIDE: Final = frozenset({"LoadBalancer", "NodePort"})
# What goes with a type that it needs, if the client did not touch it.
_OF_LOAD_BALANCERS: Final = ("allocateLoadBalancerNodePorts", "loadBalancerClass")


class ServiceRules(BuiltinRules):
    """Services of one cluster; taken addresses and ports are read from the services themselves."""

    def __init__(self, store: Store, network: IPv4Network) -> None:
        super().__init__("", "v1", "Service", has_status=True)
        self._store = store
        self._network = network

    @override
    def default(self, body: Body) -> None:
        spec = body.setdefault("spec", {})
        spec.setdefault("sessionAffinity", "None")
        spec.setdefault("type", "ClusterIP")
        for port in spec.get("ports", ()):
            port.setdefault("protocol", "TCP")
            if port.get("targetPort") in (None, 0, ""):
                # Clients in Go write the zero of what they leave out.
                port["targetPort"] = port.get("port")
        if spec["type"] in _OUTSIDE:
            spec.setdefault("externalTrafficPolicy", "Cluster")
        if spec["type"] == "LoadBalancer":
            spec.setdefault("allocateLoadBalancerNodePorts", True)
            for ingress in body.get("status", {}).get("loadBalancer", {}).get("ingress", ()):
                if ingress.get("ip"):
                    ingress.setdefault("ipMode", "VIP")
        if spec["type"] != "ExternalName":
            spec.setdefault("internalTrafficPolicy", "Cluster")

    @override
    def first_status(self) -> dict[str, Any]:
        return {"status": {"loadBalancer": {}}}

    @override
    def prepare_create(self, body: Body) -> None:
        super().prepare_create(body)
        self._allocate(body)

    @override
    def prepare_update(self, body: Body, old: Body) -> None:
        super().prepare_update(body, old)
        spec, before = body["spec"], old.get("spec", {})
        if spec["type"] != "ExternalName" and before.get("type") != "ExternalName":
            for name in ("clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"):
                if name in before:
                    spec.setdefault(name, before[name])
        if spec["type"] in _OUTSIDE and before.get("type") in _OUTSIDE:
            ports = {(p["port"], p.get("protocol")): p for p in before.get("ports", ())}
            for port in spec.get("ports", ()):
                known = ports.get((port.get("port"), port.get("protocol")), {})
                if "nodePort" in known:
                    port.setdefault("nodePort", known["nodePort"])
        elif spec["type"] == "ClusterIP":
            for port in spec.get("ports", ()):
                port.pop("nodePort", None)
        _drop_unused(body, before)
        self._allocate(body)

    @override
    def check_update(self, body: Body, old: Body, subresource: str) -> list[FieldError]:
        if subresource != "status":
            return super().check_update(body, old, subresource)
        problems = objectmeta.check_change(body["metadata"], old["metadata"])
        return [*problems, *_status_problems(body)]

    def _allocate(self, body: Body) -> None:
        """Allocate the cluster addresses and node ports that a service lacks."""
        spec = body["spec"]
        if spec["type"] == "ExternalName":
            return
        addresses, ports = self._collect_used(body)
        if not spec.get("clusterIP"):
            hosts = (str(host) for host in self._network.hosts())
            spec["clusterIP"] = next(host for host in hosts if host not in addresses)
        spec.setdefault("clusterIPs", [spec["clusterIP"]])
        # Who has neither an address nor a selector may be reached by either family.
        either = spec["clusterIP"] == "None" and not spec.get("selector")
        spec.setdefault("ipFamilies", ["IPv4", "IPv6"] if either else ["IPv4"])
        spec.setdefault("ipFamilyPolicy", "RequireDualStack" if either else "SingleStack")
        if spec["type"] not in _OUTSIDE:
            return
        if spec["type"] == "LoadBalancer" and not spec.get("allocateLoadBalancerNodePorts", True):
            return
        for port in spec.get("ports", ()):
            if not port.get("nodePort"):
                port["nodePort"] = next(number for number in NODE_PORTS if number not in ports)
            ports.add(port["nodePort"])

    def _collect_used(self, body: Body) -> tuple[set[str], set[int]]:
        """Return the addresses and node ports that other services hold."""
        addresses = {str(next(self._network.hosts()))}
        ports: set[int] = set()
        table = self._store.table("services")
        meta = body["metadata"]
        own = f"{meta.get('namespace')}/{meta.get('name')}"
        for key in table.scan():
            stored = table.get(key)
            if stored is None or key == own:
                continue
            spec = msgspec.json.decode(stored.body).get("spec", {})
            addresses.update(spec.get("clusterIPs", ()))
            ports.update(p["nodePort"] for p in spec.get("ports", ()) if p.get("nodePort"))
        return addresses, ports

    @override
    def check_content(self, body: Body, old: Body | None) -> list[FieldError]:
        spec, before = body.get("spec", {}), (old or {}).get("spec", {})
        problems = list(_port_problems(spec))
        if spec.get("type") not in _TYPES:
            problems.append(not_supported("spec.type", spec.get("type", ""), _TYPES))
        problems += self._address_problems(body, before)
        problems += _class_problems(spec, before)
        return problems or list(self._node_port_problems(body, before))

    def _address_problems(self, body: Body, before: Body) -> Iterator[FieldError]:
        """Yield why a service cannot have the cluster address that it names."""
        spec, old_address = body.get("spec", {}), before.get("clusterIP", "")
        address = spec.get("clusterIP", "")
        if before:
            if old_address and address != old_address and spec.get("type") != "ExternalName":
                yield invalid("spec.clusterIPs[0]", [address], "may not change once set")
        elif address not in {"", "None"}:
            if not _is_address(address):
                yield invalid("spec.clusterIPs[0]", address, _IP)
            elif ip_address(address) not in self._network:
                detail = f"failed to allocate IP {address}: "
                detail += "the provided network does not match the current range"
                yield invalid("spec.clusterIPs", [address], detail)
            elif address in self._collect_used(body)[0]:
                detail = f"failed to allocate IP {address}: provided IP is already allocated"
                yield invalid("spec.clusterIPs", [address], detail)

    def _node_port_problems(self, body: Body, before: Body) -> Iterator[FieldError]:
        """Yield node ports that a service names and cannot have; its own it keeps."""
        own = {port.get("nodePort") for port in before.get("ports", ())}
        used_ports = self._collect_used(body)[1]
        for at, port in enumerate(body.get("spec", {}).get("ports", ())):
            number, path = port.get("nodePort"), f"spec.ports[{at}].nodePort"
            if not number or number in own:
                continue
            if number not in NODE_PORTS:
                low, high = NODE_PORTS[0], NODE_PORTS[-1]
                detail = "provided port is not in the valid range. "
                yield invalid(path, number, f"{detail}The range of valid ports is {low}-{high}")
            elif number in used_ports:
                yield invalid(path, number, "provided port is already allocated")


def _port_problems(spec: Body) -> Iterator[FieldError]:
    """Yield the errors of a service's ports, or of a name that stands for them."""
    ports, kind = spec.get("ports", ()), spec.get("type")
    if kind == "ExternalName" and not spec.get("externalName"):
        yield build_required_error("spec.externalName")
    if not ports and spec.get("clusterIP") != "None" and kind != "ExternalName":
        yield build_required_error("spec.ports")
    names: set[str] = set()
    for at, port in enumerate(ports):
        path, name, number = f"spec.ports[{at}]", port.get("name", ""), port.get("port", 0)
        if len(ports) > 1 and not name:
            yield build_required_error(f"{path}.name")
        for error in label_errors(name) if name else ():
            yield invalid(f"{path}.name", name, error)
        if name in names:
            yield duplicate(f"{path}.name", name)
        names |= {name} - {""}
        if not 1 <= number <= 65535:
            yield invalid(f"{path}.port", number, "must be between 1 and 65535, inclusive")
        if port.get("protocol") not in _PROTOCOLS:
            yield not_supported(f"{path}.protocol", port.get("protocol", ""), _PROTOCOLS)


def _class_problems(spec: Body, before: Body) -> Iterator[FieldError]:
    """Yield the errors in the class of a service that is, or is not, load-balanced."""
    path, chosen = "spec.loadBalancerClass", spec.get("loadBalancerClass")
    if spec.get("type") != "LoadBalancer":
        if chosen is not None:
            yield forbidden(path, "may only be used when `type` is 'LoadBalancer'")
        return
    if before.get("type") == "LoadBalancer" and before.get("loadBalancerClass") != chosen:
        yield invalid(path, chosen, "may not change once set")
    for error in qualified_name_errors(chosen) if chosen is not None else ():
        yield invalid(path, chosen, error)


def _status_problems(body: Body) -> Iterator[FieldError]:
    """Yield the errors of the addresses in the status of a service."""
    path = "status.loadBalancer.ingress"
    ingresses = (body.get("status", {}).get("loadBalancer") or {}).get("ingress") or ()
    if ingresses and body.get("spec", {}).get("type") != "LoadBalancer":
        yield forbidden(path, "may only be used when `spec.type` is 'LoadBalancer'")
        return
    for at, ingress in enumerate(ingresses):
        address = ingress.get("ip") or ""
        if address and not _is_address(address):
            yield invalid(f"{path}[{at}].ip", address, _IP)


def _is_address(address: str) -> bool:
    try:
        ip_address(address)
    except ValueError:
        return False
    return "%" not in address


def _drop_unused(body: Body, before: Body) -> None:
    """Drop what a service does not need any more because its type was changed.

    As dropTypeDependentFields does (pkg/registry/core/service/strategy.go): a field goes if the
    client left it as it was; if not, it stays to be refused.
    """
    spec, kind = body["spec"], body["spec"]["type"]
    unused: list[str] = []
    if before.get("type") == "LoadBalancer" and kind != "LoadBalancer":
        unused += _OF_LOAD_BALANCERS
        body["status"] = {**body.get("status", {}), "loadBalancer": {}}
    if before.get("type") in _OUTSIDE and kind not in _OUTSIDE:
        unused.append("externalTrafficPolicy")
    for name in unused:
        if spec.get(name) == before.get(name):
            spec.pop(name, None)
