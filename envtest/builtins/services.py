"""The rules of Services: defaults, validation, cluster addresses and node ports.

Validation covers common mistakes and fields on which controllers depend: types, ports, used
addresses, the class of a load balancer and the addresses in its status. Texts are those of
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
    build_duplicate_error,
    build_forbidden_error,
    build_invalid_error,
    build_not_supported_error,
    build_required_error,
)
from envtest.schema.names import find_label_errors, find_qualified_name_errors
from envtest.server import failures, objectmeta
from envtest.server.objectmeta import Body
from envtest.storage import Store

NODE_PORTS: Final = range(30000, 32768)
_TYPES: Final = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")
_PROTOCOLS: Final = ("SCTP", "TCP", "UDP")
_IP: Final = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"
# The types that have node ports.
_WITH_NODE_PORTS: Final = frozenset({"LoadBalancer", "NodePort"})
# Fields that a Service loses with the type LoadBalancer, if the client did not change them.
_LOAD_BALANCER_FIELDS: Final = ("allocateLoadBalancerNodePorts", "loadBalancerClass")


class ServiceRules(BuiltinRules):
    """Services. Used addresses and ports are read from the stored services."""

    def __init__(self, store: Store, network: IPv4Network) -> None:
        super().__init__("", "v1", "Service", has_status=True)
        self._store = store
        self._network = network

    @override
    def set_defaults(self, body: Body) -> None:
        """Set the defaults of the spec and of a load balancer's addresses in the status."""
        spec = body.setdefault("spec", {})
        spec.setdefault("sessionAffinity", "None")
        spec.setdefault("type", "ClusterIP")
        for port in spec.get("ports", ()):
            port.setdefault("protocol", "TCP")
            if port.get("targetPort") in (None, 0, ""):
                # Clients in Go encode an unset targetPort as 0.
                port["targetPort"] = port.get("port")
        if spec["type"] in _WITH_NODE_PORTS:
            spec.setdefault("externalTrafficPolicy", "Cluster")
        if spec["type"] == "LoadBalancer":
            spec.setdefault("allocateLoadBalancerNodePorts", True)
            for ingress in body.get("status", {}).get("loadBalancer", {}).get("ingress", ()):
                if ingress.get("ip"):
                    ingress.setdefault("ipMode", "VIP")
        if spec["type"] != "ExternalName":
            spec.setdefault("internalTrafficPolicy", "Cluster")

    @override
    def build_first_status(self) -> dict[str, Any]:
        return {"status": {"loadBalancer": {}}}

    @override
    def prepare_create(self, body: Body) -> None:
        """Set the first status, and the addresses and node ports that the service lacks."""
        super().prepare_create(body)
        self._allocate_addresses_and_ports(body)

    @override
    def prepare_update(self, body: Body, old: Body) -> None:
        """Keep addresses and node ports that the client left out; allocate missing ones.

        Node ports, and fields of the former type, are dropped if the new type does not have them.
        """
        super().prepare_update(body, old)
        spec, old_spec = body["spec"], old.get("spec", {})
        # A Service of type ExternalName has no cluster address.
        if spec["type"] != "ExternalName" and old_spec.get("type") != "ExternalName":
            for name in ("clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"):
                if name in old_spec:
                    spec.setdefault(name, old_spec[name])
        if spec["type"] in _WITH_NODE_PORTS and old_spec.get("type") in _WITH_NODE_PORTS:
            ports = {(p["port"], p.get("protocol")): p for p in old_spec.get("ports", ())}
            for port in spec.get("ports", ()):
                old_port = ports.get((port.get("port"), port.get("protocol")), {})
                if "nodePort" in old_port:
                    port.setdefault("nodePort", old_port["nodePort"])
        elif spec["type"] == "ClusterIP":
            for port in spec.get("ports", ()):
                port.pop("nodePort", None)
        _drop_unneeded_fields(body, old_spec)
        self._allocate_addresses_and_ports(body)

    @override
    def find_update_errors(self, body: Body, old: Body, subresource: str) -> list[FieldError]:
        """Return the errors of an update; a write to the status is checked for its addresses."""
        if subresource != "status":
            return super().find_update_errors(body, old, subresource)
        problems = objectmeta.find_change_errors(body["metadata"], old["metadata"])
        return [*problems, *_validate_status(body)]

    def _allocate_addresses_and_ports(self, body: Body) -> None:
        """Set the cluster addresses and node ports that a service lacks, in place.

        Raises:
            StatusError: no address or no node port is left, in the words of the real server.
        """
        spec = body["spec"]
        # An ExternalName Service stands for a DNS name, and has neither addresses nor node ports.
        if spec["type"] == "ExternalName":
            return
        used_addresses, used_ports = self._collect_used_addresses_and_ports(body)
        if not spec.get("clusterIP"):
            hosts = (str(host) for host in self._network.hosts())
            address = next((host for host in hosts if host not in used_addresses), None)
            if address is None:
                raise failures.build_internal_error(
                    "failed to allocate a serviceIP: range is full"
                )
            spec["clusterIP"] = address
        spec.setdefault("clusterIPs", [spec["clusterIP"]])
        # As in the real server, a headless service without selector accepts both families.
        accepts_both_families = spec["clusterIP"] == "None" and not spec.get("selector")
        spec.setdefault("ipFamilies", ["IPv4", "IPv6"] if accepts_both_families else ["IPv4"])
        spec.setdefault(
            "ipFamilyPolicy", "RequireDualStack" if accepts_both_families else "SingleStack"
        )
        if spec["type"] not in _WITH_NODE_PORTS:
            return
        if spec["type"] == "LoadBalancer" and not spec.get("allocateLoadBalancerNodePorts", True):
            return
        for port in spec.get("ports", ()):
            if not port.get("nodePort"):
                node_port = next((port for port in NODE_PORTS if port not in used_ports), None)
                if node_port is None:
                    raise failures.build_internal_error(
                        "failed to allocate a nodePort: range is full"
                    )
                port["nodePort"] = node_port
            used_ports.add(port["nodePort"])

    def _collect_used_addresses_and_ports(self, body: Body) -> tuple[set[str], set[int]]:
        """Return the cluster addresses and node ports of other services."""
        # The first address is that of the Service `kubernetes`, which is created later.
        addresses = {str(next(self._network.hosts()))}
        ports: set[int] = set()
        table = self._store.get_table("services")
        meta = body["metadata"]
        own_key = f"{meta.get('namespace')}/{meta.get('name')}"
        for key in table.iterate_keys():
            stored = table.get(key)
            if stored is None or key == own_key:
                continue
            spec = msgspec.json.decode(stored.body).get("spec", {})
            addresses.update(spec.get("clusterIPs", ()))
            ports.update(p["nodePort"] for p in spec.get("ports", ()) if p.get("nodePort"))
        return addresses, ports

    @override
    def find_content_errors(self, body: Body, old: Body | None) -> list[FieldError]:
        """Return the errors of a service; node ports are checked only if all else is valid."""
        spec, old_spec = body.get("spec", {}), (old or {}).get("spec", {})
        problems = list(_validate_ports(spec))
        if spec.get("type") not in _TYPES:
            problems.append(build_not_supported_error("spec.type", spec.get("type", ""), _TYPES))
        problems += self._validate_address(body, old_spec)
        problems += _validate_class(spec, old_spec)
        return problems or list(self._validate_node_ports(body, old_spec))

    def _validate_address(self, body: Body, old_spec: Body) -> Iterator[FieldError]:
        """Yield the error of a requested cluster address that is invalid, used or changed."""
        spec, old_address = body.get("spec", {}), old_spec.get("clusterIP", "")
        address = spec.get("clusterIP", "")
        if old_spec:
            if old_address and address != old_address and spec.get("type") != "ExternalName":
                yield build_invalid_error(
                    "spec.clusterIPs[0]", [address], "may not change once set"
                )
        elif address not in {"", "None"}:
            used_addresses, _ = self._collect_used_addresses_and_ports(body)
            if not _is_address(address):
                yield build_invalid_error("spec.clusterIPs[0]", address, _IP)
            elif ip_address(address) not in self._network:
                detail = f"failed to allocate IP {address}: "
                detail += "the provided network does not match the current range"
                yield build_invalid_error("spec.clusterIPs", [address], detail)
            elif address in used_addresses:
                detail = f"failed to allocate IP {address}: provided IP is already allocated"
                yield build_invalid_error("spec.clusterIPs", [address], detail)

    def _validate_node_ports(self, body: Body, old_spec: Body) -> Iterator[FieldError]:
        """Yield an error for each new node port that is out of range or used."""
        own_ports = {port.get("nodePort") for port in old_spec.get("ports", ())}
        _, used_ports = self._collect_used_addresses_and_ports(body)
        for index, port in enumerate(body.get("spec", {}).get("ports", ())):
            number, path = port.get("nodePort"), f"spec.ports[{index}].nodePort"
            # The service has this port already, or none at all.
            if not number or number in own_ports:
                continue
            if number not in NODE_PORTS:
                low, high = NODE_PORTS[0], NODE_PORTS[-1]
                detail = "provided port is not in the valid range. "
                yield build_invalid_error(
                    path, number, f"{detail}The range of valid ports is {low}-{high}"
                )
            elif number in used_ports:
                yield build_invalid_error(path, number, "provided port is already allocated")


def _validate_ports(spec: Body) -> Iterator[FieldError]:
    """Yield the errors of a service's ports, or of its externalName."""
    ports, service_type = spec.get("ports", ()), spec.get("type")
    if service_type == "ExternalName" and not spec.get("externalName"):
        yield build_required_error("spec.externalName")
    if not ports and spec.get("clusterIP") != "None" and service_type != "ExternalName":
        yield build_required_error("spec.ports")
    names: set[str] = set()
    for index, port in enumerate(ports):
        path, name, number = f"spec.ports[{index}]", port.get("name", ""), port.get("port", 0)
        if len(ports) > 1 and not name:
            yield build_required_error(f"{path}.name")
        for error in find_label_errors(name) if name else ():
            yield build_invalid_error(f"{path}.name", name, error)
        if name in names:
            yield build_duplicate_error(f"{path}.name", name)
        names |= {name} - {""}
        if not 1 <= number <= 65535:
            yield build_invalid_error(
                f"{path}.port", number, "must be between 1 and 65535, inclusive"
            )
        if port.get("protocol") not in _PROTOCOLS:
            yield build_not_supported_error(
                f"{path}.protocol", port.get("protocol", ""), _PROTOCOLS
            )


def _validate_class(spec: Body, old_spec: Body) -> Iterator[FieldError]:
    """Yield the errors of loadBalancerClass, which only the type LoadBalancer may have."""
    path, load_balancer_class = "spec.loadBalancerClass", spec.get("loadBalancerClass")
    if spec.get("type") != "LoadBalancer":
        if load_balancer_class is not None:
            yield build_forbidden_error(path, "may only be used when `type` is 'LoadBalancer'")
        return
    # The class may be chosen when the Service becomes a LoadBalancer, and not later.
    was_load_balancer = old_spec.get("type") == "LoadBalancer"
    if was_load_balancer and old_spec.get("loadBalancerClass") != load_balancer_class:
        yield build_invalid_error(path, load_balancer_class, "may not change once set")
    if load_balancer_class is not None:
        for error in find_qualified_name_errors(load_balancer_class):
            yield build_invalid_error(path, load_balancer_class, error)


def _validate_status(body: Body) -> Iterator[FieldError]:
    """Yield the errors of the addresses in the status of a service."""
    path = "status.loadBalancer.ingress"
    ingresses = (body.get("status", {}).get("loadBalancer") or {}).get("ingress") or ()
    if ingresses and body.get("spec", {}).get("type") != "LoadBalancer":
        yield build_forbidden_error(path, "may only be used when `spec.type` is 'LoadBalancer'")
        return
    for index, ingress in enumerate(ingresses):
        address = ingress.get("ip") or ""
        if address and not _is_address(address):
            yield build_invalid_error(f"{path}[{index}].ip", address, _IP)


def _is_address(address: str) -> bool:
    """Return whether a string is an IP address without a zone."""
    try:
        ip_address(address)
    except ValueError:
        return False
    return "%" not in address


def _drop_unneeded_fields(body: Body, old_spec: Body) -> None:
    """Drop fields that a service does not need after its type was changed, in place.

    As dropTypeDependentFields does (pkg/registry/core/service/strategy.go): an unchanged field is
    dropped, and a changed one stays, so that validation refuses it. With the type LoadBalancer a
    service also loses the addresses in its status.
    """
    spec, service_type = body["spec"], body["spec"]["type"]
    unused: list[str] = []
    if old_spec.get("type") == "LoadBalancer" and service_type != "LoadBalancer":
        unused += _LOAD_BALANCER_FIELDS
        body["status"] = {**body.get("status", {}), "loadBalancer": {}}
    if old_spec.get("type") in _WITH_NODE_PORTS and service_type not in _WITH_NODE_PORTS:
        unused.append("externalTrafficPolicy")
    for name in unused:
        if spec.get(name) == old_spec.get(name):
            spec.pop(name, None)
