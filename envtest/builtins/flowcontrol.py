"""Flow schemas and priority levels: defaults and checks of flowcontrol.apiserver.k8s.io.

Texts and order follow its validation (k8s.io/kubernetes/pkg/apis/flowcontrol/validation). Nothing
is queued by them here: this server answers everybody at once.
"""

import math
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Final

from typing_extensions import override

from envtest.builtins.flowdefaults import FLOWS, LEVELS
from envtest.builtins.flowrules import rule_problems
from envtest.builtins.shaped import ShapedRules
from envtest.schema.errors import (
    FieldError,
    duplicate,
    forbidden,
    invalid,
    not_supported,
    required,
)
from envtest.schema.names import subdomain_errors
from envtest.server import objectmeta
from envtest.server.objectmeta import Body
from envtest.storage import Store

FLOW_GROUP: Final = "flowcontrol.apiserver.k8s.io"
LEVELS_PLACE: Final = f"{FLOW_GROUP}/prioritylevelconfigurations"
_DANGLING: Final = "Dangling"
_LAST: Final = 10_000
_USUAL_PRECEDENCE: Final = 1000
_MOST_QUEUES: Final = 10_000_000
_HASH_BITS: Final = 60
_FIXED: Final = "spec of '{}' must equal the fixed value"


class FlowSchemaRules(ShapedRules):
    """Which requests go to which priority level; those that are tried first are shown first."""

    counting: ClassVar[bool] = True

    def __init__(self, store: Store) -> None:
        super().__init__(FLOW_GROUP, "v1", "FlowSchema", has_status=True)
        self.row_order = _place
        self._levels = store.table(LEVELS_PLACE)

    @override
    def default(self, body: Body) -> None:
        super().default(body)
        spec = body["spec"]
        spec["matchingPrecedence"] = spec["matchingPrecedence"] or _USUAL_PRECEDENCE

    @override
    def prepare_create(self, body: Body) -> None:
        super().prepare_create(body)
        body["status"] = self.referenced(body)

    @override
    def prepare_update(self, body: Body, old: Body) -> None:
        super().prepare_update(body, old)
        body["status"] = self.referenced(body)

    def referenced(self, body: Body) -> Body:
        """Return the status of a flow schema, in which it says whether its level is there.

        A controller within kube-apiserver writes this, a moment later.
        """
        name = body["spec"]["priorityLevelConfiguration"]["name"]
        found = self._levels.get(name) is not None
        status: Body = body.get("status") or {}
        conditions = status.get("conditions") or []
        told = f'the PriorityLevelConfiguration object named "{name}"'
        known = {
            "type": _DANGLING,
            "status": "False" if found else "True",
            "reason": "Found" if found else "NotFound",
            "message": f"This FlowSchema references {told} "
            + ("and it exists" if found else "but there is no such object"),
        }
        if any(known.items() <= one.items() for one in conditions):
            return status
        others = [one for one in conditions if one.get("type") != _DANGLING]
        moment = {"lastTransitionTime": objectmeta.timestamp()}
        return {**status, "conditions": [*others, {**known, **moment}]}

    @override
    def problems(self, body: Body, old: Body | None) -> Iterator[FieldError]:
        spec, name = body["spec"], body["metadata"].get("name", "")
        yield from _flow_problems(spec, name)
        if name in {"catch-all", "exempt"} and spec != FLOWS[name]:
            yield invalid("spec", spec, _FIXED.format(name))
        yield from self.status_problems(body)

    @override
    def status_problems(self, body: Body) -> Iterator[FieldError]:
        yield from _condition_problems(body)


class PriorityLevelRules(ShapedRules):
    """How many requests of a level are answered at once, and how many wait."""

    counting: ClassVar[bool] = True

    @override
    def default(self, body: Body) -> None:
        super().default(body)
        spec = body["spec"]
        if "exempt" in spec:
            _fill(spec["exempt"], nominalConcurrencyShares=0, lendablePercent=0)
        limited = spec.get("limited")
        if limited is not None:
            _fill(limited, nominalConcurrencyShares=30, lendablePercent=0, limitResponse={})
            response = limited["limitResponse"]
            response.setdefault("type", "")
            if "queuing" in response:
                queuing = response["queuing"]
                for part, usual in (("queues", 64), ("handSize", 8), ("queueLengthLimit", 50)):
                    queuing[part] = queuing.get(part) or usual

    @override
    def problems(self, body: Body, old: Body | None) -> Iterator[FieldError]:
        spec, name = body["spec"], body["metadata"].get("name", "")
        yield from _level_problems(spec, name)
        if name == "exempt" and {**spec, "exempt": 0} != {**LEVELS[name], "exempt": 0}:
            text = f"spec of '{name}' except the spec.exempt field must equal the fixed value"
            yield invalid("spec", spec, text)
        elif name == "catch-all" and spec != LEVELS[name]:
            yield invalid("spec", spec, _FIXED.format(name))
        yield from self.status_problems(body)

    @override
    def status_problems(self, body: Body) -> Iterator[FieldError]:
        yield from _condition_problems(body)


def _place(body: Body) -> tuple[int, str]:
    """Return a key that sorts flow schemas as they are tried."""
    return body["spec"]["matchingPrecedence"], body["metadata"]["name"]


def _fill(body: Body, **defaults: Any) -> None:
    for name, value in defaults.items():
        body.setdefault(name, value)


def _condition_problems(body: Body) -> Iterator[FieldError]:
    kinds: list[str] = []
    for at, one in enumerate((body.get("status") or {}).get("conditions") or ()):
        path, kind = f"status.conditions[{at}].type", one.get("type", "")
        if kind in kinds:
            yield duplicate(path, kind)
        kinds.append(kind)
        if not kind:
            yield required(path, "must not be empty")


def _flow_problems(spec: Body, name: str) -> Iterator[FieldError]:
    path, precedence = "spec.matchingPrecedence", spec["matchingPrecedence"]
    if precedence <= 0:
        yield invalid(path, precedence, "must be a positive value")
    if precedence > _LAST:
        yield invalid(path, precedence, f"must not be greater than {_LAST}")
    if precedence == 1 and name != "exempt":
        text = "only the schema named 'exempt' may have matchingPrecedence 1"
        yield invalid(path, precedence, text)
    method = spec.get("distinguisherMethod")
    if method is not None and method.get("type") not in {"ByNamespace", "ByUser"}:
        shown = {"Type": method.get("type", "")}
        yield not_supported("spec.distinguisherMethod.type", shown, ("ByNamespace", "ByUser"))
    level = spec["priorityLevelConfiguration"]["name"]
    path = "spec.priorityLevelConfiguration.name"
    if not level:
        yield required(path, "must reference a priority level")
    for error in subdomain_errors(level) if level else ():
        yield invalid(path, level, error)
    for at, rule in enumerate(spec.get("rules") or ()):
        yield from rule_problems(rule, f"spec.rules[{at}]")


def _level_problems(spec: Body, name: str) -> Iterator[FieldError]:
    kind = spec["type"]
    if (name == "exempt") != (kind == "Exempt"):
        text = "type must be 'Exempt' if and only if name is 'exempt'"
        yield invalid("spec.type", kind, text)
    if kind == "Exempt":
        if "limited" in spec:
            yield forbidden("spec.limited", "must be nil if the type is not Limited")
        if "exempt" in spec:
            yield from _share_problems(spec["exempt"], "spec.exempt")
    elif kind == "Limited":
        if "exempt" in spec:
            yield forbidden("spec.exempt", "must be nil if the type is Limited")
        if "limited" not in spec:
            yield required("spec.limited", "must not be empty when type is Limited")
        else:
            yield from _limit_problems(spec["limited"], "spec.limited")
    else:
        yield not_supported("spec.type", kind, ("Exempt", "Limited"))


def _share_problems(given: Body, path: str) -> Iterator[FieldError]:
    shares, lendable = given["nominalConcurrencyShares"], given["lendablePercent"]
    if shares < 0:
        text = "must be a non-negative integer"
        yield invalid(f"{path}.nominalConcurrencyShares", shares, text)
    if not 0 <= lendable <= 100:
        text = "must be between 0 and 100, inclusive"
        yield invalid(f"{path}.lendablePercent", lendable, text)


def _limit_problems(limited: Body, path: str) -> Iterator[FieldError]:
    yield from _share_problems(limited, path)
    borrowed = limited.get("borrowingLimitPercent", 0)
    if borrowed < 0:
        text = "if specified, must be a non-negative integer"
        yield invalid(f"{path}.borrowingLimitPercent", borrowed, text)
    response, path = limited["limitResponse"], f"{path}.limitResponse"
    if response["type"] == "Reject":
        if "queuing" in response:
            text = "must be nil if limited.limitResponse.type is not Limited"
            yield forbidden(f"{path}.queuing", text)
    elif response["type"] == "Queue":
        if "queuing" not in response:
            text = "must not be empty if limited.limitResponse.type is Limited"
            yield required(f"{path}.queuing", text)
        else:
            yield from _queue_problems(response["queuing"], f"{path}.queuing")
    else:
        yield not_supported(f"{path}.type", response["type"], ("Queue", "Reject"))


def _queue_problems(queuing: Mapping[str, int], path: str) -> Iterator[FieldError]:
    queues, hand, length = (queuing[name] for name in ("queues", "handSize", "queueLengthLimit"))
    if length <= 0:
        yield invalid(f"{path}.queueLengthLimit", length, "must be positive")
    if queues <= 0:
        yield invalid(f"{path}.queues", queues, "must be positive")
    elif queues > _MOST_QUEUES:
        yield invalid(f"{path}.queues", queues, f"must not be greater than {_MOST_QUEUES}")
    if hand <= 0:
        yield invalid(f"{path}.handSize", hand, "must be positive")
    elif hand > queues:
        text = f"should not be greater than queues ({queues})"
        yield invalid(f"{path}.handSize", hand, text)
    elif math.ceil(math.log2(queues) * hand) > _HASH_BITS:
        text = f"required entropy bits of deckSize {queues} and handSize {hand}"
        yield invalid(f"{path}.handSize", hand, f"{text} should not be greater than {_HASH_BITS}")
