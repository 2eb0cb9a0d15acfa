"""From CustomResourceDefinitions to served resources: names, establishment, clean-up.

The parts of kube-apiserver that do this are controllers. Here it happens in the same turn of the
event loop as the write that it follows: nobody has to wait, and there is nothing to race with.
"""

from collections.abc import Iterator

import msgspec

from envtest.patching import track_update
from envtest.server import objectmeta
from envtest.server.acceptance import (
    CLEANUP,
    accept_names,
    condition,
    establish,
    judge_approval,
    set_condition,
)
from envtest.server.api import Api
from envtest.server.customresources import Definition
from envtest.server.objectmeta import Body
from envtest.storage import Event, Stored

_PLACE = "apiextensions.k8s.io/customresourcedefinitions"


class Definitions:
    """Follows CRDs and keeps the registry in step."""

    def __init__(self, api: Api) -> None:
        self._api = api
        # plural.group -> what of a CRD decides how it is served, and the version that is stored.
        self._served: dict[str, tuple[Body, Body]] = {}
        self._stored_as: dict[str, str] = {}
        # Where the objects of terminating CRDs are, with the CRD that waits for their end.
        self._waiting: dict[str, str] = {}
        # What the others have to know of each CRD, with the revision that it was read from.
        self._known: dict[str, tuple[int, Body]] = {}
        found = api.registry.find("apiextensions.k8s.io", "v1", "customresourcedefinitions")
        assert found is not None
        self._resource = found

    def attach(self) -> None:
        """Settle what is there, and from now on every CRD as soon as it changes."""
        self.settle()
        self._api.store.listeners.append(self._notice)

    def _notice(self, place: str, event: Event) -> None:
        """Follow one change; own writes come back here and find nothing left to do."""
        if place != _PLACE:
            waiting = self._waiting.get(place)
            if waiting is not None and event.type == "DELETED":
                self._settle_one(waiting)
            return
        if event.type != "DELETED":
            self._settle_one(event.current.key)
        elif event.current.key in self._served:
            self._withdraw(event.current.key)
        if event.type == "DELETED":
            self._known.pop(event.current.key, None)
            # Names that it held may be what another CRD waits for.
            self.settle()

    def settle(self) -> None:
        """Bring every CRD as far as it can get now."""
        table = self._api.store.table(_PLACE)
        for key in list(table.scan()):
            self._settle_one(key)
        for name in [name for name in self._served if table.get(name) is None]:
            self._withdraw(name)

    def _settle_one(self, key: str) -> None:
        """Bring one CRD as far as it can get; done when a step writes nothing."""
        table = self._api.store.table(_PLACE)
        while (stored := table.get(key)) is not None and self._step(stored):
            pass

    def _step(self, stored: Stored) -> bool:
        """Do one thing for a CRD; tell whether something was written."""
        live = self._resource.load(stored)
        body = {**live, "metadata": dict(live["metadata"]), "status": dict(live["status"])}
        if "deletionTimestamp" in live["metadata"]:
            return self._clean_up(live, body)
        named = body["spec"]["names"] == body["status"].get("acceptedNames")
        if not named and accept_names(body, self._others(live["metadata"]["name"])):
            return self._write(live, body)
        if judge_approval(body) or establish(body):
            return self._write(live, body)
        if condition(body, "Established") == "True":
            self._serve(body)
        return False

    def _others(self, name: str) -> Iterator[Body]:
        table = self._api.store.table(_PLACE)
        for key in table.scan():
            stored = table.get(key)
            if stored is not None and key != name:
                yield self._brief(stored)

    def _brief(self, stored: Stored) -> Body:
        """Return a CRD's group and names, all that others ask; schemas are too long for that."""
        known = self._known.get(stored.key)
        if known is None or known[0] != stored.revision:
            body = self._resource.load(stored)
            names = (body.get("status") or {}).get("acceptedNames") or {}
            brief = {"spec": {"group": body["spec"]["group"]}, "status": {"acceptedNames": names}}
            known = self._known[stored.key] = stored.revision, brief
        return known[1]

    def _serve(self, body: Body) -> None:
        """Put every served version into the registry."""
        name, spec = body["metadata"]["name"], body["spec"]
        shown = (spec, body["status"].get("acceptedNames") or {})
        before = self._served.get(name)
        if before == shown:
            return
        definition = Definition(self._api, body)
        self._api.registry.remove(spec["group"], spec["names"]["plural"])
        for resource in definition.resources():
            self._api.registry.add(resource)
        self._served[name] = shown
        if before is not None or body["metadata"]["generation"] > 1:
            definition.refit(self._api, self._stored_as.get(name, definition.storage))
        self._stored_as[name] = definition.storage
        self._api.registry.announce()

    def _withdraw(self, name: str) -> None:
        """Serve a CRD no more."""
        plural, _, group = name.partition(".")
        self._api.registry.remove(group, plural)
        self._api.store.drop(f"{group}/{plural}")
        self._waiting.pop(f"{group}/{plural}", None)
        del self._served[name]
        self._stored_as.pop(name, None)
        self._api.registry.announce()

    def _clean_up(self, live: Body, body: Body) -> bool:
        """Remove a terminating CRD's objects; let it go when the last one is gone."""
        meta, status = body["metadata"], body["status"]
        if CLEANUP not in meta.get("finalizers", ()):
            return False
        place = f"{body['spec']['group']}/{body['spec']['names']['plural']}"
        text = "CustomResource deletion is in progress"
        if set_condition(status, "Terminating", "True", "InstanceDeletionInProgress", text):
            return self._write(live, body)
        if condition(body, "Established") != "True":
            return self._let_go(live, body, "NeverEstablished", "resource was never established")
        self._api.ending.add(place)
        # What is removed here is not news: the loop below goes on by itself.
        self._waiting.pop(place, None)
        table = self._api.store.table(place)
        for key in list(table.scan()):
            self._remove(place, key)
        if len(table):
            self._waiting[place] = meta["name"]
            return False
        self._api.ending.discard(place)
        return self._let_go(live, body, "InstanceDeletionCompleted", "removed all instances")

    def _remove(self, place: str, key: str) -> None:
        """Remove an object of a terminating CRD, or mark it where it has finalizers."""
        stored = self._api.store.table(place).get(key)
        if stored is None:
            return
        body = msgspec.json.decode(stored.body)
        meta = body["metadata"]
        if not meta.get("finalizers"):
            self._api.store.delete(place, key)
        elif "deletionTimestamp" not in meta:
            meta["deletionTimestamp"] = objectmeta.timestamp()
            meta["deletionGracePeriodSeconds"] = 0
            meta["generation"] = meta.get("generation", 0) + 1
            self._api.store.write(place, key, body)

    def _let_go(self, live: Body, body: Body, reason: str, message: str) -> bool:
        meta = body["metadata"]
        set_condition(body["status"], "Terminating", "False", reason, message)
        meta["finalizers"] = [one for one in meta["finalizers"] if one != CLEANUP]
        if meta["finalizers"]:
            return self._write(live, body)
        self._api.store.delete(_PLACE, meta["name"])
        return False

    def _write(self, live: Body, body: Body) -> bool:
        self._own(live, body)
        self._api.store.write(_PLACE, body["metadata"]["name"], self._resource.stored_form(body))
        return True

    def _own(self, live: Body, body: Body) -> None:
        """Note that the server itself wrote this status."""
        track_update(
            live,
            body,
            manager="kube-apiserver",
            fields=self._resource.rules.model(),
            api_version=self._resource.api_version,
            subresource="status",
            now=objectmeta.timestamp(),
        )
