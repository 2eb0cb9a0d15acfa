"""Columns of the tables that `kubectl get` shows for built-in kinds."""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import cache
from typing import Any

from envtest.schema.wording import CREATION_TIMESTAMP, NAME
from envtest.server.rules import Column

Cell = Callable[[dict[str, Any]], Any]


def age(moment: object) -> str:
    """Return how long ago a time was, as kubectl words it: 45s, 3m5s, 2h, 5d."""
    if not isinstance(moment, str):
        return "<unknown>"
    seconds = int((datetime.now(UTC) - datetime.fromisoformat(moment)).total_seconds())
    if seconds < -1:
        return "<invalid>"
    seconds = max(seconds, 0)
    minutes, hours, days = seconds // 60, seconds // 3600, seconds // 86400
    steps = (
        (120, f"{seconds}s"),
        (600, f"{minutes}m" + (f"{seconds % 60}s" if seconds % 60 else "")),
        (3 * 3600, f"{minutes}m"),
        (8 * 3600, f"{hours}h" + (f"{minutes % 60}m" if minutes % 60 else "")),
        (48 * 3600, f"{hours}h"),
        (8 * 86400, f"{days}d" + (f"{hours % 24}h" if hours % 24 else "")),
        (2 * 365 * 86400, f"{days}d"),
        (8 * 365 * 86400, f"{days // 365}y" + (f"{days % 365}d" if days % 365 else "")),
    )
    return next((text for limit, text in steps if seconds < limit), f"{days // 365}y")


def _at(path: str, otherwise: object = "") -> Cell:
    """Return the cell that shows what stands at a dotted path."""

    def read(body: Mapping[str, Any]) -> Any:
        value: Any = body
        for part in path.split("."):
            value = value.get(part) if isinstance(value, Mapping) else None
        return otherwise if value is None else value

    return read


def _count(*names: str) -> Cell:
    return lambda body: sum(len(body.get(name) or ()) for name in names)


def _age(body: Mapping[str, Any]) -> str:
    return age(body["metadata"].get("creationTimestamp"))


def _ports(body: Mapping[str, Any]) -> str:
    shown = []
    for port in body.get("spec", {}).get("ports", ()):
        node = f":{port['nodePort']}" if port.get("nodePort") else ""
        shown.append(f"{port['port']}{node}/{port.get('protocol', 'TCP')}")
    return ",".join(shown) or "<none>"


def _external(body: Mapping[str, Any]) -> str:
    spec = body.get("spec", {})
    given = list(spec.get("externalIPs") or ())
    if spec.get("type") == "LoadBalancer":
        ingress = body.get("status", {}).get("loadBalancer", {}).get("ingress") or ()
        given = [one.get("ip") or one.get("hostname", "") for one in ingress] + given
        return ",".join(given) or "<pending>"
    return ",".join(given) or "<none>"


def _last_seen(body: Mapping[str, Any]) -> str:
    series = body.get("series") or {}
    return age(
        series.get("lastObservedTime")
        or body.get("lastTimestamp")
        or body.get("deprecatedLastTimestamp")
        or body.get("eventTime")
    )


def _object(body: Mapping[str, Any]) -> str:
    about = body.get("involvedObject") or body.get("regarding") or {}
    return f"{str(about.get('kind', '')).lower()}/{about.get('name', '')}"


def _message(body: Mapping[str, Any]) -> str:
    return str(body.get("message") or body.get("note") or "").strip()


def _ready(body: Mapping[str, Any]) -> str:
    status = body.get("status") or {}
    return f"{status.get('readyReplicas', 0)}/{(body.get('spec') or {}).get('replicas', 0)}"


_NAME = (Column("Name", "string", NAME, "name"), _at("metadata.name"))
_AGE = (Column("Age", "string", CREATION_TIMESTAMP), _age)
_SPECS: dict[str, list[tuple[str, str, str, Cell]]] = {
    "Namespace": [("Status", "string", "The status of the namespace", _at("status.phase"))],
    "Secret": [
        ("Type", "string", "The type of the secret", _at("type")),
        ("Data", "string", "How many keys it has", _count("data")),
    ],
    "ConfigMap": [("Data", "string", "How many keys it has", _count("data", "binaryData"))],
    "Service": [
        ("Type", "string", "How it is exposed", _at("spec.type")),
        ("Cluster-IP", "string", "Its address", _at("spec.clusterIP", "<none>")),
        ("External-IP", "string", "Its addresses from outside", _external),
        ("Port(s)", "string", "Its ports", _ports),
    ],
    "Event": [
        ("Last Seen", "string", "When it was last observed", _last_seen),
        ("Type", "string", "Normal or Warning", _at("type")),
        ("Reason", "string", "Why it happened, in one word", _at("reason")),
        ("Object", "string", "What it is about", _object),
        ("Message", "string", "What happened", _message),
    ],
    "Lease": [("Holder", "string", "Who holds it", _at("spec.holderIdentity"))],
    "ServiceAccount": [("Secrets", "string", "How many secrets it names", _count("secrets"))],
    "Deployment": [
        ("Ready", "string", "Ready and wanted replicas", _ready),
        ("Up-to-date", "string", "Updated replicas", _at("status.updatedReplicas", 0)),
        ("Available", "string", "Available replicas", _at("status.availableReplicas", 0)),
    ],
    "Pod": [("Status", "string", "Its phase", _at("status.phase", "Pending"))],
    "RoleBinding": [("Role", "string", "The role it grants", _at("roleRef.name"))],
    "ClusterRoleBinding": [("Role", "string", "The role it grants", _at("roleRef.name"))],
}
_CREATED = frozenset({"CustomResourceDefinition", "Role", "ClusterRole"})


@cache
def columns_of(kind: str) -> list[tuple[Column, Cell]]:
    """Return the columns of a kind, with the functions that read their cells."""
    if kind in _CREATED:
        return [
            _NAME,
            (Column("Created At", "date", CREATION_TIMESTAMP), _at("metadata.creationTimestamp")),
        ]
    own = [(Column(name, kind_, text), cell) for name, kind_, text, cell in _SPECS.get(kind, [])]
    if kind == "Event":
        return own
    return [_NAME, *own, _AGE]
