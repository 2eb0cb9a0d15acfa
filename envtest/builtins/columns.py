"""Columns of the tables that `kubectl get` shows for built-in kinds.

Names, types and cells are the real server's; most descriptions are our own. Kinds that nothing
here fills in, such as pods and deployments, have a name and an age.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from envtest.schema.tables import human_duration
from envtest.schema.wording import CREATION_TIMESTAMP, NAME
from envtest.server.rules import Column

Body = Mapping[str, Any]
Cell = Callable[[Body], Any]
Entry = tuple[Column, Cell]
_NONE: Final = "<none>"
_UNKNOWN: Final = "<unknown>"


def columns_of(kind: str) -> Sequence[Entry]:
    """Return the columns of a kind, with the functions that read their cells."""
    return _KNOWN.get(kind, _OTHERS)


def _age(moment: object) -> str:
    """Return how long ago a time was, as kubectl words it: 45s, 3m5s, 2h, 5d."""
    if not isinstance(moment, str):
        return _UNKNOWN
    passed = datetime.now(UTC) - datetime.fromisoformat(moment)
    return human_duration(passed.total_seconds())


def _value(body: Any, path: str, otherwise: Any = "") -> Any:
    """Return what stands at a dotted path."""
    found = body
    for part in path.split("."):
        found = found.get(part) if isinstance(found, Mapping) else None
    return otherwise if found is None else found


def _at(path: str) -> Cell:
    """Return the cell that shows what stands at a dotted path."""
    return lambda body: _value(body, path)


def _count(*names: str) -> Cell:
    """Return the cell that counts the entries of some fields together."""
    return lambda body: sum(len(_value(body, name, ())) for name in names)


def _text(name: str, description: str, cell: Cell) -> Entry:
    return Column(name, "string", description), cell


def _wide(name: str, description: str, cell: Cell) -> Entry:
    """Return a column that shows in wide tables only."""
    return Column(name, "string", description, priority=1), cell


def _role(body: Body) -> str:
    return f"{_value(body, 'roleRef.kind')}/{_value(body, 'roleRef.name')}"


def _subjects(kind: str) -> Cell:
    def read(body: Body) -> str:
        found = [one for one in _value(body, "subjects", ()) if one.get("kind") == kind]
        if kind == "ServiceAccount":
            return ", ".join(f"{one.get('namespace', '')}/{one['name']}" for one in found)
        return ", ".join(one["name"] for one in found)

    return read


def _either(*names: str) -> Cell:
    """Return the cell of the first field that has a value: the two Event kinds name them apart."""
    return lambda body: next((found for name in names if (found := _value(body, name))), "")


_about = _either("involvedObject", "regarding")


def _object(body: Body) -> str:
    """Return what an event is about, such as networkpool/lab-pool."""
    kind, name = str(_value(_about(body), "kind")).lower(), _value(_about(body), "name")
    return f"{kind}/{name}" if name else kind


def _source(body: Body) -> str:
    names = ("source.component", "deprecatedSource.component", "reportingComponent")
    reporter = _either(*names, "reportingController")(body)
    host = _either("source.host", "deprecatedSource.host", "reportingInstance")(body)
    return ", ".join(part for part in (reporter, host) if part)


def _age_of(*names: str) -> Cell:
    first_of = _either(*names)
    return lambda body: _age(first_of(body) or None)


_FIRST: Final = ("firstTimestamp", "deprecatedFirstTimestamp", "eventTime")
_LAST: Final = ("series.lastObservedTime", "lastTimestamp", "deprecatedLastTimestamp")


def _cluster_address(body: Body) -> str:
    return str(next(iter(_value(body, "spec.clusterIPs", ())), _NONE))


def _external(body: Body) -> str:
    """Return by which addresses a service is reached from outside."""
    given = list(_value(body, "spec.externalIPs", ()))
    match _value(body, "spec.type"):
        case "LoadBalancer":
            ingress = _value(body, "status.loadBalancer.ingress", ())
            found = {one.get("ip") or one.get("hostname") or "" for one in ingress} - {""}
            return ",".join([*sorted(found), *given]) or "<pending>"
        case "ExternalName":
            return str(_value(body, "spec.externalName"))
        case _:
            return ",".join(given) or _NONE


def _ports(body: Body) -> str:
    shown = []
    for port in _value(body, "spec.ports", ()):
        node = f":{port['nodePort']}" if port.get("nodePort") else ""
        shown.append(f"{port['port']}{node}/{port.get('protocol', 'TCP')}")
    return ",".join(shown) or _NONE


def _selector(body: Body) -> str:
    given = _value(body, "spec.selector", {})
    return ",".join(f"{key}={one}" for key, one in sorted(given.items())) or _NONE


_TITLE: Final[Entry] = (Column("Name", "string", NAME, "name"), _at("metadata.name"))
_AGE: Final[Entry] = _text(
    "Age", CREATION_TIMESTAMP, lambda body: _age(_value(body, "metadata.creationTimestamp", None))
)
_CREATED: Final[Entry] = (
    Column("Created At", "date", CREATION_TIMESTAMP),
    _at("metadata.creationTimestamp"),
)
_OTHERS: Final = (_TITLE, _AGE)
_BINDING: Final = (
    _TITLE,
    _text("Role", "The role it grants", _role),
    _AGE,
    _wide("Users", "Users that get it", _subjects("User")),
    _wide("Groups", "Groups that get it", _subjects("Group")),
    _wide("ServiceAccounts", "Service accounts that get it", _subjects("ServiceAccount")),
)
_HOOKS: Final = (
    _TITLE,
    (Column("Webhooks", "integer", "How many webhooks it configures"), _count("webhooks")),
    _AGE,
)
_KNOWN: Final[Mapping[str, Sequence[Entry]]] = {
    "Namespace": (
        _TITLE,
        _text("Status", "The status of the namespace", _at("status.phase")),
        _AGE,
    ),
    "Secret": (
        _TITLE,
        _text("Type", "The type of the secret", _at("type")),
        _text("Data", "How many keys it has", _count("data")),
        _AGE,
    ),
    "ConfigMap": (
        _TITLE,
        _text("Data", "How many keys it has", _count("data", "binaryData")),
        _AGE,
    ),
    "ServiceAccount": (_TITLE, _text("Secrets", "How many it names", _count("secrets")), _AGE),
    "Lease": (_TITLE, _text("Holder", "Who holds it", _at("spec.holderIdentity")), _AGE),
    "Event": (
        _text("Last Seen", "When it was last observed", _age_of(*_LAST, *_FIRST)),
        _text("Type", "Normal or Warning", _at("type")),
        _text("Reason", "Why it happened, in one word", _at("reason")),
        _text("Object", "What it is about", _object),
        _wide("Subobject", "Which part of it", lambda body: _value(_about(body), "fieldPath")),
        _wide("Source", "Who reports it", _source),
        _text(
            "Message", "What happened", lambda body: str(_either("message", "note")(body)).strip()
        ),
        _wide("First Seen", "When it was first observed", _age_of(*_FIRST)),
        _wide(
            "Count",
            "How often it was observed",
            lambda body: str(_either("series.count", "count", "deprecatedCount")(body) or 1),
        ),
        (Column("Name", "string", NAME, "name", 1), _at("metadata.name")),
    ),
    "Service": (
        _TITLE,
        _text("Type", "How it is exposed", _at("spec.type")),
        _text("Cluster-IP", "Its address", _cluster_address),
        _text("External-IP", "Its addresses from outside", _external),
        _text("Port(s)", "Its ports", _ports),
        _AGE,
        _wide("Selector", "Which pods it leads to", _selector),
    ),
    "RoleBinding": _BINDING,
    "ClusterRoleBinding": _BINDING,
    "Role": (_TITLE, _CREATED),
    "ClusterRole": (_TITLE, _CREATED),
    "CustomResourceDefinition": (_TITLE, _CREATED),
    "MutatingWebhookConfiguration": _HOOKS,
    "ValidatingWebhookConfiguration": _HOOKS,
}
