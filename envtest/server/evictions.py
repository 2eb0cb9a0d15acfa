"""Evictions: pods are deleted if the budget that covers them allows it.

The budgets' figures are those of their statuses. A cluster has a controller that counts pods; here
nobody does, so they are what clients wrote there.
"""

from collections.abc import Iterator
from typing import Any, Final

from envtest.server import failures
from envtest.server.api import Api
from envtest.server.bodies import read_as
from envtest.server.call import Call, Plain
from envtest.server.deletes import check_preconditions, remove
from envtest.server.failures import StatusError, bad_request
from envtest.server.objectmeta import timestamp
from envtest.server.options import write_options
from envtest.server.resource import Resource
from envtest.server.selectors import label_selector
from envtest.storage import Stored

_SCHEMA: Final = "io.k8s.api.policy.v1.Eviction"
_OVER: Final = frozenset({"Failed", "Pending", "Succeeded"})
_MOST_DISRUPTED: Final = 2000

Body = dict[str, Any]


async def evict(api: Api, call: Call) -> Plain:
    """Answer a POST to a pod's eviction.

    Raises:
        StatusError: 429; the budget does not allow it. 500; the pod has several budgets.
    """
    write_options("CreateOptions", call.query, call.dry_runs, call.agent)
    body = read_as(call.data, call.content_type, _SCHEMA, "Eviction")
    _check_names(call, body.get("metadata") or {})
    options = _delete_options(call, body.get("deleteOptions") or {})
    head = {"apiVersion": "policy/v1", "kind": "Eviction"}
    body = await api.admission.mutate(call, "CREATE", {**body, **head}, None)
    await api.admission.validate(call, "CREATE", body, None)
    # Nothing is awaited from here on, so nobody else spends what the budget allows.
    stored = api.current(call)
    pod = call.resource.load(stored)
    check_preconditions(call, stored, pod, options.get("preconditions") or {})
    if not _is_over(pod):
        _spend(api, call, pod, dry=bool(options.get("dryRun")))
    if not options.get("dryRun"):
        stored = _tell(api, call.resource, stored, pod)
    remove(api, call.resource, stored, options)
    status = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}
    return Plain(201, {**status, "code": 201})


def _check_names(call: Call, meta: Body) -> None:
    """Hold the object to the path."""
    if meta.get("namespace", call.info.namespace) != call.info.namespace:
        raise bad_request(
            "the namespace of the provided object does not match the namespace sent on the request"
        )
    if meta.get("name") != call.info.name:
        raise bad_request("name in URL does not match name in Eviction object")


def _delete_options(call: Call, given: Body) -> Body:
    """Return how the pod shall be deleted; a dry run can be asked for in two places."""
    asked, wanted = list(call.dry_runs), given.get("dryRun") or []
    if asked and wanted and asked != wanted:
        shown = " and ".join(f"[{' '.join(one)}]" for one in (asked, wanted))
        raise bad_request(f"Non-matching dry-run options in request and content: {shown}")
    return {**given, "dryRun": asked or wanted}


def _is_over(pod: Body) -> bool:
    """Tell whether no budget counts a pod: it does not run, or is on its way out."""
    phase = (pod.get("status") or {}).get("phase")
    return phase in _OVER or "deletionTimestamp" in pod["metadata"]


def _spend(api: Api, call: Call, pod: Body, *, dry: bool) -> None:
    """Take one disruption from the pod's budget.

    Raises:
        StatusError: there is none to take.
    """
    resource = api.registry.find("policy", "v1", "poddisruptionbudgets")
    if resource is None:
        return
    budgets = list(_budgets(api, resource, call.info.namespace, pod))
    if len(budgets) > 1:
        raise StatusError(
            500,
            "This pod has more than one PodDisruptionBudget, which the eviction subresource does "
            "not support.",
        )
    for stored in budgets:
        budget = resource.load(stored)
        if not _is_ready(pod) and _spares_unready(budget):
            return
        _check_budget(budget)
        if not dry:
            _take(budget, call.info.name)
            api.store.write(resource.place, stored.key, resource.stored_form(budget))


def _budgets(api: Api, resource: Resource, namespace: str, pod: Body) -> Iterator[Stored]:
    """Yield the budgets that cover a pod; one without a selector covers none."""
    table = api.table(resource)
    labels = pod["metadata"].get("labels") or {}
    for key in table.scan(f"{namespace}/"):
        stored = table.get(key)
        if stored is None:
            continue
        selector = resource.load(stored)["spec"].get("selector")
        if selector is not None and label_selector(selector).matches(labels):
            yield stored


def _is_ready(pod: Body) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)


def _spares_unready(budget: Body) -> bool:
    """Tell whether a pod that is not ready may go without being counted."""
    if budget["spec"].get("unhealthyPodEvictionPolicy") == "AlwaysAllow":
        return True
    status = budget.get("status") or {}
    desired: int = status.get("desiredHealthy", 0)
    return 0 < desired <= int(status.get("currentHealthy", 0))


def _check_budget(budget: Body) -> None:
    """Refuse what a budget does not allow.

    Raises:
        StatusError: 429 or 403.
    """
    meta, status = budget["metadata"], budget.get("status") or {}
    name, allowed = meta["name"], status.get("disruptionsAllowed", 0)
    if status.get("observedGeneration", 0) < meta.get("generation", 0):
        raise _too_many(f"The disruption budget {name} is still being processed by the server.")
    if allowed < 0:
        raise _forbidden(name, "pdb disruptions allowed is negative")
    if len(status.get("disruptedPods") or ()) > _MOST_DISRUPTED:
        why = "DisruptedPods map too big - too many evictions not confirmed by PDB controller"
        raise _forbidden(name, why)
    if allowed == 0:
        raise _too_many(
            f"The disruption budget {name} needs {status.get('desiredHealthy', 0)} healthy pods "
            f"and has {status.get('currentHealthy', 0)} currently"
        )


def _too_many(why: str) -> StatusError:
    return StatusError(
        429,
        "Cannot evict pod as it would violate the pod's disruption budget.",
        "TooManyRequests",
        details={"causes": [{"reason": "DisruptionBudget", "message": why}]},
    )


def _forbidden(name: str, why: str) -> StatusError:
    return failures.forbidden("poddisruptionbudget", "policy", name, why)


def _take(budget: Body, pod: str) -> None:
    """Note a disruption in a budget's status."""
    status = budget["status"]
    status["disruptionsAllowed"] -= 1
    status["disruptedPods"] = {**(status.get("disruptedPods") or {}), pod: timestamp()}
    if status["disruptionsAllowed"] == 0:
        _set_condition(
            status,
            {
                "type": "DisruptionAllowed",
                "status": "False",
                "reason": "InsufficientPods",
                "message": "",
                "observedGeneration": status.get("observedGeneration", 0),
            },
        )


def _tell(api: Api, resource: Resource, stored: Stored, pod: Body) -> Stored:
    """Write into a pod's status why it goes; who watches it sees that before it is gone."""
    status = pod.setdefault("status", {})
    condition = {"type": "DisruptionTarget", "status": "True"}
    reason = {"reason": "EvictionByEvictionAPI", "message": "Eviction API: evicting"}
    _set_condition(status, {**condition, **reason})
    return api.store.write(resource.place, stored.key, resource.stored_form(pod))


def _set_condition(status: Body, condition: Body) -> None:
    """Put a condition in the place of the one of its type."""
    others = [one for one in status.get("conditions") or () if one["type"] != condition["type"]]
    status["conditions"] = [*others, {**condition, "lastTransitionTime": timestamp()}]
