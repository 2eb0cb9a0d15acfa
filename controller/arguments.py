"""Checks of what callers pass to a client or a manager, so that a mix-up is named at once.

Python accepts an object where a Version is expected, and fails later with an AttributeError or
with a request that no server understands. Each check raises an error that says what to pass.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from controller.argumenttypes import check_type, describe_value
from controller.callbacks import is_key
from controller.meta import Key, Version
from controller.resource import Resource


def check_resource(resource: object, caller: str) -> None:
    """Raise TypeError if `resource` is no Resource, such as the objects' type or an informer.

    Args:
        resource: as the caller passed it.
        caller: the method that needs it, for the message: `Manager.get_informer`.
    """
    if isinstance(resource, Resource):
        return
    hint = ""
    # An informer and a cache have the kind as `resource`.
    if isinstance(getattr(resource, "resource", None), Resource):
        hint = f"; pass the Resource of this {type(resource).__name__}"
    elif isinstance(resource, type):
        hint = f"; {resource.__name__} is the type of the objects, a Resource says where they are"
    raise TypeError(f"{caller} needs a controller.Resource, not {describe_value(resource)}{hint}")


@dataclass(frozen=True, slots=True)
class Expected:
    """A sort of argument that requests need.

    Args:
        accepts: returns whether a value is of this sort.
        name: what to pass, for the message.
    """

    accepts: Callable[[object], bool]
    name: str


KEY = Expected(is_key, "controller.Key(namespace, name)")
VERSION = Expected(
    lambda value: isinstance(value, Version),
    "the Version that the decision was made on: Version.from_object(obj)",
)
OBJECT = Expected(
    lambda value: not isinstance(value, Version) and hasattr(value, "metadata"),
    "the object as it was read",
)
NAMESPACE = Expected(
    lambda value: isinstance(value, str),
    "the namespace as text, '' for a cluster-scoped kind",
)


def check_argument(
    resource: Resource[Any], argument: object, verb: str, expected: Expected
) -> None:
    """Raise TypeError if `argument` is of another sort, such as an object in place of its Version.

    The resource is checked first, because the message names the kind.

    Args:
        resource: the kind, as the caller passed it.
        argument: as the caller passed it.
        verb: of the request, or the method of the client, for the message.
        expected: what the request needs.
    """
    check_resource(resource, f"Client.{verb}")
    if not expected.accepts(argument):
        raise TypeError(
            f"{verb} {resource.full_name} needs {expected.name}, not {describe_value(argument)}"
        )


_SCOPE_HINTS = {
    "namespace": "; pass a NamespaceSet as namespaces=",
    "labels": "; write_selector makes it of a label selector in object form",
    "fields": ", as in metadata.name=web",
}
"""How a part of a scope is written instead, for the message of `check_scope`."""


def check_scope(resource: Resource[Any], scope: Mapping[str, object], caller: str) -> None:
    """Raise TypeError if a part of a scope is no text, such as a selector in object form.

    Args:
        resource: the kind.
        scope: `namespace`, `labels` and `fields`, as the caller passed them.
        caller: the method that needs them, for the message: `Manager.get_informer`.
    """
    for name, value in scope.items():
        if isinstance(value, str):
            continue
        hint = _SCOPE_HINTS.get(name, "")
        raise TypeError(
            f"{caller} of {resource.full_name}: {name} must be text, not"
            f" {describe_value(value)}{hint}"
        )


def check_key_has_namespace(resource: Resource[Any], key: Key, verb: str) -> None:
    """Raise ValueError if the kind is namespaced and the key has no namespace.

    The server has no such path, and answers with a 404 that does not say why.

    Args:
        resource: the kind.
        key: namespace and name of the object.
        verb: of the request, for the message.
    """
    if resource.namespaced and not key.namespace:
        raise ValueError(
            f"{verb} {resource.full_name} {key.name}: the kind is namespaced, so say in which"
            " namespace the object is; a cluster-scoped kind has Resource(..., namespaced=False)"
        )


def check_body(resource: Resource[Any], body: object, verb: str) -> None:
    """Raise TypeError if a body, or the metadata in it, is no dictionary.

    Args:
        resource: the kind.
        body: as the caller passed it.
        verb: of the request, for the message.
    """
    argument = f"{verb} {resource.full_name}: the body"
    if hasattr(body, "metadata"):
        raise TypeError(
            f"{argument} must be a dictionary, not the object {describe_value(body)}: an object"
            " has only the fields of its type, so write the fields that the server is to store"
        )
    check_type(body, Mapping, argument=argument, expected="a dictionary")
    assert isinstance(body, Mapping)  # for the type checker
    check_type(
        body.get("metadata"),
        (Mapping, type(None)),
        argument=f"{verb} {resource.full_name}: metadata",
        expected='a dictionary, such as {"name": "a"}',
    )
