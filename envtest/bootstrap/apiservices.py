"""APIServices of what this server serves itself: made at the start, kept in step with CRDs.

As the controllers autoregister and crdregistration of kube-apiserver do, but at once.
"""

from typing import Final

from envtest.bootstrap.writing import Body, Writer
from envtest.kinds.priorities import REGISTRATION, group_priority, version_priority
from envtest.server.api import Api
from envtest.storage import Event

_MANAGED: Final = "kube-aggregator.kubernetes.io/automanaged"


class ApiServices:
    """Keeps an APIService for each group version that is served."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._writer = Writer(api)
        self._resource = self._writer.find(REGISTRATION, "apiservices")

    def attach(self) -> None:
        """Make what is missing now, when other resources are served, and when one is deleted."""
        self.settle(starting=True)
        self._api.registry.listeners.append(self.settle)
        self._api.table(self._resource).listeners.append(self._notice)

    def _notice(self, event: Event) -> None:
        """Make what somebody deleted anew; own deletions find nothing to be made."""
        if event.type == "DELETED":
            self.settle()

    def settle(self, *, starting: bool = False) -> None:
        """Make what is missing, drop what is served no more.

        Args:
            starting: whether those of built-in groups are looked after, too, as only a start does.
        """
        writer, resource = self._writer, self._resource
        wanted = self._wanted(starting=starting)
        for body in wanted.values():
            live = writer.get(resource, body["metadata"])
            if live is None:
                writer.create(resource, body)
            elif _manager(live) and live["spec"] != body["spec"]:
                writer.update(resource, live, {**live, "spec": body["spec"]})
        for key in list(self._api.table(resource).scan()):
            if key in wanted:
                continue
            live = writer.get(resource, {"name": key})
            if live is not None and _manager(live) == "true":
                writer.delete(resource, live)

    def _wanted(self, *, starting: bool) -> dict[str, Body]:
        """Return the APIServices that there should be, by name."""
        custom = {
            (one.group, one.version): one.rules.custom
            for one in self._api.registry
            if one.group != REGISTRATION
        }
        return {
            f"{version}.{group}": _service(group, version, "true" if is_custom else "onstart")
            for (group, version), is_custom in custom.items()
            if is_custom or starting
        }


def _manager(body: Body) -> str:
    found: str = (body["metadata"].get("labels") or {}).get(_MANAGED, "")
    return found


def _service(group: str, version: str, managed: str) -> Body:
    spec: Body = {
        "version": version,
        "groupPriorityMinimum": group_priority(group),
        "versionPriority": version_priority(group, version),
    }
    if group:
        spec["group"] = group
    meta = {"name": f"{version}.{group}", "labels": {_MANAGED: managed}}
    return {"metadata": meta, "spec": spec}
