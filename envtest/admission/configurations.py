"""The webhooks that are configured at this moment, read from the store.

Nothing is remembered but what was parsed from an object that is still the stored one, so that a
changed configuration counts for the next request.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from envtest.schema.cel import Condition, compile_condition
from envtest.server.api import Api
from envtest.server.selectors import LabelSelector, label_selector
from envtest.storage import Stored

GROUP = "admissionregistration.k8s.io"
MUTATING = "mutatingwebhookconfigurations"
VALIDATING = "validatingwebhookconfigurations"


@dataclass(frozen=True)  # no slots: the parsed parts are made when they are first needed
class Hook:
    """One entry of a configuration.

    Attributes:
        uid: tells entries of the same name in several configurations apart.
        body: the entry, its defaults filled in.
    """

    uid: str
    body: Mapping[str, Any]

    @property
    def name(self) -> str:
        """Return its name, which refusals quote."""
        return str(self.body["name"])

    @property
    def ignores_failures(self) -> bool:
        """Tell whether a write passes when the hook cannot be asked."""
        return self.body.get("failurePolicy") == "Ignore"

    @cached_property
    def namespaces(self) -> LabelSelector:
        """The labels of the namespaces that it wants to see."""
        return label_selector(self.body.get("namespaceSelector") or {})

    @cached_property
    def objects(self) -> LabelSelector:
        """The labels of the objects that it wants to see."""
        return label_selector(self.body.get("objectSelector") or {})

    @cached_property
    def conditions(self) -> Sequence[Condition]:
        """What else must hold."""
        found = self.body.get("matchConditions") or ()
        return [compile_condition(str(one["expression"])) for one in found]


class Configurations:
    """All webhooks of one server."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._parsed: dict[str, dict[str, tuple[Stored, list[Hook]]]] = {}
        # The hooks of a table, with its count of changes: nearly every write finds both unchanged.
        self._listed: dict[str, tuple[int, Sequence[Hook]]] = {}

    def hooks(self, plural: str) -> Sequence[Hook]:
        """Return the webhooks of one of the two kinds: by configuration, then as listed."""
        resource = self._api.registry.find(GROUP, "v1", plural)
        assert resource is not None
        table = self._api.table(resource)
        listed = self._listed.get(plural)
        if listed is not None and listed[0] == table.changes:
            return listed[1]
        found: list[Hook] = []
        before, self._parsed[plural] = self._parsed.get(plural, {}), {}
        for key in sorted(table.scan()):
            stored = table.get(key)
            if stored is None:
                continue
            known = before.get(key)
            if known is None or known[0] is not stored:
                entries = resource.load(stored).get("webhooks") or ()
                hooks = [Hook(f"{key}/{at}", entry) for at, entry in enumerate(entries)]
                known = (stored, hooks)
            self._parsed[plural][key] = known
            found += known[1]
        self._listed[plural] = (table.changes, found)
        return found
