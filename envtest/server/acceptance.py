"""What a CRD's status tells: which of its names are accepted, and how it stands with its group.

The names of one group are handed out in the order in which CRDs ask for them. One that asks for a
taken name waits; one that is served goes on under the names that it has.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from envtest.schema.crd.definition import ca_bundle_fault
from envtest.schema.gotext import quote
from envtest.server import objectmeta
from envtest.server.objectmeta import Body

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
    status, wanted = body["status"], body["spec"]["names"]
    resources, kinds = _taken(body["spec"]["group"], others)
    accepted = dict(status.get("acceptedNames") or {})
    verdict = ("True", "NoConflicts", "no conflicts found")
    for field, reason in _CONFLICTS.items():
        taken = kinds if field in {"kind", "listKind"} else resources
        held = accepted.get(field)
        fault = _conflict(wanted.get(field), held, taken)
        if fault:
            verdict = ("False", reason, fault)
        elif wanted.get(field):
            accepted[field] = wanted[field]
        else:
            accepted.pop(field, None)
    accepted = {**accepted, "categories": wanted.get("categories")}
    accepted = {name: value for name, value in accepted.items() if value is not None}
    changed = set_condition(status, "NamesAccepted", *verdict)
    if status.get("acceptedNames") != accepted:
        status["acceptedNames"] = accepted
        changed = True
    return changed and _announce(body, named=verdict[0] == "True")


def _announce(body: Body, *, named: bool) -> bool:
    """Say how far a CRD is whose names were decided about just now."""
    held, status = condition(body, "Established"), body["status"]
    if named and held != "True":
        set_condition(status, "Established", "False", "Installing", _ACCEPTED)
    elif held is None:
        text = "not all names are accepted"
        set_condition(status, "Established", "False", "NotAccepted", text)
    return True


def establish(body: Body) -> bool:
    """Let a CRD be served once all its names are accepted; tell whether its status changed.

    From then on it stays so. One whose conversion webhook is to be trusted by what is no
    certificate waits for another.
    """
    if condition(body, "NamesAccepted") != "True" or condition(body, "Established") == "True":
        return False
    if ca_bundle_fault(body["spec"].get("conversion")):
        text = "The conversion webhook CABundle is invalid"
        return set_condition(body["status"], "Established", "False", "InvalidCABundle", text)
    return set_condition(body["status"], "Established", "True", "InitialNamesAccepted", _ACCEPTED)


def _taken(group: str, others: Iterable[Body]) -> tuple[set[str], set[str]]:
    """Return the resource names and the kinds that other CRDs of a group hold."""
    resources: set[str] = set()
    kinds: set[str] = set()
    for other in others:
        if other["spec"]["group"] != group:
            continue
        held = other.get("status", {}).get("acceptedNames") or {}
        resources |= {held.get("plural", ""), held.get("singular", "")}
        resources |= set(held.get("shortNames") or ())
        kinds |= {held.get("kind", ""), held.get("listKind", "")}
    return resources - {""}, kinds - {""}


def _conflict(wanted: Any, held: Any, taken: set[str]) -> str:
    """Return what is said of names that others hold; nothing if all can be had."""
    if isinstance(wanted, list):
        had = set(held or ())
        found = [name for name in wanted if name not in had and name in taken]
    else:
        found = [wanted] if wanted and wanted != held and wanted in taken else []
    told = [f"{quote(name)} is already in use" for name in dict.fromkeys(found)]
    return f"[{', '.join(told)}]" if len(told) > 1 else "".join(told)


def judge_approval(body: Body) -> bool:
    """Say of a CRD in one of Kubernetes' own groups who approved it; tell if that is news."""
    if not f".{body['spec']['group']}".endswith((".k8s.io", ".kubernetes.io")):
        return False
    value = (body["metadata"].get("annotations") or {}).get(_APPROVAL, "")
    verdict = ("True", "ApprovedAnnotation", f"approved in {value}")
    if value.startswith("unapproved"):
        verdict = ("False", "UnapprovedAnnotation", f"not approved: {quote(value)}")
    return set_condition(body["status"], "KubernetesAPIApprovalPolicyConformant", *verdict)


def condition(body: Mapping[str, Any], kind: str) -> str | None:
    """Return the status of a condition, if it is there."""
    for one in body.get("status", {}).get("conditions") or ():
        if one["type"] == kind:
            return str(one["status"])
    return None


def set_condition(status: Body, kind: str, value: str, reason: str, message: str) -> bool:
    """Set a condition; tell whether it changed."""
    conditions = list(status.get("conditions") or ())
    wanted = {"type": kind, "status": value, "reason": reason, "message": message}
    for at, one in enumerate(conditions):
        if one["type"] == kind:
            if {name: one.get(name) for name in wanted} == wanted:
                return False
            same = one["status"] == value
            since = one["lastTransitionTime"] if same else objectmeta.timestamp()
            conditions[at] = {**wanted, "lastTransitionTime": since}
            break
    else:
        conditions.append({**wanted, "lastTransitionTime": objectmeta.timestamp()})
    status["conditions"] = conditions
    return True
