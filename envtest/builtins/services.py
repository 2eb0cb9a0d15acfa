"""Services: defaults, cluster addresses and node ports. Nobody balances load here."""

from ipaddress import IPv4Network, ip_address
from typing import Any

import msgspec
from typing_extensions import override

from envtest.builtins.loadbalancers import class_problems, status_problems
from envtest.builtins.rules import BuiltinRules
from envtest.builtins.serviceports import (
    NODE_PORTS,
    node_port_problems,
    port_problems,
    type_problems,
)
from envtest.schema.errors import FieldError, invalid, not_supported
from envtest.server import objectmeta
from envtest.server.objectmeta import Body
from envtest.storage import Store

_TYPES = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")
# Where a type exposes node ports.
_OUTSIDE = frozenset({"LoadBalancer", "NodePort"})
# What goes with a type that it needs, if the client did not touch it.
_OF_LOAD_BALANCERS = ("allocateLoadBalancerNodePorts", "loadBalancerClass")


class ServiceRules(BuiltinRules):
    """Services of one cluster; what is taken is read from the services themselves."""

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
        self._allocate(body, self._taken(body))

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
        self._allocate(body, self._taken(body))

    @override
    def check_update(self, body: Body, old: Body, subresource: str) -> list[FieldError]:
        if subresource != "status":
            return super().check_update(body, old, subresource)
        found = objectmeta.check_change(body["metadata"], old["metadata"])
        return [*found, *status_problems(body)]

    def _allocate(self, body: Body, taken: tuple[set[str], set[int]]) -> None:
        """Give the service the addresses and ports that it lacks."""
        spec = body["spec"]
        addresses, ports = taken
        if spec["type"] == "ExternalName":
            return
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
                port["nodePort"] = next(one for one in NODE_PORTS if one not in ports)
            ports.add(port["nodePort"])

    def _taken(self, body: Body) -> tuple[set[str], set[int]]:
        """Return what other services hold."""
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
        spec = body.get("spec", {})
        found = [*type_problems(spec), *port_problems(spec)]
        if spec.get("type") not in _TYPES:
            found.append(not_supported("spec.type", spec.get("type", ""), _TYPES))
        found += self._address_problems(body, old)
        before = (old or {}).get("spec", {})
        found += class_problems(spec, before)
        return found or list(node_port_problems(spec, before, self._taken(body)[1]))

    def _address_problems(self, body: Body, old: Body | None) -> list[FieldError]:
        """Judge a cluster address that the client chose."""
        spec = body.get("spec", {})
        address = spec.get("clusterIP", "")
        if old is not None:
            before = old.get("spec", {}).get("clusterIP", "")
            if before and address != before and spec.get("type") != "ExternalName":
                text = "may not change once set"
                return [invalid("spec.clusterIPs[0]", [address], text)]
            return []
        if address in {"", "None"}:
            return []
        return self._chosen_problems(address, body)

    def _chosen_problems(self, address: str, body: Body) -> list[FieldError]:
        try:
            inside = ip_address(address) in self._network
        except ValueError:
            text = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"
            return [invalid("spec.clusterIPs[0]", address, text)]
        if not inside:
            text = f"failed to allocate IP {address}: "
            text += "the provided network does not match the current range"
        elif address in self._taken(body)[0]:
            text = f"failed to allocate IP {address}: provided IP is already allocated"
        else:
            return []
        return [invalid("spec.clusterIPs", [address], text)]


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
