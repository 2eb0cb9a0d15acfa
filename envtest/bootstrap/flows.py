"""The default flow schemas and priority levels, and the range of services.

Also what becomes of flow schemas whose levels come and go.
"""

from collections.abc import Iterator
from typing import Any, Final

from envtest.bootstrap.writing import Writer
from envtest.builtins.flowcontrol import FLOW_GROUP, LEVELS_PLACE, FlowSchemaRules
from envtest.builtins.flowdefaults import FLOWS, LEVELS
from envtest.server import objectmeta
from envtest.server.api import Api
from envtest.storage import Event

Body = dict[str, Any]

_UPDATED: Final = {"apf.kubernetes.io/autoupdate-spec": "true"}


def priority_levels() -> Iterator[Body]:
    """Yield the priority levels that every server has."""
    for name, spec in LEVELS.items():
        yield {"metadata": {"name": name, "annotations": dict(_UPDATED)}, "spec": spec}


def flow_schemas() -> Iterator[Body]:
    """Yield the flow schemas that every server has."""
    for name, spec in FLOWS.items():
        yield {"metadata": {"name": name, "annotations": dict(_UPDATED)}, "spec": spec}


def service_range(text: str) -> Iterator[Body]:
    """Yield the range from which services get their addresses.

    Args:
        text: as 10.96.0.0/16.
    """
    condition = {
        "type": "Ready",
        "status": "True",
        "lastTransitionTime": objectmeta.timestamp(),
        "reason": "",
        "message": "Kubernetes default Service CIDR is ready",
    }
    yield {
        "metadata": {"name": "kubernetes"},
        "spec": {"cidrs": [text]},
        "status": {"conditions": [condition]},
    }


class FlowConditions:
    """Lets flow schemas say whether their levels are there, as levels come and go."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._writer = Writer(api)
        self._schemas = self._writer.find(FLOW_GROUP, "flowschemas")

    def attach(self) -> None:
        """From now on follow every level."""
        self._api.store.table(LEVELS_PLACE).listeners.append(self._notice)

    def _notice(self, event: Event) -> None:
        if event.type == "MODIFIED":
            return
        rules = self._schemas.rules
        assert isinstance(rules, FlowSchemaRules)
        for key in list(self._api.table(self._schemas).scan()):
            live = self._writer.get(self._schemas, {"name": key})
            if live is not None:
                body = {**live, "metadata": dict(live["metadata"])}
                self._writer.update(
                    self._schemas, live, {**body, "status": rules.referenced(live)}
                )
