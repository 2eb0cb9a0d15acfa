"""Match conditions: expressions that decide whether a webhook is asked at all."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from envtest.admission.attributes import Attributes, in_version
from envtest.admission.review import condition_request
from envtest.schema.cel.authorization import (
    AUTHORIZER,
    Authorizer,
    Check,
    Decide,
    ResourceCheck,
)
from envtest.schema.cel.checker import CheckFailed, NotInstantiable, check
from envtest.schema.cel.evaluator import Program
from envtest.schema.cel.functions import CelError
from envtest.schema.cel.syntax import CelSyntaxError, parse
from envtest.schema.cel.types import BOOL, DYN, INT, STRING, TIMESTAMP, CelType, list_of, map_of
from envtest.server.resource import Resource


class Undecided(Exception):
    """Conditions that cannot be evaluated; the text is the real server's."""


@dataclass(frozen=True, slots=True)
class Condition:
    """An expression; `program` is None where it does not compile, which `failure` explains."""

    expression: str
    program: Program | None
    failure: str = ""


def _struct(kind: str, /, **fields: CelType) -> CelType:
    return CelType(kind, fields=fields, names={field: field for field in fields})


_KIND = _struct("kubernetes.GroupVersionKind", group=STRING, version=STRING, kind=STRING)
_RESOURCE = _struct(
    "kubernetes.GroupVersionResource", group=STRING, version=STRING, resource=STRING
)
_USER = _struct(
    "kubernetes.UserInfo",
    username=STRING,
    uid=STRING,
    groups=list_of(STRING),
    extra=map_of(STRING, list_of(STRING)),
)
_REQUEST = _struct(
    "kubernetes.AdmissionRequest",
    kind=_KIND,
    resource=_RESOURCE,
    subResource=STRING,
    requestKind=_KIND,
    requestResource=_RESOURCE,
    requestSubResource=STRING,
    name=STRING,
    namespace=STRING,
    operation=STRING,
    userInfo=_USER,
    dryRun=BOOL,
    options=DYN,
)
_META = _struct(
    "kubernetes.NamespaceMetadata",
    name=STRING,
    generateName=STRING,
    namespace=STRING,
    labels=map_of(STRING, STRING),
    annotations=map_of(STRING, STRING),
    UID=STRING,
    creationTimestamp=TIMESTAMP,
    deletionGracePeriodSeconds=INT,
    deletionTimestamp=TIMESTAMP,
    generation=INT,
    resourceVersion=STRING,
    finalizers=list_of(STRING),
)
_NAMESPACE = _struct(
    "kubernetes.Namespace",
    metadata=_META,
    spec=_struct("kubernetes.NamespaceSpec", finalizers=list_of(STRING)),
    status=_struct("kubernetes.NamespaceStatus", phase=STRING),
)
_VARIABLES: Final[Mapping[str, CelType]] = {
    "object": DYN,
    "oldObject": DYN,
    "request": _REQUEST,
    # Declared, but never set where webhooks are concerned.
    "namespaceObject": _NAMESPACE,
    "authorizer": AUTHORIZER,
}


def compile_condition(expression: str) -> Condition:
    """Compile an expression; what is wrong with it stands in the result."""
    try:
        checked = check(parse(expression), expression, _VARIABLES)
    except (CelSyntaxError, CheckFailed) as error:
        return Condition(expression, None, f"compilation failed: {error}")
    except NotInstantiable as error:
        return Condition(expression, None, f"program instantiation failed: {error}")
    if checked.type != BOOL:
        return Condition(expression, None, f"must evaluate to bool but got {checked.type}")
    return Condition(expression, Program(checked))


def meets(
    conditions: Sequence[Condition],
    attributes: Attributes,
    resource: Resource,
    decide: Decide,
) -> bool:
    """Tell whether all conditions hold; one that does not outweighs those without a value.

    Args:
        conditions: at least one.
        attributes: the write.
        resource: the version of the resource that the webhook wants to see.
        decide: answers what the author of the request may do.

    Raises:
        Undecided: some have no value, and no other one is false.
    """
    given = attributes.call.resource
    variables = {
        "object": in_version(attributes.new, given, resource),
        "oldObject": in_version(attributes.old, given, resource),
        "request": condition_request(attributes, resource),
        "namespaceObject": None,
        "authorizer": _authorizer(attributes, decide),
    }
    errors: list[str] = []
    for held in _values(conditions, variables, errors):
        if not held:
            return False
    if errors:
        raise Undecided(errors[0] if len(errors) == 1 else f"[{', '.join(errors)}]")
    return True


def _values(
    conditions: Sequence[Condition], variables: Mapping[str, Any], errors: list[str]
) -> Iterator[bool]:
    """Yield the values of those that have one; note why the others have none."""
    for one in conditions:
        why = one.failure
        if one.program is not None:
            try:
                yield one.program.evaluate(variables) is True
                continue
            except CelError as error:
                why = str(error)
        errors.append(f"expression '{one.expression}' resulted in error: {why}")


def _authorizer(attributes: Attributes, decide: Decide) -> Authorizer:
    info = attributes.call.info
    wanted = {
        "group": info.group,
        "resource": info.resource,
        "subresource": info.subresource,
        "namespace": attributes.namespace,
        "name": attributes.name,
    }
    return Authorizer(Check(decide), ResourceCheck(decide, wanted))
