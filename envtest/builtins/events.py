"""Events, which are served in two groups, core/v1 and events.k8s.io/v1, and stored as core/v1.

Go encodes some fields although they are unset, with their zero values. These fields differ between
the two groups, so a conversion adds the zero values of its target group.
"""

from typing import Any

from typing_extensions import override

from envtest.builtins.rules import BuiltinRules
from envtest.schema.errors import FieldError, build_invalid_error, build_required_error
from envtest.server.objectmeta import Body

# events.k8s.io name -> core name.
_NAMES = {
    "note": "message",
    "regarding": "involvedObject",
    "reportingController": "reportingComponent",
    "deprecatedSource": "source",
    "deprecatedFirstTimestamp": "firstTimestamp",
    "deprecatedLastTimestamp": "lastTimestamp",
    "deprecatedCount": "count",
}
_CORE_NAMES = {core: new for new, core in _NAMES.items()}
# Fields of events.k8s.io that field selectors may use: those with another name than in the core
# group, and those with the same name.
_RENAMED_SELECTORS = ("regarding", "reportingController")
_SAME_SELECTORS = ("reason", "source", "type", "metadata.name", "metadata.namespace")
# Fields that Go encodes although they are unset, because they have no omitempty.
_CORE_ZERO_VALUES: dict[str, Any] = {
    "involvedObject": {},
    "source": {},
    "firstTimestamp": None,
    "lastTimestamp": None,
    "eventTime": None,
    "reportingComponent": "",
    "reportingInstance": "",
}
_NEW_ZERO_VALUES: dict[str, Any] = {
    "regarding": {},
    "deprecatedSource": {},
    "deprecatedFirstTimestamp": None,
    "deprecatedLastTimestamp": None,
    "eventTime": None,
}


def convert_to_core(body: Body) -> Body:
    """Return the stored form of an event of events.k8s.io: with names and zero values of core."""
    renamed = {_NAMES.get(name, name): value for name, value in body.items()}
    return {**_CORE_ZERO_VALUES, **renamed}


def convert_to_events_group(body: Body) -> Body:
    """Return a stored event in the form of events.k8s.io: with its names and zero values.

    Zero values of the core group are dropped first. Otherwise they would appear under names of
    events.k8s.io that Go leaves out if they are unset.
    """
    set_fields = {
        name: value
        for name, value in body.items()
        if value not in (None, "") or name not in _CORE_ZERO_VALUES
    }
    renamed = {_CORE_NAMES.get(name, name): value for name, value in set_fields.items()}
    return {**_NEW_ZERO_VALUES, **renamed}


def _to_core_field(field: str) -> str:
    """Return the name in the core group of a field of events.k8s.io."""
    name, dot, rest = field.partition(".")
    return _NAMES.get(name, name) + dot + rest


class EventRules(BuiltinRules):
    """Events of both groups; events.k8s.io is validated more strictly."""

    @override
    def __init__(self, group: str, version: str, kind: str, *, has_status: bool) -> None:
        super().__init__(group, version, kind, has_status=has_status)
        # Refusals name the core group for both groups, because the core group validates events.
        self.error_group = ""

    @override
    def set_defaults(self, body: Body) -> None:
        # The core group is the group with an empty name.
        if self.group:
            body.update({**_NEW_ZERO_VALUES, **body})
        else:
            body.update({**_CORE_ZERO_VALUES, **body})

    @override
    def is_selectable(self, field: str) -> bool:
        """Return whether selectors may use a field; events.k8s.io has its own names for some."""
        if not self.group:
            return super().is_selectable(field)
        is_own_name = field.partition(".")[0] in _RENAMED_SELECTORS or field in _SAME_SELECTORS
        return is_own_name and super().is_selectable(_to_core_field(field))

    @override
    def read_field_value(self, body: Body, field: str) -> str:
        """Return the value of a field; `source` means the reporting component."""
        core = convert_to_core(body) if self.group else body
        field = _to_core_field(field) if self.group else field
        if field == "source":
            component = core["source"].get("component") if core.get("source") else ""
            return str(component or core.get("reportingComponent") or "")
        return super().read_field_value(core, field)

    @override
    def find_content_errors(self, body: Body, old: Body | None) -> list[FieldError]:
        """Return the errors of the namespace; of a new event of events.k8s.io, of other fields."""
        involved_object = body.get("regarding" if self.group else "involvedObject") or {}
        namespace = body["metadata"].get("namespace", "")
        problems: list[FieldError] = []
        # Events about cluster-scoped objects are in the namespace `default`.
        if (involved_object.get("namespace") or "default") != namespace:
            detail = "does not match event.namespace"
            problems.append(
                build_invalid_error(
                    "involvedObject.namespace", involved_object.get("namespace", ""), detail
                )
            )
        if old is None and self.group:
            problems += [
                build_required_error(name)
                for name in self._list_required_fields(body)
                if not body.get(name)
            ]
            if body.get("type") not in {"Normal", "Warning"}:
                problems.append(
                    build_invalid_error("type", "", f"has invalid value: {body.get('type', '')}")
                )
        return problems

    def _list_required_fields(self, body: Body) -> tuple[str, ...]:
        """Return the fields that a new event of events.k8s.io must have.

        Without eventTime, kube-apiserver reports only that as missing.
        """
        others = ("reportingController", "reportingInstance", "action", "reason")
        return ("eventTime", *(others if body.get("eventTime") else ()))
