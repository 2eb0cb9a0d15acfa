"""From a request to the verb that answers it, or to the refusal of a verb that there is not."""

from collections.abc import Awaitable, Callable

from envtest.access.accounts import AccountTokens
from envtest.access.reviews import REVIEWS, Reviews
from envtest.server.api import Api
from envtest.server.call import Answer, AuthorizedCall
from envtest.server.deletes import delete, delete_collection
from envtest.server.failures import (
    StatusError,
    bad_request,
    method_not_allowed,
    method_not_supported,
)
from envtest.server.patches import patch
from envtest.server.reads import get, list_
from envtest.server.request import RequestInfo
from envtest.server.resource import StoredResource
from envtest.server.scale import answer_scale
from envtest.server.writes import create, update

# Verbs that need not name a namespace.
_ACROSS_NAMESPACES = frozenset({"list", "watch"})

Verb = Callable[[Api, AuthorizedCall], Awaitable[Answer]]

_VERBS: dict[str, Verb] = {
    "get": get,
    "list": list_,
    "create": create,
    "update": update,
    "patch": patch,
    "delete": delete,
    "deletecollection": delete_collection,
}


def check_served(resource: StoredResource, info: RequestInfo, method: str) -> None:
    """Refuse a subresource or a verb that the resource does not have.

    Raises:
        StatusError: 404 or 405.
    """
    _check_verb(resource, info)
    # Built-in resources have routes for the methods that they name; custom ones for verbs.
    if not resource.rules.custom and method == "HEAD":
        raise method_not_allowed()


def _check_verb(resource: StoredResource, info: RequestInfo) -> None:
    """Raise StatusError if the resource does not support the verb of a request."""
    if info.subresource:
        if info.subresource not in resource.subresources:
            raise resource.not_found(info.name) if resource.rules.custom else no_such_path()
        allowed = info.verb in resource.subresources[info.subresource]["verbs"]
    else:
        allowed = info.verb in resource.verbs
    if info.verb == "create" and info.name and not info.subresource and not resource.rules.custom:
        allowed = False
    if not info.name and info.verb in {"update", "patch"}:
        if resource.rules.custom:
            raise bad_request("name must be provided")
        allowed = False
    if resource.namespaced and not info.namespace and info.verb not in _ACROSS_NAMESPACES:
        allowed = False
    if not allowed:
        if resource.rules.custom:
            raise method_not_supported(info.verb, resource.plural, resource.group)
        raise method_not_allowed()


def has_wrong_scope(resource: StoredResource, info: RequestInfo) -> bool:
    """Return whether a path's namespace does not fit the scope of the resource; it gets a 404.

    Either the resource is cluster-scoped and the path has a namespace (that of a Namespace's own
    path is its name), or it is namespaced and the path lacks one. Allowed without one: list and
    watch of custom resources, and any collection of built-in ones (`check_served` refuses the
    other verbs).
    """
    if not resource.namespaced:
        return bool(info.namespace) and (info.resource, info.namespace) != (
            "namespaces",
            info.name,
        )
    if info.namespace:
        return False
    if resource.rules.custom:
        return info.verb not in _ACROSS_NAMESPACES
    return bool(info.name)


def no_such_path() -> StatusError:
    """Return the 404 of a served group for a path that it does not have."""
    return StatusError(
        404, "the server could not find the requested resource", "NotFound", details={}
    )


async def answer(
    api: Api, reviews: Reviews, accounts: AccountTokens, call: AuthorizedCall
) -> Answer:
    """Answer a request on a resource; watches are streamed elsewhere."""
    if call.info.described == "serviceaccounts/token" and not call.info.group:
        return accounts.answer(call)
    if call.info.resource in REVIEWS and call.info.group.endswith(".k8s.io"):
        return reviews.answer(call)
    if call.info.subresource == "scale":
        return await answer_scale(api, call)
    verb = _VERBS.get(call.info.verb)
    if verb is None:
        raise method_not_allowed()
    return await verb(api, call)
