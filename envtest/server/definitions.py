"""From CustomResourceDefinitions to served resources: names, establishment, clean-up.

The parts of kube-apiserver that do this are controllers. Here it happens in the same turn of the
event loop as the write that it follows: no client has to wait, and no other task runs in between.

Within a group, each name belongs to the first CRD that asks for it. A later CRD that asks for the
same name is not established until the name is free. A CRD that is served already and then asks for
a name of another CRD is served under its old names.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec

from controller.managedfields import track_update
from controller.managedfields.gotext import quote
from envtest.server import objectmeta
from envtest.server.api import Api
from envtest.server.custom import EstablishedCrd
from envtest.server.objectmeta import Body
from envtest.storage import StoredChange, StoredObject

_CRD_TABLE = "apiextensions.k8s.io/customresourcedefinitions"


class CrdController:
    """Follows CRDs and keeps the registry up to date."""

    def __init__(self, api: Api) -> None:
        self._api = api
        # plural.group -> the spec and the accepted names under which a CRD is served.
        self._served_states: dict[str, tuple[Body, Body]] = {}
        # Table of custom resources -> the terminating CRD that waits until they are deleted.
        self._waiting_crds: dict[str, str] = {}
        # plural.group -> the revision and the brief of a CRD (see `_read_brief`).
        self._briefs: dict[str, tuple[int, Body]] = {}
        resource = api.registry.find("apiextensions.k8s.io", "v1", "customresourcedefinitions")
        assert resource is not None
        self._resource = resource

    def subscribe_to_store(self) -> None:
        """Process the present CRDs, then each CRD as soon as it changes."""
        self._process_all_crds()
        self._api.store.listeners.append(self._process_change)

    def _process_change(self, table_name: str, event: StoredChange) -> None:
        """Process the CRDs that one change concerns; `table_name` is that of the changed object.

        Writes by this class arrive here, too; they find nothing left to do.
        """
        if table_name != _CRD_TABLE:
            # The last object of a terminating CRD may be gone, so the CRD can be deleted.
            waiting_crd = self._waiting_crds.get(table_name)
            if waiting_crd is not None and event.type == "DELETED":
                self._process_crd(waiting_crd)
            return
        name = event.current.key
        if event.type != "DELETED":
            self._process_crd(name)
            return
        # A CRD that was not established is not served.
        if name in self._served_states:
            self._stop_serving(name)
        self._briefs.pop(name, None)
        # Another CRD may wait for names that the deleted CRD had.
        self._process_all_crds()

    def _process_all_crds(self) -> None:
        """Take steps for every CRD, and stop serving CRDs that are no longer stored."""
        table = self._api.store.get_table(_CRD_TABLE)
        for key in list(table.iterate_keys()):
            self._process_crd(key)
        for name in [name for name in self._served_states if table.get(name) is None]:
            self._stop_serving(name)

    def _process_crd(self, key: str) -> None:
        """Take steps for one CRD until it is deleted or a step writes nothing."""
        table = self._api.store.get_table(_CRD_TABLE)
        while (stored := table.get(key)) is not None and self._take_step(stored):
            pass

    def _take_step(self, stored: StoredObject) -> bool:
        """Take the first step that a CRD needs; return whether the CRD was written.

        Steps: clean up a terminating CRD; decide about its names; set its approval; establish it;
        serve it. The last step writes nothing.
        """
        live = self._resource.decode_object(stored)
        # The steps change this copy. managedFields are computed from its differences to `live`.
        body = {**live, "metadata": dict(live["metadata"]), "status": dict(live["status"])}
        if "deletionTimestamp" in live["metadata"]:
            return self._delete_custom_resources(live, body)
        are_names_accepted = body["spec"]["names"] == body["status"].get("acceptedNames")
        other_crds = self._read_other_crds(live["metadata"]["name"])
        if not are_names_accepted and accept_names(body, other_crds):
            return self._write_crd(live, body)
        if set_approval_condition(body) or set_established_when_accepted(body):
            return self._write_crd(live, body)
        if read_condition(body, "Established") == "True":
            self._serve_crd(body)
        return False

    def _read_other_crds(self, name: str) -> Iterator[Body]:
        """Yield the briefs of all CRDs but the named one."""
        table = self._api.store.get_table(_CRD_TABLE)
        for key in table.iterate_keys():
            stored = table.get(key)
            if stored is not None and key != name:
                yield self._read_brief(stored)

    def _read_brief(self, stored: StoredObject) -> Body:
        """Return a CRD reduced to its group and accepted names, which `accept_names` reads.

        Briefs are cached, because decoding all schemas at each change of a CRD takes too long.
        """
        cached = self._briefs.get(stored.key)
        if cached is None or cached[0] != stored.revision:
            body = self._resource.decode_object(stored)
            names = (body.get("status") or {}).get("acceptedNames") or {}
            brief = {"spec": {"group": body["spec"]["group"]}, "status": {"acceptedNames": names}}
            cached = self._briefs[stored.key] = stored.revision, brief
        return cached[1]

    def _serve_crd(self, body: Body) -> None:
        """Put every served version into the registry, in place of the previous ones."""
        name, spec = body["metadata"]["name"], body["spec"]
        state = (spec, body["status"].get("acceptedNames") or {})
        previous_state = self._served_states.get(name)
        if previous_state == state:
            # Only metadata or conditions changed.
            return
        definition = EstablishedCrd(body)
        self._api.registry.remove(spec["group"], spec["names"]["plural"])
        for resource in definition.build_resources():
            self._api.registry.add(resource)
        self._served_states[name] = state
        # Objects may be stored under an older schema. After a restart, when no previous state is
        # known, a generation above 1 says so: the spec was changed.
        if previous_state is not None or body["metadata"]["generation"] > 1:
            definition.convert_stored(self._api)

    def _stop_serving(self, name: str) -> None:
        """Stop serving a deleted CRD, and drop its objects with their history."""
        plural, _, group = name.partition(".")
        self._api.registry.remove(group, plural)
        self._api.store.drop_table(f"{group}/{plural}")
        self._waiting_crds.pop(f"{group}/{plural}", None)
        del self._served_states[name]

    def _delete_custom_resources(self, live: Body, body: Body) -> bool:
        """Remove a terminating CRD's objects, then the CRD.

        Args:
            live: the CRD as it is stored.
            body: a copy of it, to be changed and written.

        Returns:
            Whether the CRD was written, so that another step follows. False while objects with
            finalizers remain: their deletion starts the next step.
        """
        meta, status = body["metadata"], body["status"]
        if CLEANUP_FINALIZER not in meta.get("finalizers", ()):
            # The objects are removed already; the CRD waits for finalizers of others.
            return False
        table_name = f"{body['spec']['group']}/{body['spec']['names']['plural']}"
        message = "CustomResource deletion is in progress"
        if set_condition(
            status,
            "Terminating",
            value="True",
            reason="InstanceDeletionInProgress",
            message=message,
        ):
            return self._write_crd(live, body)
        # A CRD that was never served has no objects.
        if read_condition(body, "Established") != "True":
            return self._finish_deletion(
                live, body, reason="NeverEstablished", message="resource was never established"
            )
        self._api.terminating_tables.add(table_name)
        # The removals below call `_process_change`, which must not start this step again.
        self._waiting_crds.pop(table_name, None)
        table = self._api.store.get_table(table_name)
        for key in list(table.iterate_keys()):
            self._remove_custom_resource(table_name, key)
        if len(table):
            self._waiting_crds[table_name] = meta["name"]
            return False
        self._api.terminating_tables.discard(table_name)
        return self._finish_deletion(
            live, body, reason="InstanceDeletionCompleted", message="removed all instances"
        )

    def _remove_custom_resource(self, table_name: str, key: str) -> None:
        """Remove an object of a terminating CRD; one with finalizers is marked as terminating."""
        stored = self._api.store.get_table(table_name).get(key)
        if stored is None:
            return
        body = msgspec.json.decode(stored.body)
        meta = body["metadata"]
        if not meta.get("finalizers"):
            self._api.store.delete(table_name, key)
        elif "deletionTimestamp" not in meta:
            meta["deletionTimestamp"] = objectmeta.format_current_time()
            meta["deletionGracePeriodSeconds"] = 0
            meta["generation"] = meta.get("generation", 0) + 1
            self._api.store.write(table_name, key, body)

    def _finish_deletion(self, live: Body, body: Body, reason: str, message: str) -> bool:
        """Remove the server's own finalizer from a terminating CRD without custom resources.

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
            finalizer for finalizer in meta["finalizers"] if finalizer != CLEANUP_FINALIZER
        ]
        if meta["finalizers"]:
            return self._write_crd(live, body)
        self._api.store.delete(_CRD_TABLE, meta["name"])
        return False

    def _write_crd(self, live: Body, body: Body) -> bool:
        """Write a CRD with a new status; return True, as another step follows each write.

        Args:
            live: the CRD as it is stored.
            body: the changed copy of it.
        """
        self._record_status_manager(live, body)
        self._api.store.write(
            _CRD_TABLE, body["metadata"]["name"], self._resource.to_stored_form(body)
        )
        return True

    def _record_status_manager(self, live: Body, body: Body) -> None:
        """Record the server itself as manager of the fields of the status that it changed."""
        track_update(
            live,
            body,
            manager="kube-apiserver",
            fields=self._resource.rules.get_field_model(),
            api_version=self._resource.api_version,
            subresource="status",
            now=objectmeta.format_current_time(),
        )


CLEANUP_FINALIZER = "customresourcecleanup.apiextensions.k8s.io"
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
    """Decide which requested names a CRD gets; return whether its status changed.

    A name that another CRD has is not accepted; the CRD keeps the accepted name it has, if any.

    Args:
        body: the CRD; its status is changed in place.
        others: the other CRDs.
    """
    status, names = body["status"], body["spec"]["names"]
    resources, kinds = _collect_used_names(body["spec"]["group"], others)
    accepted = dict(status.get("acceptedNames") or {})
    verdict = ("True", "NoConflicts", "no conflicts found")
    # Of several conflicts, the condition reports the last one, as in kube-apiserver.
    for field, reason in _CONFLICTS.items():
        used_names = kinds if field in {"kind", "listKind"} else resources
        fault = _describe_conflict(names.get(field), accepted.get(field), used_names)
        if fault:
            verdict = ("False", reason, fault)
        elif names.get(field):
            accepted[field] = names[field]
        else:
            accepted.pop(field, None)
    # Several CRDs may have the same category, so categories cannot conflict.
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
    """Set the condition Established of a CRD whose names were just accepted or refused.

    A CRD that is established stays so, also when it asks for new names that are refused.
    """
    established, status = read_condition(body, "Established"), body["status"]
    if are_names_accepted and established != "True":
        # `establish` sets it to True in the next step. Clients can see both states in a watch.
        set_condition(status, "Established", value="False", reason="Installing", message=_ACCEPTED)
    elif established is None:
        message = "not all names are accepted"
        set_condition(status, "Established", value="False", reason="NotAccepted", message=message)


def set_established_when_accepted(body: Body) -> bool:
    """Set Established to True once all names of a CRD are accepted; return whether it changed.

    The condition never becomes False again.
    """
    if read_condition(body, "NamesAccepted") != "True":
        return False
    if read_condition(body, "Established") == "True":
        return False
    return set_condition(
        body["status"],
        "Established",
        value="True",
        reason="InitialNamesAccepted",
        message=_ACCEPTED,
    )


def _collect_used_names(group: str, others: Iterable[Body]) -> tuple[set[str], set[str]]:
    """Return the resource names and the kinds that were accepted for other CRDs of a group."""
    resources: set[str] = set()
    kinds: set[str] = set()
    for crd in others:
        if crd["spec"]["group"] != group:
            continue
        names = crd.get("status", {}).get("acceptedNames") or {}
        resources |= {names.get("plural", ""), names.get("singular", "")}
        resources |= set(names.get("shortNames") or ())
        kinds |= {names.get("kind", ""), names.get("listKind", "")}
    return resources - {""}, kinds - {""}


def _describe_conflict(requested: Any, accepted: Any, used: set[str]) -> str:
    """Return a sentence about the requested names that other CRDs have; empty if all are free.

    Args:
        requested: the value of a field of `spec.names`: a name, a list of names or None.
        accepted: the value of the same field of `status.acceptedNames`.
        used: the names of other CRDs.
    """
    if isinstance(requested, list):
        accepted_names = set(accepted or ())
        conflicts = [name for name in requested if name not in accepted_names and name in used]
    else:
        conflicts = (
            [requested] if requested and requested != accepted and requested in used else []
        )
    faults = [f"{quote(name)} is already in use" for name in dict.fromkeys(conflicts)]
    return f"[{', '.join(faults)}]" if len(faults) > 1 else "".join(faults)


def set_approval_condition(body: Body) -> bool:
    """Set the condition about API approval; return whether it changed.

    Only CRDs in groups of Kubernetes itself have the condition. Their annotation
    `api-approved.kubernetes.io` names the approval. Validation refuses a CRD of such a group
    without the annotation.
    """
    if not f".{body['spec']['group']}".endswith((".k8s.io", ".kubernetes.io")):
        return False
    value = (body["metadata"].get("annotations") or {}).get(_APPROVAL, "")
    verdict = ("True", "ApprovedAnnotation", f"approved in {value}")
    if value.startswith("unapproved"):
        verdict = ("False", "UnapprovedAnnotation", f"not approved: {quote(value)}")
    return set_condition(body["status"], "KubernetesAPIApprovalPolicyConformant", *verdict)


def read_condition(body: Mapping[str, Any], condition_type: str) -> str | None:
    """Return the status of a condition: True, False or Unknown; None if it is not set."""
    for entry in body.get("status", {}).get("conditions") or ():
        if entry["type"] == condition_type:
            return str(entry["status"])
    return None


def set_condition(
    status: Body, condition_type: str, value: str, reason: str, message: str
) -> bool:
    """Set a condition in a status, in place; return whether it changed."""
    conditions = list(status.get("conditions") or ())
    new_fields = {"type": condition_type, "status": value, "reason": reason, "message": message}
    for index, entry in enumerate(conditions):
        if entry["type"] == condition_type:
            if {name: entry.get(name) for name in new_fields} == new_fields:
                return False
            # Only a new status is a transition; a new reason or message is none.
            has_same_status = entry["status"] == value
            since = (
                entry["lastTransitionTime"]
                if has_same_status
                else objectmeta.format_current_time()
            )
            conditions[index] = {**new_fields, "lastTransitionTime": since}
            break
    else:
        conditions.append({**new_fields, "lastTransitionTime": objectmeta.format_current_time()})
    status["conditions"] = conditions
    return True
