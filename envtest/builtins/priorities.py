"""How urgent pods are: the classes, and what the Priority admission plugin makes of them.

Texts and order as in validatePriorityClass (pkg/apis/scheduling/validation) and in the plugin.
"""

from collections.abc import Iterator
from typing import Any, Final

import msgspec
from typing_extensions import override

from envtest.builtins.rules import BuiltinRules
from envtest.builtins.workloads import WorkloadRules
from envtest.schema.errors import FieldError, forbidden, invalid, not_supported
from envtest.server import failures
from envtest.server.objectmeta import Body
from envtest.storage import Store

_PLACE: Final = "scheduling.k8s.io/priorityclasses"
_GROUP: Final = "scheduling.k8s.io"
_PREFIX: Final = "system-"
_HIGHEST: Final = 1_000_000_000
_USUAL: Final = "PreemptLowerPriority"
_POLICIES: Final = (_USUAL, "Never")
# Classes that are there from the start, and stay.
SYSTEM: Final = {
    "system-cluster-critical": 2_000_000_000,
    "system-node-critical": 2_000_001_000,
}


class PriorityClassRules(BuiltinRules):
    """Priority classes; at most one is for pods that name none."""

    def __init__(self, store: Store) -> None:
        super().__init__(_GROUP, "v1", "PriorityClass", has_status=False)
        self._store = store

    @override
    def default(self, body: Body) -> None:
        body.setdefault("value", 0)
        body.setdefault("preemptionPolicy", _USUAL)

    @override
    def prepare_create(self, body: Body) -> None:
        super().prepare_create(body)
        self._refuse_second_default(body)

    @override
    def prepare_update(self, body: Body, old: Body) -> None:
        super().prepare_update(body, old)
        self._refuse_second_default(body)

    @override
    def check_content(self, body: Body, old: Body | None) -> list[FieldError]:
        if old is not None:
            return list(_changes(body, old))
        return list(_problems(body))

    def _refuse_second_default(self, body: Body) -> None:
        """Let only one class be the default.

        Raises:
            StatusError: 403; another one is.
        """
        if not body.get("globalDefault"):
            return
        name = _called(body)
        for other in _classes(self._store):
            known = other["metadata"]["name"]
            if other.get("globalDefault") and known != name:
                why = f"PriorityClass {known} is already marked as default. "
                why += "Only one default can exist"
                raise failures.forbidden("priorityclasses", _GROUP, name, why)


def _problems(body: Body) -> Iterator[FieldError]:
    name, value = body["metadata"].get("name", ""), body.get("value", 0)
    if name.startswith(_PREFIX):
        text = (
            "priority class names with 'system-' prefix are reserved for system use only. error:"
        )
        if name not in SYSTEM:
            why = f"{text} {name} is not a known system priority class"
            yield forbidden("metadata.name", why)
        elif SYSTEM[name] != value:
            why = f"{text} value of {name} PriorityClass must be {SYSTEM[name]}"
            yield forbidden("metadata.name", why)
        elif body.get("globalDefault"):
            why = f"{text} globalDefault of {name} PriorityClass must be false"
            yield forbidden("metadata.name", why)
    elif value > _HIGHEST:
        why = f"maximum allowed value of a user defined priority is {_HIGHEST}"
        yield forbidden("value", why)
    if body["preemptionPolicy"] not in _POLICIES:
        yield not_supported("preemptionPolicy", body["preemptionPolicy"], _POLICIES)


def _changes(body: Body, old: Body) -> Iterator[FieldError]:
    if body.get("value") != old.get("value"):
        yield forbidden("value", "may not be changed in an update.")
    if body["preemptionPolicy"] != old.get("preemptionPolicy", _USUAL):
        yield invalid("preemptionPolicy", body["preemptionPolicy"], "field is immutable")


class PodRules(WorkloadRules):
    """Pods, which get their priority from a class."""

    def __init__(self, store: Store) -> None:
        super().__init__("", "v1", "Pod", has_status=True)
        self._store = store

    @override
    def prepare_create(self, body: Body) -> None:
        super().prepare_create(body)
        self._prioritize(body)

    @override
    def prepare_update(self, body: Body, old: Body) -> None:
        super().prepare_update(body, old)
        for name in ("preemptionPolicy", "priority"):
            if name in old.get("spec", {}):
                body["spec"].setdefault(name, old["spec"][name])

    def _prioritize(self, body: Body) -> None:
        """Give a pod the priority of its class, or of the default one.

        Raises:
            StatusError: 403; there is no such class, or the pod says something else.
        """
        spec, name = body["spec"], _called(body)
        wanted = spec.get("priorityClassName", "")
        found = self._named(wanted) if wanted else self._default()
        if found is None:
            why = f"no PriorityClass with name {wanted} was found"
            raise failures.forbidden("pods", "", name, why)
        if found["metadata"]["name"]:
            spec["priorityClassName"] = found["metadata"]["name"]
        for field, value, text in (
            ("priority", found["value"], "the integer value of priority ({}) must not be"),
            (
                "preemptionPolicy",
                found.get("preemptionPolicy", _USUAL),
                "the string value of PreemptionPolicy ({}) must not be",
            ),
        ):
            given = spec.setdefault(field, value)
            if given != value:
                why = (
                    f"{text.format(given)} provided in pod spec; priority admission controller "
                    f"computed {value} from the given PriorityClass name"
                )
                raise failures.forbidden("pods", "", name, why)

    def _named(self, name: str) -> Body | None:
        stored = self._store.table(_PLACE).get(name)
        return None if stored is None else msgspec.json.decode(stored.body)

    def _default(self) -> Body:
        """Return the class that is marked as default; without one, an ordinary one."""
        marked = [one for one in _classes(self._store) if one.get("globalDefault")]
        return min(marked, key=lambda one: int(one["value"]), default=_ordinary())


def _called(body: Body) -> str:
    """Return the name, or what a name is to be made of, by which admission speaks of an object."""
    meta = body["metadata"]
    return str(meta.get("name") or meta.get("generateName") or "Unknown")


def _ordinary() -> dict[str, Any]:
    return {"metadata": {"name": ""}, "value": 0}


def _classes(store: Store) -> Iterator[Body]:
    table = store.table(_PLACE)
    for key in table.scan():
        stored = table.get(key)
        if stored is not None:
            yield msgspec.json.decode(stored.body)
