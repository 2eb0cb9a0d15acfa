"""Columns of what a cluster is ruled by and tells of: quotas, roles, configuration, events."""

from typing import Any

from envtest.builtins.columns.cells import (
    AGE,
    CREATED,
    NONE,
    TITLE,
    UNKNOWN,
    UNSET,
    Body,
    Cell,
    Entry,
    age,
    at,
    count,
    number,
    text,
    truth,
    value,
    wide,
)
from envtest.schema.wording import NAME
from envtest.server.rules import Column


def _shares(*, limits: bool) -> Cell:
    def read(body: Body) -> str:
        used, hard = value(body, "status.used", {}), value(body, "status.hard", {})
        return ", ".join(
            f"{name}: {used.get(name, 0)}/{hard[name]}"
            for name in sorted(hard)
            if name.startswith("limits.") == limits
        )

    return read


def _role(body: Body) -> str:
    return f"{value(body, 'roleRef.kind')}/{value(body, 'roleRef.name')}"


def _subjects(kind: str) -> Cell:
    def read(body: Body) -> str:
        found = [one for one in value(body, "subjects", ()) if one.get("kind") == kind]
        if kind == "ServiceAccount":
            return ", ".join(f"{one.get('namespace', '')}/{one['name']}" for one in found)
        return ", ".join(one["name"] for one in found)

    return read


def _budget(name: str) -> Cell:
    return lambda body: str(value(body, f"spec.{name}", "N/A"))


def _target(body: Body) -> str:
    return f"{value(body, 'spec.scaleTargetRef.kind')}/{value(body, 'spec.scaleTargetRef.name')}"


def _targets(body: Body) -> str:
    """Return the wanted value of each metric; what it is now, nobody measures."""
    shown = [_wanted(one) for one in value(body, "spec.metrics", ())[:2]]
    percentage = value(body, "spec.targetCPUUtilizationPercentage", None)
    if percentage is not None:
        shown.append(f"cpu: {UNKNOWN}/{percentage}%")
    more = len(value(body, "spec.metrics", ())) - 2
    text_ = ", ".join(shown)
    return f"{text_} + {more} more..." if more > 0 else text_ or NONE


def _wanted(metric: Body) -> str:
    kind = str(metric.get("type", ""))
    source = value(metric, kind[:1].lower() + kind[1:], {})
    target = value(source, "target", {})
    name = f"{source['name']}: " if "name" in source else ""
    if "averageUtilization" in target:
        return f"{name}{UNKNOWN}/{target['averageUtilization']}%"
    if "averageValue" in target:
        return f"{name}{UNKNOWN}/{target['averageValue']}"
    return f"{name}{UNKNOWN}/{target.get('value', '')}"


def _text_of(path: str, otherwise: object) -> Cell:
    return lambda body: str(value(body, path, otherwise))


def _first_seen(body: Body) -> str:
    return age(
        body.get("firstTimestamp") or body.get("deprecatedFirstTimestamp") or body.get("eventTime")
    )


def _last_seen(body: Body) -> str:
    return age(
        value(body, "series.lastObservedTime")
        or body.get("lastTimestamp")
        or body.get("deprecatedLastTimestamp")
        or body.get("firstTimestamp")
        or body.get("deprecatedFirstTimestamp")
        or body.get("eventTime")
    )


def _about(body: Body) -> Any:
    return body.get("involvedObject") or body.get("regarding") or {}


def _object(body: Body) -> str:
    about = _about(body)
    kind, name = str(about.get("kind", "")).lower(), about.get("name", "")
    return f"{kind}/{name}" if name else kind


def _source(body: Body) -> str:
    source = body.get("source") or body.get("deprecatedSource") or {}
    reporter = body.get("reportingComponent") or body.get("reportingController")
    parts = [
        source.get("component") or reporter,
        source.get("host") or body.get("reportingInstance"),
    ]
    return ", ".join(part for part in parts if part)


def _times(body: Body) -> str:
    given = value(body, "series.count", 0) or body.get("count") or body.get("deprecatedCount")
    return str(given or 1)


def _message(body: Body) -> str:
    return str(body.get("message") or body.get("note") or "").strip()


_BINDING: list[Entry] = [
    TITLE,
    text("Role", "The role it grants", _role),
    AGE,
    wide("Users", "Users that get it", _subjects("User")),
    wide("Groups", "Groups that get it", _subjects("Group")),
    wide("ServiceAccounts", "Service accounts that get it", _subjects("ServiceAccount")),
]
_HOOKS: list[Entry] = [
    TITLE,
    number("Webhooks", "How many webhooks it configures", count("webhooks")),
    AGE,
]
CLUSTER: dict[str, list[Entry]] = {
    "Namespace": [TITLE, text("Status", "The status of the namespace", at("status.phase")), AGE],
    "Secret": [
        TITLE,
        text("Type", "The type of the secret", at("type")),
        text("Data", "How many keys it has", count("data")),
        AGE,
    ],
    "ConfigMap": [TITLE, text("Data", "How many keys it has", count("data", "binaryData")), AGE],
    "ServiceAccount": [TITLE, text("Secrets", "How many it names", count("secrets")), AGE],
    "Lease": [TITLE, text("Holder", "Who holds it", at("spec.holderIdentity")), AGE],
    "Event": [
        text("Last Seen", "When it was last observed", _last_seen),
        text("Type", "Normal or Warning", at("type")),
        text("Reason", "Why it happened, in one word", at("reason")),
        text("Object", "What it is about", _object),
        wide("Subobject", "Which part of it", lambda body: _about(body).get("fieldPath", "")),
        wide("Source", "Who tells it", _source),
        text("Message", "What happened", _message),
        wide("First Seen", "When it was first observed", _first_seen),
        wide("Count", "How often it was observed", _times),
        (Column("Name", "string", NAME, "name", 1), at("metadata.name")),
    ],
    "ResourceQuota": [
        TITLE,
        text("Request", "What is requested, of what may be", _shares(limits=False)),
        text("Limit", "What is allowed at most, of what may be", _shares(limits=True)),
        AGE,
    ],
    "LimitRange": [TITLE, CREATED],
    "PriorityClass": [
        TITLE,
        number("Value", "The higher, the more important", at("value", 0)),
        truth("Global-Default", "Whether pods get it by default", at("globalDefault", False)),
        AGE,
        text("PreemptionPolicy", "Whether others make room", at("preemptionPolicy")),
    ],
    "PodDisruptionBudget": [
        TITLE,
        text(
            "Min Available",
            "The minimum number of pods that must be available.",
            _budget("minAvailable"),
        ),
        text(
            "Max Unavailable",
            "The maximum number of pods that may be unavailable.",
            _budget("maxUnavailable"),
        ),
        number(
            "Allowed Disruptions",
            "Calculated number of pods that may be disrupted at this time.",
            at("status.disruptionsAllowed", 0),
        ),
        AGE,
    ],
    "HorizontalPodAutoscaler": [
        TITLE,
        text("Reference", "What it scales", _target),
        text("Targets", "What it aims at", _targets),
        text("MinPods", "The fewest pods", _text_of("spec.minReplicas", UNSET)),
        text("MaxPods", "The most pods", at("spec.maxReplicas", 0)),
        text("Replicas", "How many there are", at("status.currentReplicas", 0)),
        AGE,
    ],
    "RoleBinding": _BINDING,
    "ClusterRoleBinding": _BINDING,
    "Role": [TITLE, CREATED],
    "ClusterRole": [TITLE, CREATED],
    "CustomResourceDefinition": [TITLE, CREATED],
    "MutatingWebhookConfiguration": _HOOKS,
    "ValidatingWebhookConfiguration": _HOOKS,
}
