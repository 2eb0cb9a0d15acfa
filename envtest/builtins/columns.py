"""Columns of the tables that `kubectl get` shows for built-in kinds.

Names, types and cells are the real server's; most descriptions are our own. Kinds that nothing
here fills in, such as pods and deployments, have a name and an age.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from envtest.schema.tables import human_duration
from envtest.schema.wording import CREATION_TIMESTAMP, NAME
from envtest.server.rules import BuiltInColumn

Body = Mapping[str, Any]
Cell = Callable[[Body], Any]
Entry = tuple[BuiltInColumn, Cell]
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
    """Return the value at a dotted path."""
    value = body
    for part in path.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    return otherwise if value is None else value


def _at(path: str) -> Cell:
    """Return the cell that shows the value at a dotted path."""
    return lambda body: _value(body, path)


def _count(*names: str) -> Cell:
    """Return the cell that counts the entries of some fields together."""
    return lambda body: sum(len(_value(body, name, ())) for name in names)


def _make_column(name: str, description: str, cell: Cell) -> Entry:
    return BuiltInColumn(name, "string", description), cell


def _make_wide_column(name: str, description: str, cell: Cell) -> Entry:
    """Return a column that shows in wide tables only."""
    return BuiltInColumn(name, "string", description, priority=1), cell


def _role(body: Body) -> str:
    return f"{_value(body, 'roleRef.kind')}/{_value(body, 'roleRef.name')}"


def _subjects(kind: str) -> Cell:
    def read(body: Body) -> str:
        subjects = [
            subject for subject in _value(body, "subjects", ()) if subject.get("kind") == kind
        ]
        if kind == "ServiceAccount":
            return ", ".join(
                f"{subject.get('namespace', '')}/{subject['name']}" for subject in subjects
            )
        return ", ".join(subject["name"] for subject in subjects)

    return read


def _either(*names: str) -> Cell:
    """Return the cell of the first field that has a value: the two Event kinds name them apart."""
    return lambda body: next((value for name in names if (value := _value(body, name))), "")


_about = _either("involvedObject", "regarding")


def _object(body: Body) -> str:
    """Return the object that an event is about, such as networkpool/lab-pool."""
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
    addresses = list(_value(body, "spec.externalIPs", ()))
    match _value(body, "spec.type"):
        case "LoadBalancer":
            ingress = _value(body, "status.loadBalancer.ingress", ())
            ingress_addresses = {
                entry.get("ip") or entry.get("hostname") or "" for entry in ingress
            } - {""}
            return ",".join([*sorted(ingress_addresses), *addresses]) or "<pending>"
        case "ExternalName":
            return str(_value(body, "spec.externalName"))
        case _:
            return ",".join(addresses) or _NONE


def _ports(body: Body) -> str:
    entries = []
    for port in _value(body, "spec.ports", ()):
        node = f":{port['nodePort']}" if port.get("nodePort") else ""
        entries.append(f"{port['port']}{node}/{port.get('protocol', 'TCP')}")
    return ",".join(entries) or _NONE


def _selector(body: Body) -> str:
    labels = _value(body, "spec.selector", {})
    return ",".join(f"{key}={value}" for key, value in sorted(labels.items())) or _NONE


_TITLE: Final[Entry] = (
    BuiltInColumn("Name", "string", description=NAME, format="name"),
    _at("metadata.name"),
)
_AGE: Final[Entry] = _make_column(
    "Age", CREATION_TIMESTAMP, lambda body: _age(_value(body, "metadata.creationTimestamp", None))
)
_CREATED: Final[Entry] = (
    BuiltInColumn("Created At", "date", CREATION_TIMESTAMP),
    _at("metadata.creationTimestamp"),
)
_OTHERS: Final = (_TITLE, _AGE)
_BINDING: Final = (
    _TITLE,
    _make_column("Role", "The role it grants", _role),
    _AGE,
    _make_wide_column("Users", "Users that get it", _subjects("User")),
    _make_wide_column("Groups", "Groups that get it", _subjects("Group")),
    _make_wide_column(
        "ServiceAccounts", "Service accounts that get it", _subjects("ServiceAccount")
    ),
)
_HOOKS: Final = (
    _TITLE,
    (BuiltInColumn("Webhooks", "integer", "How many webhooks it configures"), _count("webhooks")),
    _AGE,
)
_KNOWN: Final[Mapping[str, Sequence[Entry]]] = {
    "Namespace": (
        _TITLE,
        _make_column("Status", "The status of the namespace", _at("status.phase")),
        _AGE,
    ),
    "Secret": (
        _TITLE,
        _make_column("Type", "The type of the secret", _at("type")),
        _make_column("Data", "How many keys it has", _count("data")),
        _AGE,
    ),
    "ConfigMap": (
        _TITLE,
        _make_column("Data", "How many keys it has", _count("data", "binaryData")),
        _AGE,
    ),
    "ServiceAccount": (
        _TITLE,
        _make_column("Secrets", "How many it names", _count("secrets")),
        _AGE,
    ),
    "Lease": (_TITLE, _make_column("Holder", "Who holds it", _at("spec.holderIdentity")), _AGE),
    "Event": (
        _make_column("Last Seen", "When it was last observed", _age_of(*_LAST, *_FIRST)),
        _make_column("Type", "Normal or Warning", _at("type")),
        _make_column("Reason", "Why it happened, in one word", _at("reason")),
        _make_column("Object", "What it is about", _object),
        _make_wide_column(
            "Subobject", "Which part of it", lambda body: _value(_about(body), "fieldPath")
        ),
        _make_wide_column("Source", "Who reports it", _source),
        _make_column(
            "Message", "What happened", lambda body: str(_either("message", "note")(body)).strip()
        ),
        _make_wide_column("First Seen", "When it was first observed", _age_of(*_FIRST)),
        _make_wide_column(
            "Count",
            "How often it was observed",
            lambda body: str(_either("series.count", "count", "deprecatedCount")(body) or 1),
        ),
        (
            BuiltInColumn("Name", "string", description=NAME, format="name", priority=1),
            _at("metadata.name"),
        ),
    ),
    "Service": (
        _TITLE,
        _make_column("Type", "How it is exposed", _at("spec.type")),
        _make_column("Cluster-IP", "Its address", _cluster_address),
        _make_column("External-IP", "Its addresses from outside", _external),
        _make_column("Port(s)", "Its ports", _ports),
        _AGE,
        _make_wide_column("Selector", "Which pods it leads to", _selector),
    ),
    "RoleBinding": _BINDING,
    "ClusterRoleBinding": _BINDING,
    "Role": (_TITLE, _CREATED),
    "ClusterRole": (_TITLE, _CREATED),
    "CustomResourceDefinition": (_TITLE, _CREATED),
    "MutatingWebhookConfiguration": _HOOKS,
    "ValidatingWebhookConfiguration": _HOOKS,
}
