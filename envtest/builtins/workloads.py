"""Workloads as the server keeps them: with the defaults of apps/v1, batch/v1 and pods.

Nothing runs here, but clients read these fields without asking whether they are there.
"""

from typing import Any

from typing_extensions import override

from envtest.builtins.podspecs import pod_problems, workload_problems
from envtest.builtins.rules import BuiltinRules
from envtest.schema.errors import FieldError
from envtest.server import objectmeta
from envtest.server.objectmeta import Body

_SURGE = {"maxUnavailable": "25%", "maxSurge": "25%"}


def _fill(body: Body, **defaults: Any) -> None:
    for name, value in defaults.items():
        body.setdefault(name, value)


def default_pod(spec: Body, *, restart: str = "Always") -> None:
    """Fill in a pod's spec."""
    _fill(
        spec,
        restartPolicy=restart,
        terminationGracePeriodSeconds=30,
        dnsPolicy="ClusterFirst",
        securityContext={},
        schedulerName="default-scheduler",
    )
    for container in (*spec.get("initContainers", ()), *spec.get("containers", ())):
        image = str(container.get("image", ""))
        tag = image.rpartition("/")[2].partition(":")[2]
        floating = "@" not in image and tag in {"", "latest"}
        _fill(
            container,
            resources={},
            terminationMessagePath="/dev/termination-log",
            terminationMessagePolicy="File",
            imagePullPolicy="Always" if floating else "IfNotPresent",
        )
        for port in container.get("ports", ()):
            port.setdefault("protocol", "TCP")


class WorkloadRules(BuiltinRules):
    """Kinds that carry a pod template, and pods themselves."""

    @override
    def default(self, body: Body) -> None:
        spec = body.setdefault("spec", {})
        match self.kind:
            case "Deployment":
                _fill(spec, replicas=1, revisionHistoryLimit=10, progressDeadlineSeconds=600)
                _default_strategy(spec, "strategy", _SURGE)
            case "StatefulSet":
                _fill(
                    spec, replicas=1, revisionHistoryLimit=10, podManagementPolicy="OrderedReady"
                )
                _default_strategy(spec, "updateStrategy", {"partition": 0})
                keep = {"whenDeleted": "Retain", "whenScaled": "Retain"}
                _fill(spec, persistentVolumeClaimRetentionPolicy=keep)
            case "DaemonSet":
                _fill(spec, revisionHistoryLimit=10)
                daemon = {"maxUnavailable": 1, "maxSurge": 0}
                _default_strategy(spec, "updateStrategy", daemon)
            case "ReplicaSet" | "ReplicationController":
                _fill(spec, replicas=1)
            case "CronJob":
                _fill(
                    spec,
                    concurrencyPolicy="Allow",
                    suspend=False,
                    successfulJobsHistoryLimit=3,
                    failedJobsHistoryLimit=1,
                )
                spec = spec.setdefault("jobTemplate", {}).setdefault("spec", {})
            case "Job":
                _default_job(spec)
            case _:
                pass
        if self.kind == "Pod":
            _fill(spec, enableServiceLinks=True)
            default_pod(spec)
            return
        if self.kind != "ReplicationController":
            spec.setdefault("template", {})
        template = spec.get("template")
        if isinstance(template, dict):
            template.setdefault("metadata", {})
            default_pod(template.setdefault("spec", {}))

    @override
    def check_update(self, body: Body, old: Body, subresource: str) -> list[FieldError]:
        if subresource:
            return objectmeta.check_change(body["metadata"], old["metadata"])
        return super().check_update(body, old, subresource)

    @override
    def check_content(self, body: Body, old: Body | None) -> list[FieldError]:
        if self.kind == "Pod":
            return list(pod_problems(body.get("spec", {}), "spec"))
        if self.group == "apps":
            return list(workload_problems(self.kind, body, old))
        return []

    @override
    def first_status(self) -> dict[str, Any]:
        if self.kind == "Pod":
            return {"status": {"phase": "Pending", "qosClass": "BestEffort"}}
        if self.kind in {"ReplicaSet", "StatefulSet"}:
            return {"status": {"replicas": 0}}
        if self.kind == "DaemonSet":
            names = ("currentNumberScheduled", "numberMisscheduled", "desiredNumberScheduled")
            return {"status": dict.fromkeys((*names, "numberReady"), 0)}
        return {"status": {}}


def _default_strategy(spec: Body, name: str, rolling: Body) -> None:
    strategy = spec.setdefault(name, {})
    strategy.setdefault("type", "RollingUpdate")
    if strategy["type"] == "RollingUpdate":
        strategy["rollingUpdate"] = {**rolling, **(strategy.get("rollingUpdate") or {})}


def _default_job(spec: Body) -> None:
    _fill(
        spec,
        completions=1,
        parallelism=1,
        backoffLimit=6,
        completionMode="NonIndexed",
        suspend=False,
        podReplacementPolicy="TerminatingOrFailed",
    )
