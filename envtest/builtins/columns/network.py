"""Columns of services, what stands behind them, and who may reach what."""

from typing import Any

from envtest.builtins.columns.cells import (
    AGE,
    NONE,
    TITLE,
    UNSET,
    Body,
    Entry,
    at,
    labels,
    selector,
    text,
    value,
    wide,
)

# How many addresses or ports a cell names before it counts the rest.
_MOST = 3


def _ingress(body: Body) -> str:
    found = value(body, "status.loadBalancer.ingress", ())
    return ",".join(sorted({one.get("ip") or one.get("hostname") or "" for one in found} - {""}))


def _cluster_address(body: Body) -> str:
    return str(next(iter(value(body, "spec.clusterIPs", ())), NONE))


def _external(body: Body) -> str:
    given = list(value(body, "spec.externalIPs", ()))
    match value(body, "spec.type"):
        case "LoadBalancer":
            return ",".join([one for one in (_ingress(body),) if one] + given) or "<pending>"
        case "ExternalName":
            return str(value(body, "spec.externalName"))
        case _:
            return ",".join(given) or NONE


def _ports(body: Body) -> str:
    shown = []
    for port in value(body, "spec.ports", ()):
        node = f":{port['nodePort']}" if port.get("nodePort") else ""
        shown.append(f"{port['port']}{node}/{port.get('protocol', 'TCP')}")
    return ",".join(shown) or NONE


def _some(values: list[str]) -> str:
    """Return the first few of many."""
    if len(values) <= _MOST:
        return ",".join(values) or NONE
    return f"{','.join(values[:_MOST])} + {len(values) - _MOST} more..."


def _endpoints(body: Body) -> str:
    found = []
    for subset in value(body, "subsets", ()):
        addresses = [one["ip"] for one in subset.get("addresses") or ()]
        ports = subset.get("ports") or ()
        if not ports:
            found += addresses
        for port in ports:
            found += [_with_port(one, port["port"]) for one in addresses]
    return _some(found)


def _with_port(address: str, port: int) -> str:
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"


def _slice_ports(body: Body) -> str:
    ports = value(body, "ports", ())
    shown = ["*" if one.get("port") is None else str(one["port"]) for one in ports]
    return _some(shown) if shown else UNSET


def _slice_endpoints(body: Body) -> str:
    found = [address for one in value(body, "endpoints", ()) for address in one["addresses"]]
    return _some(found) if found else UNSET


def _hosts(body: Body) -> str:
    rules = value(body, "spec.rules", ())
    named: list[str] = []
    for rule in rules:
        if len(named) == _MOST:
            return f"{','.join(named)} + {len(rules) - _MOST} more..."
        if rule.get("host"):
            named.append(rule["host"])
    return ",".join(named) or "*"


def _ingress_ports(body: Body) -> str:
    return "80, 443" if value(body, "spec.tls", ()) else "80"


def _parameters(body: Body) -> str:
    given: dict[str, Any] = value(body, "spec.parameters", {})
    if not given:
        return NONE
    group = f".{given['apiGroup']}" if "apiGroup" in given else ""
    return f"{given.get('kind', '')}{group}/{given.get('name', '')}"


NETWORK: dict[str, list[Entry]] = {
    "Service": [
        TITLE,
        text("Type", "How it is exposed", at("spec.type")),
        text("Cluster-IP", "Its address", _cluster_address),
        text("External-IP", "Its addresses from outside", _external),
        text("Port(s)", "Its ports", _ports),
        AGE,
        wide(
            "Selector",
            "Which pods it leads to",
            lambda body: labels(value(body, "spec.selector", None)),
        ),
    ],
    "Endpoints": [TITLE, text("Endpoints", "Addresses with ports", _endpoints), AGE],
    "EndpointSlice": [
        TITLE,
        text("AddressType", "What kind of addresses it has", at("addressType")),
        text("Ports", "Its ports", _slice_ports),
        text("Endpoints", "Its addresses", _slice_endpoints),
        AGE,
    ],
    "Ingress": [
        TITLE,
        text("Class", "Who serves it", at("spec.ingressClassName", NONE)),
        text("Hosts", "Hosts of requests that it takes", _hosts),
        text("Address", "Where it can be reached", _ingress),
        text("Ports", "Ports that it opens", _ingress_ports),
        AGE,
    ],
    "IngressClass": [
        TITLE,
        text("Controller", "Who serves its ingresses", at("spec.controller")),
        text("Parameters", "What the controller may need to know", _parameters),
        AGE,
    ],
    "NetworkPolicy": [
        TITLE,
        text(
            "Pod-Selector",
            "Which pods it is about",
            lambda body: selector(value(body, "spec.podSelector", None)),
        ),
        AGE,
    ],
}
