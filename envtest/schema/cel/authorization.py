"""What the author of a request may do: the `authorizer` that webhook conditions can ask.

Rules of custom resources know these functions, too, but have no variable to call them on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final

from envtest.schema.cel.functions import Library
from envtest.schema.cel.types import CelType

AUTHORIZATION: Final = Library()
_define = AUTHORIZATION.define
_PREFIX: Final = "kubernetes.authorization"

# Decides about one thing that somebody wants: verb, and what else is known of it by name.
# `serviceAccount` is given as `namespace:name` where another one than the author is meant.
Decide = Callable[[Mapping[str, str]], bool]


@dataclass(frozen=True, slots=True)
class Decision:
    """Whether something is allowed."""

    cel_type: ClassVar[str] = f"{_PREFIX}.Decision"
    allowed: bool


@dataclass(frozen=True, slots=True)
class Check:
    """Something that somebody wants, as far as it has been said; subclasses tell how far."""

    decide: Decide
    wanted: Mapping[str, str] = field(default_factory=dict)

    def extended(self, kind: type[Check], **more: str) -> Check:
        """Return what is wanted with more said about it."""
        return kind(self.decide, {**self.wanted, **more})


class PathCheck(Check):
    """A path that is no resource."""

    cel_type: ClassVar[str] = f"{_PREFIX}.PathCheck"


class GroupCheck(Check):
    """An API group."""

    cel_type: ClassVar[str] = f"{_PREFIX}.GroupCheck"


class ResourceCheck(Check):
    """A resource, or one object of it."""

    cel_type: ClassVar[str] = f"{_PREFIX}.ResourceCheck"


class Authorizer(dict[str, Any]):
    """The authorizer; its one field is the resource of the request at hand.

    A dict, because that is what expressions select fields from.
    """

    cel_type: ClassVar[str] = f"{_PREFIX}.Authorizer"

    def __init__(self, base: Check, request: ResourceCheck) -> None:
        super().__init__(requestResource=request)
        self.base = base


AUTHORIZER: Final = CelType(
    Authorizer.cel_type,
    fields={"requestResource": CelType(ResourceCheck.cel_type)},
    names={"requestResource": "requestResource"},
)


@_define("path", f"{_PREFIX}.Authorizer.(string) {_PREFIX}.PathCheck")
def _path(authorizer: Authorizer, path: str) -> Check:
    return authorizer.base.extended(PathCheck, path=path)


@_define("group", f"{_PREFIX}.Authorizer.(string) {_PREFIX}.GroupCheck")
def _group(authorizer: Authorizer, group: str) -> Check:
    return authorizer.base.extended(GroupCheck, group=group)


@_define("serviceAccount", f"{_PREFIX}.Authorizer.(string, string) {_PREFIX}.Authorizer")
def _service_account(authorizer: Authorizer, namespace: str, name: str) -> Authorizer:
    base = authorizer.base.extended(Check, serviceAccount=f"{namespace}:{name}")
    request = authorizer["requestResource"]
    assert isinstance(request, ResourceCheck)
    return Authorizer(base, request)


@_define("resource", f"{_PREFIX}.GroupCheck.(string) {_PREFIX}.ResourceCheck")
def _resource(group: GroupCheck, resource: str) -> Check:
    return group.extended(ResourceCheck, resource=resource)


@_define("subresource", f"{_PREFIX}.ResourceCheck.(string) {_PREFIX}.ResourceCheck")
def _subresource(resource: ResourceCheck, subresource: str) -> Check:
    return resource.extended(ResourceCheck, subresource=subresource)


@_define("namespace", f"{_PREFIX}.ResourceCheck.(string) {_PREFIX}.ResourceCheck")
def _namespace(resource: ResourceCheck, namespace: str) -> Check:
    return resource.extended(ResourceCheck, namespace=namespace)


@_define("name", f"{_PREFIX}.ResourceCheck.(string) {_PREFIX}.ResourceCheck")
def _name(resource: ResourceCheck, name: str) -> Check:
    return resource.extended(ResourceCheck, name=name)


@_define(
    "check",
    f"{_PREFIX}.PathCheck.(string) {_PREFIX}.Decision",
    f"{_PREFIX}.ResourceCheck.(string) {_PREFIX}.Decision",
)
def _check(wanted: Check, verb: str) -> Decision:
    return Decision(wanted.decide({**wanted.wanted, "verb": verb}))


@_define("allowed", f"{_PREFIX}.Decision.() bool")
def _allowed(decision: Decision) -> bool:
    return decision.allowed


@_define("errored", f"{_PREFIX}.Decision.() bool")
def _errored(_decision: Decision) -> bool:
    return False


@_define("reason", f"{_PREFIX}.Decision.() string")
@_define("error", f"{_PREFIX}.Decision.() string")
def _no_words(_decision: Decision) -> str:
    return ""
