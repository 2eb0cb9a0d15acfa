"""What pods, and the templates of workloads, are refused for.

The part of ValidatePodSpec and of the workloads' own checks that clients meet: containers, their
ports, policies, selectors and counts (k8s.io/kubernetes/pkg/apis/core/validation/validation.go,
pkg/apis/apps/validation/validation.go). Volumes, probes, affinity and security are not judged:
nothing runs here.
"""

from collections.abc import Iterator
from typing import Any

from envtest.builtins.labelselectors import selector_problems
from envtest.schema.errors import (
    FieldError,
    duplicate,
    forbidden,
    invalid,
    not_supported,
    required,
)
from envtest.schema.names import label_errors
from envtest.server.objectmeta import Body
from envtest.server.selectors import label_selector

_PULLS = ("Always", "IfNotPresent", "Never")
_PROTOCOLS = ("SCTP", "TCP", "UDP")
_RESTARTS = ("Always", "Never", "OnFailure")
_DNS = ("ClusterFirst", "ClusterFirstWithHostNet", "Default", "None")
_COUNTS = ("replicas", "minReadySeconds", "revisionHistoryLimit")
# As the server names them; a ReplicaSet's check was copied from a Deployment's.
_NAMED = {
    "DaemonSet": "daemonset",
    "Deployment": "deployment",
    "ReplicaSet": "deployment",
    "StatefulSet": "statefulset",
}
_FIXED = ("selector", "serviceName", "podManagementPolicy", "volumeClaimTemplates")
_FIXED_TEXT = (
    "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', "
    "'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and "
    "'minReadySeconds' are forbidden"
)


def pod_problems(spec: Body, path: str) -> Iterator[FieldError]:
    """Yield what is wrong with a pod's spec."""
    containers = spec.get("containers") or ()
    if not containers:
        yield required(f"{path}.containers")
    names: set[str] = set()
    for part in ("containers", "initContainers"):
        for at, container in enumerate(spec.get(part) or ()):
            yield from _container_problems(container, f"{path}.{part}[{at}]", names)
    for name, supported in (("restartPolicy", _RESTARTS), ("dnsPolicy", _DNS)):
        if spec.get(name) not in supported:
            yield not_supported(f"{path}.{name}", spec.get(name, ""), supported)


def _container_problems(container: Body, path: str, names: set[str]) -> Iterator[FieldError]:
    name = container.get("name", "")
    if not name:
        yield required(f"{path}.name")
    for error in label_errors(name) if name else ():
        yield invalid(f"{path}.name", name, error)
    if name in names:
        yield duplicate(f"{path}.name", name)
    names |= {name} - {""}
    if not container.get("image"):
        yield required(f"{path}.image")
    for at, port in enumerate(container.get("ports") or ()):
        yield from _port_problems(port, f"{path}.ports[{at}]")
    for at, variable in enumerate(container.get("env") or ()):
        if not variable.get("name"):
            yield required(f"{path}.env[{at}].name")
    pull = container.get("imagePullPolicy", "")
    if pull not in _PULLS:
        yield not_supported(f"{path}.imagePullPolicy", pull, _PULLS)


def _port_problems(port: dict[str, Any], path: str) -> Iterator[FieldError]:
    number = port.get("containerPort", 0)
    if not number:
        yield required(f"{path}.containerPort")
    elif not 1 <= number <= 65535:
        yield invalid(f"{path}.containerPort", number, "must be between 1 and 65535, inclusive")
    if port.get("protocol") not in _PROTOCOLS:
        yield not_supported(f"{path}.protocol", port.get("protocol", ""), _PROTOCOLS)


def workload_problems(kind: str, body: Body, old: Body | None) -> Iterator[FieldError]:
    """Yield what is wrong with a Deployment, ReplicaSet, StatefulSet or DaemonSet.

    Args:
        kind: of the object.
        body: the object.
        old: the object as it was; None when it is new.
    """
    spec = body.get("spec", {})
    for name in _COUNTS:
        if spec.get(name, 0) < 0:
            text = "must be greater than or equal to 0"
            yield invalid(f"spec.{name}", spec[name], text)
    yield from _selector_problems(kind, spec)
    pod = (spec.get("template") or {}).get("spec", {})
    yield from pod_problems(pod, "spec.template.spec")
    if pod.get("restartPolicy") in {"Never", "OnFailure"}:
        path = "spec.template.spec.restartPolicy"
        yield not_supported(path, pod["restartPolicy"], ("Always",))
    before = spec if old is None else old.get("spec", {})
    if kind == "StatefulSet":
        if any(before.get(name) != spec.get(name) for name in _FIXED):
            yield forbidden("spec", _FIXED_TEXT)
    elif before.get("selector") != spec.get("selector"):
        yield invalid("spec.selector", spec.get("selector"), "field is immutable")


def _selector_problems(kind: str, spec: Body) -> Iterator[FieldError]:
    """Yield what is wrong with a selector, also in view of the pods that are made."""
    path, selector = "spec.selector", spec.get("selector")
    wrong: list[FieldError] = []
    if selector is None:
        wrong.append(required(path))
    else:
        wrong += selector_problems(selector, path)
        if not selector.get("matchLabels") and not selector.get("matchExpressions"):
            wrong.append(invalid(path, selector, f"empty selector is invalid for {_NAMED[kind]}"))
    yield from wrong
    labels = (spec.get("template") or {}).get("metadata", {}).get("labels")
    # What is no selector selects nothing; an empty one is refused for being empty alone.
    if selector is None or not (wrong or label_selector(selector).matches(labels or {})):
        text = "`selector` does not match template `labels`"
        yield invalid("spec.template.metadata.labels", labels, text)
