"""Columns of what rules requests: API services, signing, policies, priorities, addresses."""

from typing import Any

from envtest.builtins.columns.cells import (
    AGE,
    NONE,
    TITLE,
    UNSET,
    Body,
    Cell,
    Entry,
    at,
    conditions,
    count,
    number,
    selector,
    span,
    text,
    value,
)


def _service(body: Body) -> str:
    found = value(body, "spec.service", None)
    return "Local" if found is None else f"{value(found, 'namespace')}/{value(found, 'name')}"


def _available(body: Body) -> str:
    for one in value(body, "status.conditions", ()):
        if one.get("type") == "Available":
            status, reason = str(one["status"]), one.get("reason")
            return f"{status} ({reason})" if status != "True" and reason else status
    return "Unknown"


def _duration(body: Body) -> str:
    seconds = value(body, "spec.expirationSeconds", None)
    return NONE if seconds is None else span(seconds)


def _signing(body: Body) -> str:
    """Return how far a request has come; what was denied or failed comes first."""
    held = conditions(body)
    words = []
    if "Denied" in held:
        words.append("Denied")
    elif "Approved" in held:
        words.append("Approved")
    else:
        words.append("Pending")
    if "Failed" in held:
        words.append("Failed")
    if value(body, "status.certificate"):
        words.append("Issued")
    return ",".join(words)


def _dangling(body: Body) -> str:
    return conditions(body).get("Dangling", "?")


def _queuing(name: str) -> Cell:
    return at(f"spec.limited.limitResponse.queuing.{name}", NONE)


def _parameters(body: Body) -> str:
    kind = value(body, "spec.paramKind", None)
    return UNSET if kind is None else f"{value(kind, 'apiVersion')}/{value(kind, 'kind')}"


def _parameter(body: Body) -> str:
    given = value(body, "spec.paramRef", None)
    if given is None:
        return UNSET
    if given.get("name"):
        return f"{given.get('namespace') or '*'}/{given['name']}"
    return selector(given["selector"]) if "selector" in given else UNSET


def _parent(body: Body) -> str:
    given = value(body, "spec.parentRef", None)
    if given is None:
        return ""
    group = f".{given['group']}" if given.get("group") else ""
    namespace = f"{given['namespace']}/" if given.get("namespace") else ""
    return f"{given.get('resource', '')}{group}/{namespace}{given.get('name', '')}"


def _ranges(body: Body) -> str:
    found: Any = value(body, "spec.cidrs", ())
    return ",".join(found)


def _policy(counted: str, name: str, description: str) -> list[Entry]:
    return [
        TITLE,
        number(name, description, count(counted)),
        text("ParamKind", "Of which kind its parameters are", _parameters),
        AGE,
    ]


_BINDING: list[Entry] = [
    TITLE,
    text("PolicyName", "Which policy it puts to work", at("spec.policyName")),
    text("ParamRef", "With which parameters", _parameter),
    AGE,
]
CONTROL: dict[str, list[Entry]] = {
    "APIService": [
        TITLE,
        text("Service", "The reference to the service that hosts this API endpoint.", _service),
        text("Available", "Whether this service is available.", _available),
        AGE,
    ],
    "CertificateSigningRequest": [
        TITLE,
        AGE,
        text("SignerName", "Who is asked to sign", at("spec.signerName", NONE)),
        text("Requestor", "Who asks", at("spec.username")),
        text("RequestedDuration", "For how long it shall hold", _duration),
        text("Condition", "How far it has come", _signing),
    ],
    "RuntimeClass": [TITLE, text("Handler", "What runs its pods", at("handler")), AGE],
    "FlowSchema": [
        TITLE,
        text(
            "PriorityLevel",
            "Where requests go that match",
            at("spec.priorityLevelConfiguration.name"),
        ),
        text("MatchingPrecedence", "The lower, the earlier", at("spec.matchingPrecedence", 0)),
        text(
            "DistinguisherMethod",
            "How flows are told apart",
            at("spec.distinguisherMethod.type", NONE),
        ),
        AGE,
        text(
            "MissingPL",
            "references a broken or non-existent PriorityLevelConfiguration",
            _dangling,
        ),
    ],
    "PriorityLevelConfiguration": [
        TITLE,
        text("Type", "Whether requests are limited", at("spec.type")),
        text(
            "NominalConcurrencyShares",
            "Its part of the seats",
            at("spec.limited.nominalConcurrencyShares", NONE),
        ),
        text("Queues", "How many queues it has", _queuing("queues")),
        text("HandSize", "How many queues a flow may use", _queuing("handSize")),
        text("QueueLengthLimit", "How many may wait in one", _queuing("queueLengthLimit")),
        AGE,
    ],
    "IPAddress": [TITLE, text("ParentRef", "What has it", _parent)],
    "ServiceCIDR": [TITLE, text("CIDRs", "Ranges of services' addresses", _ranges), AGE],
    "ValidatingAdmissionPolicy": _policy(
        "spec.validations",
        "Validations",
        "Validations indicates the number of validation rules defined in this configuration",
    ),
    "MutatingAdmissionPolicy": _policy(
        "spec.mutations",
        "Mutations",
        "Mutation indicates the number of mutations rules defined in this configuration",
    ),
    "ValidatingAdmissionPolicyBinding": _BINDING,
    "MutatingAdmissionPolicyBinding": _BINDING,
}
