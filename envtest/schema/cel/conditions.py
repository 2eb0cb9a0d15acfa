"""Conditions of admission webhooks: expressions over the request and its objects.

Compiled here, where a configuration is judged, too; evaluated by who asks the webhooks.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from envtest.schema.cel.authorization import AUTHORIZER
from envtest.schema.cel.checker import CheckFailed, NotInstantiable, check
from envtest.schema.cel.evaluator import Program
from envtest.schema.cel.syntax import CelSyntaxError, parse
from envtest.schema.cel.types import BOOL, DYN, INT, STRING, TIMESTAMP, CelType, list_of, map_of


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
