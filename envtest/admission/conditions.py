"""Match conditions: expressions that decide whether a webhook is asked at all."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from envtest.admission.attributes import Attributes, in_version
from envtest.admission.review import condition_request
from envtest.server.resource import Resource

if TYPE_CHECKING:
    from envtest.schema.cel.authorization import Authorizer, Decide
    from envtest.schema.cel.conditions import Condition


class Undecided(Exception):
    """Conditions that cannot be evaluated; the text is the real server's."""


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
    from envtest.schema.cel.functions import CelError

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
    from envtest.schema.cel.authorization import Authorizer, Check, ResourceCheck

    info = attributes.call.info
    wanted = {
        "group": info.group,
        "resource": info.resource,
        "subresource": info.subresource,
        "namespace": attributes.namespace,
        "name": attributes.name,
    }
    return Authorizer(Check(decide), ResourceCheck(decide, wanted))
