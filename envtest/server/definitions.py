"""From CustomResourceDefinitions to served resources: names, establishment, clean-up.

The parts of kube-apiserver that do this are controllers. Here it happens in the same turn of the
event loop as the write that it follows: no client has to wait, and no other task runs in between.

The names of one group are handed out in the order in which CRDs ask for them. One that asks for a
taken name waits; one that is served goes on under the names that it has.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec

from controller.managedfields import track_update
from controller.managedfields.gotext import quote
from envtest.server import objectmeta
from envtest.server.api import Api
from envtest.server.custom import Definition
from envtest.server.objectmeta import Body
from envtest.storage import Stored, StoredChange

_PLACE = "apiextensions.k8s.io/customresourcedefinitions"


class Definitions:
    """Follows CRDs and keeps the registry up to date."""

    def __init__(self, api: Api) -> None:
        self._api = api
        # plural.group -> what of a CRD decides how it is served.
        self._served: dict[str, tuple[Body, Body]] = {}
        # Where the objects of terminating CRDs are, with the CRD that waits for their end.
        self._waiting: dict[str, str] = {}
        # What the others have to know of each CRD, with the revision that it was read from.
        self._known: dict[str, tuple[int, Body]] = {}
        resource = api.registry.find("apiextensions.k8s.io", "v1", "customresourcedefinitions")
        assert resource is not None
        self._resource = resource

    def attach(self) -> None:
        """Process the present CRDs, then each CRD as soon as it changes."""
        self.settle()
        self._api.store.listeners.append(self._notice)

    def _notice(self, place: str, event: StoredChange) -> None:
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
        """Process every CRD."""
        table = self._api.store.table(_PLACE)
        for key in list(table.scan()):
            self._settle_one(key)
        for name in [name for name in self._served if table.get(name) is None]:
            self._withdraw(name)

    def _settle_one(self, key: str) -> None:
        """Take steps for one CRD until a step writes nothing."""
        table = self._api.store.table(_PLACE)
        while (stored := table.get(key)) is not None and self._step(stored):
            pass

    def _step(self, stored: Stored) -> bool:
        """Take one step for a CRD; return whether it was written, so that another step follows."""
        live = self._resource.load(stored)
        # The copy is changed and written. The original stays, to see which fields the write owns.
        body = {**live, "metadata": dict(live["metadata"]), "status": dict(live["status"])}
        if "deletionTimestamp" in live["metadata"]:
            return self._clean_up(live, body)
        are_names_accepted = body["spec"]["names"] == body["status"].get("acceptedNames")
        if not are_names_accepted and accept_names(body, self._others(live["metadata"]["name"])):
            return self._write(live, body)
        if set_approval_condition(body) or establish(body):
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
        state = (spec, body["status"].get("acceptedNames") or {})
        before = self._served.get(name)
        if before == state:
            return
        definition = Definition(body)
        self._api.registry.remove(spec["group"], spec["names"]["plural"])
        for resource in definition.resources():
            self._api.registry.add(resource)
        self._served[name] = state
        if before is not None or body["metadata"]["generation"] > 1:
            definition.convert_stored(self._api)

    def _withdraw(self, name: str) -> None:
        """Stop serving a CRD."""
        plural, _, group = name.partition(".")
        self._api.registry.remove(group, plural)
        self._api.store.drop(f"{group}/{plural}")
        self._waiting.pop(f"{group}/{plural}", None)
        del self._served[name]

    def _clean_up(self, live: Body, body: Body) -> bool:
        """Remove a terminating CRD's objects, then the CRD.

        Args:
            live: the CRD as it is stored.
            body: a copy of it, to be changed and written.

        Returns:
            Whether the CRD was written, so that another step follows. Not while objects with
            finalizers remain: their deletion starts the next step.
        """
        meta, status = body["metadata"], body["status"]
        if CLEANUP not in meta.get("finalizers", ()):
            return False
        place = f"{body['spec']['group']}/{body['spec']['names']['plural']}"
        message = "CustomResource deletion is in progress"
        if set_condition(
            status,
            "Terminating",
            value="True",
            reason="InstanceDeletionInProgress",
            message=message,
        ):
            return self._write(live, body)
        if condition(body, "Established") != "True":
            return self._finish_deletion(
                live, body, reason="NeverEstablished", message="resource was never established"
            )
        self._api.ending.add(place)
        # Removals from here need no new pass: the loop below goes on by itself.
        self._waiting.pop(place, None)
        table = self._api.store.table(place)
        for key in list(table.scan()):
            self._remove(place, key)
        if len(table):
            self._waiting[place] = meta["name"]
            return False
        self._api.ending.discard(place)
        return self._finish_deletion(
            live, body, reason="InstanceDeletionCompleted", message="removed all instances"
        )

    def _remove(self, place: str, key: str) -> None:
        """Remove an object of a terminating CRD; one with finalizers is marked as terminating."""
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

    def _finish_deletion(self, live: Body, body: Body, reason: str, message: str) -> bool:
        """Drop the server's own finalizer of a terminating CRD that has no objects (any more).

        If it was the last finalizer, delete the CRD.

        Args:
            live: the CRD as it is stored.
            body: a copy of it, to be changed and written.
            reason: of the condition Terminating, which becomes False.
            message: of that condition.

        Returns:
            Whether the CRD was written, so that another step follows; not if it was deleted.
        """
        meta = body["metadata"]
        set_condition(body["status"], "Terminating", value="False", reason=reason, message=message)
        meta["finalizers"] = [
            finalizer for finalizer in meta["finalizers"] if finalizer != CLEANUP
        ]
        if meta["finalizers"]:
            return self._write(live, body)
        self._api.store.delete(_PLACE, meta["name"])
        return False

    def _write(self, live: Body, body: Body) -> bool:
        """Write a CRD with a new status; return True, as another step follows each write.

        Args:
            live: the CRD as it is stored.
            body: the changed copy of it.
        """
        self._track_status(live, body)
        self._api.store.write(_PLACE, body["metadata"]["name"], self._resource.stored_form(body))
        return True

    def _track_status(self, live: Body, body: Body) -> None:
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


CLEANUP = "customresourcecleanup.apiextensions.k8s.io"
_APPROVAL = "api-approved.kubernetes.io"
_ACCEPTED = "the initial names have been accepted"
_CONFLICTS = {
    "plural": "PluralConflict",
    "singular": "SingularConflict",
    "shortNames": "ShortNamesConflict",
    "kind": "KindConflict",
    "listKind": "ListKindConflict",
}


def accept_names(body: Body, others: Iterable[Body]) -> bool:
    """Decide about a CRD's names; tell whether its status changed.

    Args:
        body: the CRD; its status is changed in place.
        others: the other CRDs.
    """
    status, names = body["status"], body["spec"]["names"]
    resources, kinds = _collect_used_names(body["spec"]["group"], others)
    accepted = dict(status.get("acceptedNames") or {})
    verdict = ("True", "NoConflicts", "no conflicts found")
    for field, reason in _CONFLICTS.items():
        used_names = kinds if field in {"kind", "listKind"} else resources
        accepted_name = accepted.get(field)
        fault = _conflict(names.get(field), accepted_name, used_names)
        if fault:
            verdict = ("False", reason, fault)
        elif names.get(field):
            accepted[field] = names[field]
        else:
            accepted.pop(field, None)
    accepted = {**accepted, "categories": names.get("categories")}
    accepted = {name: value for name, value in accepted.items() if value is not None}
    changed = set_condition(status, "NamesAccepted", *verdict)
    if status.get("acceptedNames") != accepted:
        status["acceptedNames"] = accepted
        changed = True
    if changed:
        _set_established(body, are_names_accepted=verdict[0] == "True")
    return changed


def _set_established(body: Body, *, are_names_accepted: bool) -> None:
    """Set the condition Established of a CRD whose names were just accepted or refused."""
    established, status = condition(body, "Established"), body["status"]
    if are_names_accepted and established != "True":
        set_condition(status, "Established", value="False", reason="Installing", message=_ACCEPTED)
    elif established is None:
        message = "not all names are accepted"
        set_condition(status, "Established", value="False", reason="NotAccepted", message=message)


def establish(body: Body) -> bool:
    """Let a CRD be served once all its names are accepted; tell whether its status changed.

    From then on it stays so.
    """
    if condition(body, "NamesAccepted") != "True" or condition(body, "Established") == "True":
        return False
    return set_condition(
        body["status"],
        "Established",
        value="True",
        reason="InitialNamesAccepted",
        message=_ACCEPTED,
    )


def _collect_used_names(group: str, others: Iterable[Body]) -> tuple[set[str], set[str]]:
    """Return the resource names and the kinds that other CRDs of a group hold."""
    resources: set[str] = set()
    kinds: set[str] = set()
    for other in others:
        if other["spec"]["group"] != group:
            continue
        names = other.get("status", {}).get("acceptedNames") or {}
        resources |= {names.get("plural", ""), names.get("singular", "")}
        resources |= set(names.get("shortNames") or ())
        kinds |= {names.get("kind", ""), names.get("listKind", "")}
    return resources - {""}, kinds - {""}


def _conflict(requested: Any, accepted: Any, used: set[str]) -> str:
    """Return why names cannot be had that other CRDs hold; empty if all can."""
    if isinstance(requested, list):
        had = set(accepted or ())
        conflicts = [name for name in requested if name not in had and name in used]
    else:
        conflicts = (
            [requested] if requested and requested != accepted and requested in used else []
        )
    faults = [f"{quote(name)} is already in use" for name in dict.fromkeys(conflicts)]
    return f"[{', '.join(faults)}]" if len(faults) > 1 else "".join(faults)


def set_approval_condition(body: Body) -> bool:
    """Set the condition of a CRD in one of Kubernetes' own groups that says who approved it."""
    if not f".{body['spec']['group']}".endswith((".k8s.io", ".kubernetes.io")):
        return False
    value = (body["metadata"].get("annotations") or {}).get(_APPROVAL, "")
    verdict = ("True", "ApprovedAnnotation", f"approved in {value}")
    if value.startswith("unapproved"):
        verdict = ("False", "UnapprovedAnnotation", f"not approved: {quote(value)}")
    return set_condition(body["status"], "KubernetesAPIApprovalPolicyConformant", *verdict)


def condition(body: Mapping[str, Any], kind: str) -> str | None:
    """Return the status of a condition, if it is there."""
    for entry in body.get("status", {}).get("conditions") or ():
        if entry["type"] == kind:
            return str(entry["status"])
    return None


def set_condition(status: Body, kind: str, value: str, reason: str, message: str) -> bool:
    """Set a condition; tell whether it changed."""
    conditions = list(status.get("conditions") or ())
    new_fields = {"type": kind, "status": value, "reason": reason, "message": message}
    for at, entry in enumerate(conditions):
        if entry["type"] == kind:
            if {name: entry.get(name) for name in new_fields} == new_fields:
                return False
            same = entry["status"] == value
            since = entry["lastTransitionTime"] if same else objectmeta.timestamp()
            conditions[at] = {**new_fields, "lastTransitionTime": since}
            break
    else:
        conditions.append({**new_fields, "lastTransitionTime": objectmeta.timestamp()})
    status["conditions"] = conditions
    return True
