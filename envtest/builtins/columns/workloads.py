"""Columns of pods and of the kinds that make pods."""

from collections.abc import Iterator
from typing import Any

from envtest.builtins.columns.cells import (
    AGE,
    NONE,
    TITLE,
    Body,
    Cell,
    Entry,
    age,
    at,
    between,
    conditions,
    containers,
    count,
    labels,
    number,
    template,
    text,
    value,
    wide,
)
from envtest.server.rules import Column

_POD = "spec.template.spec"


def _states(body: Body, which: str = "containerStatuses") -> list[Any]:
    return list(value(body, f"status.{which}", ()))


def _ready(body: Body) -> str:
    ready = sum(
        bool(one.get("ready") and value(one, "state.running", None) is not None)
        for one in _states(body)
    )
    return f"{ready}/{len(value(body, 'spec.containers', ()))}"


def _pod_status(body: Body) -> str:
    """Return a pod's state in a word, as kubectl works it out of its containers."""
    phase = str(value(body, "status.phase"))
    status = str(value(body, "status.reason") or phase)
    gated = [
        one
        for one in value(body, "status.conditions", ())
        if one["type"] == "PodScheduled" and one.get("reason") == "SchedulingGated"
    ]
    if gated:
        status = "SchedulingGated"
    starting = _starting(body)
    status = starting or _running(body, status)
    if "deletionTimestamp" not in body["metadata"]:
        return status
    if value(body, "status.reason") == "NodeLost":
        return "Unknown"
    return status if phase in {"Succeeded", "Failed"} else "Terminating"


def _starting(body: Body) -> str:
    """Return what an init container that is not done yet is about; nothing if all are."""
    states = _states(body, "initContainerStatuses")
    for at_, one in enumerate(states):
        ended = value(one, "state.terminated", None)
        if ended is not None and not ended.get("exitCode"):
            continue
        if one.get("started") and _restarts_always(body, one["name"]):
            continue
        if ended is not None:
            return f"Init:{_ending(ended)}"
        waiting = value(one, "state.waiting.reason")
        if waiting and waiting != "PodInitializing":
            return f"Init:{waiting}"
        return f"Init:{at_}/{len(value(body, 'spec.initContainers', ()))}"
    return ""


def _restarts_always(body: Body, name: str) -> bool:
    return any(
        one["name"] == name and one.get("restartPolicy") == "Always"
        for one in value(body, "spec.initContainers", ())
    )


def _running(body: Body, status: str) -> str:
    """Return what the containers say; the first one that says something counts."""
    runs = False
    for one in reversed(_states(body)):
        waiting, ended = value(one, "state.waiting.reason"), value(one, "state.terminated", None)
        if waiting:
            status = str(waiting)
        elif ended is not None:
            status = _ending(ended)
        elif one.get("ready") and value(one, "state.running", None) is not None:
            runs = True
    if status == "Completed" and runs:
        return "Running" if conditions(body).get("Ready") == "True" else "NotReady"
    return status


def _ending(ended: Body) -> str:
    if ended.get("reason"):
        return str(ended["reason"])
    if ended.get("signal"):
        return f"Signal:{ended['signal']}"
    return f"ExitCode:{ended.get('exitCode', 0)}"


def _restarts(body: Body) -> str:
    states = _states(body)
    total = sum(one.get("restartCount", 0) for one in states)
    ends = [value(one, "lastState.terminated.finishedAt", "") for one in states]
    return f"{total} ({age(max(ends))} ago)" if total and any(ends) else str(total)


def _gates(body: Body) -> str:
    gates = value(body, "spec.readinessGates", ())
    held = sum(conditions(body).get(one.get("conditionType")) == "True" for one in gates)
    return f"{held}/{len(gates)}" if gates else NONE


def _share(part: str) -> Cell:
    return lambda body: f"{value(body, f'status.{part}', 0)}/{value(body, 'spec.replicas', 0)}"


def _as_text(path: str) -> Cell:
    return lambda body: str(value(body, path, 0))


def _succeeded(body: Body) -> str:
    done, wanted = value(body, "status.succeeded", 0), value(body, "spec.completions", None)
    if wanted is not None:
        return f"{done}/{wanted}"
    parallel = value(body, "spec.parallelism", 0)
    return f"{done}/1 of {parallel}" if parallel > 1 else f"{done}/1"


def _job_status(body: Body) -> str:
    held = {name for name, status in conditions(body).items() if status == "True"}
    if "Complete" in held or "Failed" in held:
        return "Complete" if "Complete" in held else "Failed"
    if "deletionTimestamp" in body["metadata"]:
        return "Terminating"
    for name in ("Suspended", "FailureTarget", "SuccessCriteriaMet"):
        if name in held:
            return name
    return "Running"


def _job_span(body: Body) -> str:
    start, end = value(body, "status.startTime"), value(body, "status.completionTime")
    if not start:
        return ""
    return between(start, end) if end else age(start)


def _last_schedule(body: Body) -> str:
    last = value(body, "status.lastScheduleTime")
    return age(last) if last else NONE


def _suspended(body: Body) -> str:
    return str(bool(value(body, "spec.suspend", False)))


def _owner(body: Body) -> str:
    for one in value(body, "metadata.ownerReferences", ()):
        if one.get("controller"):
            group = one["apiVersion"].rpartition("/")[0]
            kind = one["kind"].lower()
            return f"{kind}.{group}/{one['name']}" if group else f"{kind}/{one['name']}"
    return NONE


def _replicated(chosen: str) -> list[Entry]:
    return [
        TITLE,
        number("Desired", "How many pods are wanted", at("spec.replicas", 0)),
        number("Current", "How many pods there are", at("status.replicas", 0)),
        number("Ready", "How many pods are ready", at("status.readyReplicas", 0)),
        AGE,
        *template(_POD, chosen),
    ]


def _with_plain_selector(entries: list[Entry]) -> Iterator[Entry]:
    """Replace the cell of the selector: replication controllers have bare labels there."""
    for column, cell in entries:
        if column.name == "Selector":
            yield column, lambda body: labels(value(body, "spec.selector", None))
        else:
            yield column, cell


WORKLOADS: dict[str, list[Entry]] = {
    "Pod": [
        TITLE,
        text("Ready", "The aggregate readiness state of this pod for accepting traffic.", _ready),
        text("Status", "The aggregate status of the containers in this pod.", _pod_status),
        text("Restarts", "How often its containers were restarted, and when last", _restarts),
        AGE,
        wide("IP", "Its address", at("status.podIP", NONE)),
        wide("Node", "Where it runs", at("spec.nodeName", NONE)),
        wide("Nominated Node", "Where room is made for it", at("status.nominatedNodeName", NONE)),
        wide("Readiness Gates", "What else it waits for", _gates),
    ],
    "PodTemplate": [
        TITLE,
        text(
            "Containers",
            "Names of each container in the template.",
            containers("template.spec.containers", "name"),
        ),
        text(
            "Images",
            "Images referenced by each container in the template.",
            containers("template.spec.containers", "image"),
        ),
        text(
            "Pod Labels",
            "The labels for the pod template.",
            lambda body: labels(value(body, "template.metadata.labels", None)),
        ),
    ],
    "ReplicationController": list(_with_plain_selector(_replicated("spec.selector"))),
    "ReplicaSet": _replicated("spec.selector"),
    "DaemonSet": [
        TITLE,
        number("Desired", "Nodes that should run it", at("status.desiredNumberScheduled", 0)),
        number("Current", "Nodes that run it", at("status.currentNumberScheduled", 0)),
        number("Ready", "Nodes where it is ready", at("status.numberReady", 0)),
        number("Up-to-date", "Nodes with the present pod", at("status.updatedNumberScheduled", 0)),
        number("Available", "Nodes where it is available", at("status.numberAvailable", 0)),
        text(
            "Node Selector",
            "Which nodes run it",
            lambda body: labels(value(body, f"{_POD}.nodeSelector", None)),
        ),
        AGE,
        *template(_POD, "spec.selector"),
    ],
    "Deployment": [
        TITLE,
        text("Ready", "Number of the pod with ready state", _share("readyReplicas")),
        text("Up-to-date", "Pods of the present template", _as_text("status.updatedReplicas")),
        text("Available", "Available pods", _as_text("status.availableReplicas")),
        AGE,
        *template(_POD, "spec.selector"),
    ],
    "StatefulSet": [
        TITLE,
        text("Ready", "Number of the pod with ready state", _share("readyReplicas")),
        AGE,
        *template(_POD),
    ],
    "Job": [
        TITLE,
        text("Status", "Status of the job.", _job_status),
        text("Completions", "Pods that succeeded, of those wanted", _succeeded),
        text("Duration", "Time required to complete the job.", _job_span),
        AGE,
        *template(_POD, "spec.selector"),
    ],
    "CronJob": [
        TITLE,
        text("Schedule", "When it runs", at("spec.schedule")),
        text("Timezone", "Where that time holds", at("spec.timeZone", NONE)),
        (Column("Suspend", "boolean", "Whether it pauses"), _suspended),
        number("Active", "Jobs of it that run", count("status.active")),
        text("Last Schedule", "When it ran last", _last_schedule),
        AGE,
        *template("spec.jobTemplate.spec.template.spec", "spec.jobTemplate.spec.selector"),
    ],
    "ControllerRevision": [
        TITLE,
        text("Controller", "Controller of the object", _owner),
        text("Revision", "Which state it is, counted", at("revision", 0)),
        AGE,
    ],
}
