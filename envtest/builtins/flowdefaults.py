"""The flow schemas and priority levels of every server, as kube-apiserver v1.36 has them.

Those named `exempt` and `catch-all` are mandatory: nobody may change what they say.
"""

from typing import Any, Final

Spec = dict[str, Any]

_NODES: Final = "system:nodes"
_EVERYBODY: Final = ("system:unauthenticated", "system:authenticated")


def _level(shares: int, lendable: int, queues: int, hand: int) -> Spec:
    response: Spec = {"type": "Reject"}
    if queues:
        queuing = {"queues": queues, "handSize": hand, "queueLengthLimit": 50}
        response = {"type": "Queue", "queuing": queuing}
    limited = {
        "nominalConcurrencyShares": shares,
        "lendablePercent": lendable,
        "limitResponse": response,
    }
    return {"type": "Limited", "limited": limited}


def _groups(*names: str) -> list[Spec]:
    return [{"kind": "Group", "group": {"name": name}} for name in names]


def _users(*names: str) -> list[Spec]:
    return [{"kind": "User", "user": {"name": name}} for name in names]


def _system_accounts() -> list[Spec]:
    account = {"namespace": "kube-system", "name": "*"}
    return [{"kind": "ServiceAccount", "serviceAccount": account}]


def _rule(verbs: str, group: str, resources: str, *, cluster: bool) -> Spec:
    rule: Spec = {"verbs": verbs.split(), "apiGroups": [group], "resources": resources.split()}
    if cluster:
        rule["clusterScope"] = True
    return {**rule, "namespaces": ["*"]}


def _everything() -> Spec:
    """Return what covers every request."""
    return {
        "resourceRules": [_rule("*", "*", "*", cluster=True)],
        "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
    }


def _flow(level: str, precedence: int, told_by: str, subjects: list[Spec], **rules: Any) -> Spec:
    spec: Spec = {
        "priorityLevelConfiguration": {"name": level},
        "matchingPrecedence": precedence,
        "rules": [{"subjects": subjects, **(rules or _everything())}],
    }
    if told_by:
        spec["distinguisherMethod"] = {"type": told_by}
    return spec


# Name -> spec; the shares, the lendable percentage, queues and hand size of each level.
LEVELS: Final[dict[str, Spec]] = {
    "exempt": {
        "type": "Exempt",
        "exempt": {"nominalConcurrencyShares": 0, "lendablePercent": 0},
    },
    "catch-all": _level(5, 0, 0, 0),
    "system": _level(30, 33, 64, 6),
    "node-high": _level(40, 25, 64, 6),
    "leader-election": _level(10, 0, 16, 4),
    "workload-high": _level(40, 50, 128, 6),
    "workload-low": _level(100, 90, 128, 6),
    "global-default": _level(20, 50, 128, 6),
}
FLOWS: Final[dict[str, Spec]] = {
    "exempt": _flow("exempt", 1, "", _groups("system:masters")),
    "probes": _flow(
        "exempt",
        2,
        "",
        _groups(*_EVERYBODY),
        nonResourceRules=[
            {"verbs": ["get"], "nonResourceURLs": ["/healthz", "/readyz", "/livez"]}
        ],
    ),
    "system-leader-election": _flow(
        "leader-election",
        100,
        "ByUser",
        [
            *_users("system:kube-controller-manager", "system:kube-scheduler"),
            *_system_accounts(),
        ],
        resourceRules=[_rule("get create update", "coordination.k8s.io", "leases", cluster=False)],
    ),
    "system-node-high": _flow(
        "node-high",
        400,
        "ByUser",
        _groups(_NODES),
        resourceRules=[
            _rule("*", "", "nodes nodes/status", cluster=True),
            _rule("*", "coordination.k8s.io", "leases", cluster=False),
        ],
    ),
    "system-nodes": _flow("system", 500, "ByUser", _groups(_NODES)),
    "kube-controller-manager": _flow(
        "workload-high", 800, "ByNamespace", _users("system:kube-controller-manager")
    ),
    "kube-scheduler": _flow("workload-high", 800, "ByNamespace", _users("system:kube-scheduler")),
    "kube-system-service-accounts": _flow("workload-high", 900, "ByNamespace", _system_accounts()),
    "service-accounts": _flow("workload-low", 9000, "ByUser", _groups("system:serviceaccounts")),
    "global-default": _flow("global-default", 9900, "ByUser", _groups(*_EVERYBODY)),
    "catch-all": _flow("catch-all", 10_000, "ByUser", _groups(*_EVERYBODY)),
}
