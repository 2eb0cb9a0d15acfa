"""Columns of the tables that `kubectl get` shows for built-in kinds.

Names, types and cells are the real server's; most descriptions differ. Kinds whose controllers do
not run here, such as pods and deployments, have only a name and an age.

A cell is a function of an object. Functions named `_format_...` are cells, and functions named
`_make_..._cell` return one.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from envtest.schema.tables import format_duration
from envtest.schema.wording import CREATION_TIMESTAMP, NAME
from envtest.server.rules import BuiltInColumn

Body = Mapping[str, Any]
Cell = Callable[[Body], Any]
Entry = tuple[BuiltInColumn, Cell]
_NONE: Final = "<none>"
_UNKNOWN: Final = "<unknown>"


def list_builtin_columns(kind: str) -> Sequence[Entry]:
    """Return the columns of a kind, with the functions that read their cells."""
    return _COLUMNS.get(kind, _DEFAULT_COLUMNS)


def _format_age(timestamp: object) -> str:
    """Return the age of a timestamp as kubectl prints it, such as 45s, 3m5s, 2h or 5d."""
    if not isinstance(timestamp, str):
        return _UNKNOWN
    elapsed = datetime.now(UTC) - datetime.fromisoformat(timestamp)
    return format_duration(elapsed.total_seconds())


def _read_value(body: Any, path: str, default: Any = "") -> Any:
    """Return the value at a dotted path; `default` if it is absent."""
    value = body
    for part in path.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    return default if value is None else value


def _make_path_cell(path: str) -> Cell:
    """Return a cell that shows the value at a dotted path."""
    return lambda body: _read_value(body, path)


def _make_count_cell(*names: str) -> Cell:
    """Return a cell that shows the number of entries of some fields together."""
    return lambda body: sum(len(_read_value(body, name, ())) for name in names)


def _make_column(name: str, description: str, cell: Cell) -> Entry:
    """Return a column of strings."""
    return BuiltInColumn(name, "string", description), cell


def _make_wide_column(name: str, description: str, cell: Cell) -> Entry:
    """Return a column that kubectl shows only with `-o wide`."""
    return BuiltInColumn(name, "string", description, priority=1), cell


def _format_role(body: Body) -> str:
    """Return the role of a binding, such as ClusterRole/admin."""
    return f"{_read_value(body, 'roleRef.kind')}/{_read_value(body, 'roleRef.name')}"


def _make_subjects_cell(kind: str) -> Cell:
    """Return a cell that lists the subjects of a binding that are of a kind."""

    def format_subjects(body: Body) -> str:
        """Return the names of the subjects of the kind, with namespaces for service accounts."""
        subjects = [
            subject for subject in _read_value(body, "subjects", ()) if subject.get("kind") == kind
        ]
        if kind == "ServiceAccount":
            return ", ".join(
                f"{subject.get('namespace', '')}/{subject['name']}" for subject in subjects
            )
        return ", ".join(subject["name"] for subject in subjects)

    return format_subjects


def _make_first_value_cell(*names: str) -> Cell:
    """Return a cell that shows the first field with a value.

    The two kinds of Events have different names for the same field.
    """
    return lambda body: next((value for name in names if (value := _read_value(body, name))), "")


_read_involved_object = _make_first_value_cell("involvedObject", "regarding")


def _format_involved_object(body: Body) -> str:
    """Return the object of an event, such as networkpool/lab-pool."""
    involved_object = _read_involved_object(body)
    kind = str(_read_value(involved_object, "kind")).lower()
    name = _read_value(involved_object, "name")
    return f"{kind}/{name}" if name else kind


def _format_source(body: Body) -> str:
    """Return the component that reports an event, and its host or instance."""
    names = ("source.component", "deprecatedSource.component", "reportingComponent")
    reporter = _make_first_value_cell(*names, "reportingController")(body)
    host = _make_first_value_cell("source.host", "deprecatedSource.host", "reportingInstance")(
        body
    )
    return ", ".join(part for part in (reporter, host) if part)


def _make_age_cell(*names: str) -> Cell:
    """Return a cell that shows the age of the first field with a time, or `<unknown>`."""
    read_first = _make_first_value_cell(*names)
    # Without a time the string is empty, which is no timestamp.
    return lambda body: _format_age(read_first(body) or None)


_FIRST_TIMES: Final = ("firstTimestamp", "deprecatedFirstTimestamp", "eventTime")
_LAST_TIMES: Final = ("series.lastObservedTime", "lastTimestamp", "deprecatedLastTimestamp")


def _format_cluster_address(body: Body) -> str:
    """Return the first cluster address of a service, or `<none>`."""
    return str(next(iter(_read_value(body, "spec.clusterIPs", ())), _NONE))


def _format_external_addresses(body: Body) -> str:
    """Return the external addresses of a service, or the name of one of type ExternalName.

    Without addresses it is `<pending>` for a load balancer, and `<none>` for other types.
    """
    addresses = list(_read_value(body, "spec.externalIPs", ()))
    match _read_value(body, "spec.type"):
        case "LoadBalancer":
            ingress = _read_value(body, "status.loadBalancer.ingress", ())
            ingress_addresses = {
                entry.get("ip") or entry.get("hostname") or "" for entry in ingress
            } - {""}
            return ",".join([*sorted(ingress_addresses), *addresses]) or "<pending>"
        case "ExternalName":
            return str(_read_value(body, "spec.externalName"))
        case _:
            return ",".join(addresses) or _NONE


def _format_ports(body: Body) -> str:
    """Return the ports of a service, or `<none>`: 80:30080/TCP for a port with a node port."""
    entries = []
    for port in _read_value(body, "spec.ports", ()):
        node_port = f":{port['nodePort']}" if port.get("nodePort") else ""
        entries.append(f"{port['port']}{node_port}/{port.get('protocol', 'TCP')}")
    return ",".join(entries) or _NONE


def _format_selector(body: Body) -> str:
    """Return the selector of a service as key=value pairs, or `<none>`."""
    labels = _read_value(body, "spec.selector", {})
    return ",".join(f"{key}={value}" for key, value in sorted(labels.items())) or _NONE


_TITLE: Final[Entry] = (
    BuiltInColumn("Name", "string", description=NAME, format="name"),
    _make_path_cell("metadata.name"),
)
_AGE: Final[Entry] = _make_column(
    "Age",
    CREATION_TIMESTAMP,
    lambda body: _format_age(_read_value(body, "metadata.creationTimestamp", None)),
)
_CREATED: Final[Entry] = (
    BuiltInColumn("Created At", "date", CREATION_TIMESTAMP),
    _make_path_cell("metadata.creationTimestamp"),
)
_DEFAULT_COLUMNS: Final = (_TITLE, _AGE)
_BINDING: Final = (
    _TITLE,
    _make_column("Role", "The role it grants", _format_role),
    _AGE,
    _make_wide_column("Users", "Users that get it", _make_subjects_cell("User")),
    _make_wide_column("Groups", "Groups that get it", _make_subjects_cell("Group")),
    _make_wide_column(
        "ServiceAccounts", "Service accounts that get it", _make_subjects_cell("ServiceAccount")
    ),
)
_HOOKS: Final = (
    _TITLE,
    (
        BuiltInColumn("Webhooks", "integer", "How many webhooks it configures"),
        _make_count_cell("webhooks"),
    ),
    _AGE,
)
_COLUMNS: Final[Mapping[str, Sequence[Entry]]] = {
    "Namespace": (
        _TITLE,
        _make_column("Status", "The status of the namespace", _make_path_cell("status.phase")),
        _AGE,
    ),
    "Secret": (
        _TITLE,
        _make_column("Type", "The type of the secret", _make_path_cell("type")),
        _make_column("Data", "How many keys it has", _make_count_cell("data")),
        _AGE,
    ),
    "ConfigMap": (
        _TITLE,
        _make_column("Data", "How many keys it has", _make_count_cell("data", "binaryData")),
        _AGE,
    ),
    "ServiceAccount": (
        _TITLE,
        _make_column("Secrets", "How many it names", _make_count_cell("secrets")),
        _AGE,
    ),
    "Lease": (
        _TITLE,
        _make_column("Holder", "Who holds it", _make_path_cell("spec.holderIdentity")),
        _AGE,
    ),
    "Event": (
        _make_column(
            "Last Seen", "When it was last observed", _make_age_cell(*_LAST_TIMES, *_FIRST_TIMES)
        ),
        _make_column("Type", "Normal or Warning", _make_path_cell("type")),
        _make_column("Reason", "Why it happened, in one word", _make_path_cell("reason")),
        _make_column("Object", "What it is about", _format_involved_object),
        _make_wide_column(
            "Subobject",
            "Which part of it",
            lambda body: _read_value(_read_involved_object(body), "fieldPath"),
        ),
        _make_wide_column("Source", "Who reports it", _format_source),
        _make_column(
            "Message",
            "What happened",
            lambda body: str(_make_first_value_cell("message", "note")(body)).strip(),
        ),
        _make_wide_column(
            "First Seen", "When it was first observed", _make_age_cell(*_FIRST_TIMES)
        ),
        _make_wide_column(
            "Count",
            "How often it was observed",
            lambda body: str(
                _make_first_value_cell("series.count", "count", "deprecatedCount")(body) or 1
            ),
        ),
        (
            BuiltInColumn("Name", "string", description=NAME, format="name", priority=1),
            _make_path_cell("metadata.name"),
        ),
    ),
    "Service": (
        _TITLE,
        _make_column("Type", "How it is exposed", _make_path_cell("spec.type")),
        _make_column("Cluster-IP", "Its address", _format_cluster_address),
        _make_column("External-IP", "Its addresses from outside", _format_external_addresses),
        _make_column("Port(s)", "Its ports", _format_ports),
        _AGE,
        _make_wide_column("Selector", "Which pods it leads to", _format_selector),
    ),
    "RoleBinding": _BINDING,
    "ClusterRoleBinding": _BINDING,
    "Role": (_TITLE, _CREATED),
    "ClusterRole": (_TITLE, _CREATED),
    "CustomResourceDefinition": (_TITLE, _CREATED),
    "MutatingWebhookConfiguration": _HOOKS,
    "ValidatingWebhookConfiguration": _HOOKS,
}
