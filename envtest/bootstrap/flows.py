"""The default flow schemas and priority levels, and the range of services, as objects."""

from collections.abc import Iterator
from typing import Any, Final

from envtest.builtins.flowdefaults import FLOWS, LEVELS
from envtest.server import objectmeta

Body = dict[str, Any]

_UPDATED: Final = {"apf.kubernetes.io/autoupdate-spec": "true"}


def priority_levels() -> Iterator[Body]:
    """Yield the priority levels that every server has."""
    for name, spec in LEVELS.items():
        yield {"metadata": {"name": name, "annotations": dict(_UPDATED)}, "spec": spec}


def flow_schemas() -> Iterator[Body]:
    """Yield the flow schemas that every server has, as they stand when their levels were found."""
    for name, spec in FLOWS.items():
        level = spec["priorityLevelConfiguration"]["name"]
        found = f'"{level}" and it exists'
        condition = {
            "type": "Dangling",
            "status": "False",
            "lastTransitionTime": objectmeta.timestamp(),
            "reason": "Found",
            "message": (
                f"This FlowSchema references the PriorityLevelConfiguration object named {found}"
            ),
        }
        yield {
            "metadata": {"name": name, "annotations": dict(_UPDATED)},
            "spec": spec,
            "status": {"conditions": [condition]},
        }


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
