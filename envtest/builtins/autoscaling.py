"""Autoscalers: one object with two faces, autoscaling/v1 and v2, stored as v2.

The older version knows one metric, the use of CPU; what it has no fields for goes into
annotations, from which a write brings it back.
"""

from typing import Any

import msgspec
from typing_extensions import override

from envtest.builtins.rules import BuiltinRules
from envtest.server.objectmeta import Body

_PREFIX = "autoscaling.alpha.kubernetes.io/"
# Field of v2 -> where it is, and the annotation that carries it in v1.
_CARRIED = {
    ("spec", "metrics"): f"{_PREFIX}metrics",
    ("spec", "behavior"): f"{_PREFIX}behavior",
    ("status", "currentMetrics"): f"{_PREFIX}current-metrics",
    ("status", "conditions"): f"{_PREFIX}conditions",
}
_USUAL_PERCENTAGE = 80


def _cpu(percentage: int) -> Body:
    target = {"type": "Utilization", "averageUtilization": percentage}
    return {"type": "Resource", "resource": {"name": "cpu", "target": target}}


def _percentage(metric: Body) -> int | None:
    """Return the use of CPU that a metric aims at, if that is what it is about."""
    resource = metric.get("resource") or {}
    if metric.get("type") != "Resource" or resource.get("name") != "cpu":
        return None
    found: int | None = (resource.get("target") or {}).get("averageUtilization")
    return found


def to_v1(body: Body) -> Body:
    """Return how a stored autoscaler reads as autoscaling/v1."""
    parts = {name: dict(body.get(name) or {}) for name in ("spec", "status")}
    spec = parts["spec"]
    metrics = list(spec.pop("metrics", None) or ())
    aims = [(at, found) for at, one in enumerate(metrics) if (found := _percentage(one))]
    if aims:
        at, spec["targetCPUUtilizationPercentage"] = aims[0]
        del metrics[at]
    if metrics:
        spec["metrics"] = metrics
    noted = {
        mark: msgspec.json.encode(parts[part].pop(name)).decode()
        for (part, name), mark in _CARRIED.items()
        if parts[part].get(name)
    }
    parts["status"].pop("currentMetrics", None)
    parts["status"].setdefault("currentReplicas", 0)
    meta = dict(body["metadata"])
    if noted:
        meta["annotations"] = {**(meta.get("annotations") or {}), **noted}
    return {**body, "metadata": meta, **parts}


def to_v2(body: Body) -> Body:
    """Return how an autoscaling/v1 autoscaler is stored."""
    parts = {name: dict(body.get(name) or {}) for name in ("spec", "status")}
    meta = dict(body["metadata"])
    notes = dict(meta.get("annotations") or {})
    for (part, name), mark in _CARRIED.items():
        found = _read(notes.pop(mark, None))
        if found:
            parts[part][name] = found
    spec = parts["spec"]
    percentage = spec.pop("targetCPUUtilizationPercentage", None)
    if percentage is not None:
        spec["metrics"] = [_cpu(percentage), *(spec.get("metrics") or ())]
    spec["metrics"] = spec.get("metrics") or [_cpu(_USUAL_PERCENTAGE)]
    parts["status"].pop("currentCPUUtilizationPercentage", None)
    parts["status"].setdefault("currentMetrics", None)
    meta.pop("annotations", None)
    if notes:
        meta["annotations"] = notes
    return {**body, "metadata": meta, **parts}


def _read(text: str | None) -> Any:
    """Return what an annotation carries; nothing if somebody else wrote it."""
    if not text:
        return None
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        return None


class AutoscalerRules(BuiltinRules):
    """Defaults of both versions."""

    @override
    def default(self, body: Body) -> None:
        spec = body.setdefault("spec", {})
        spec.setdefault("minReplicas", 1)
        if self.version == "v2" and not spec.get("metrics"):
            spec["metrics"] = [_cpu(_USUAL_PERCENTAGE)]

    @override
    def first_status(self) -> dict[str, Any]:
        if self.version == "v2":
            return {"status": {"currentMetrics": None, "desiredReplicas": 0}}
        return {"status": {"currentReplicas": 0, "desiredReplicas": 0}}
