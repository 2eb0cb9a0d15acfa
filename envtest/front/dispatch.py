"""Routing of requests to the verbs that answer them, and refusals of verbs that do not exist."""

from collections.abc import Awaitable, Callable

from envtest.access.accounts import AccountTokens
from envtest.access.reviews import REVIEWS, Reviews
from envtest.server.api import Api
from envtest.server.call import Answer, AuthorizedCall
from envtest.server.deletes import answer_delete, answer_delete_collection
from envtest.server.failures import (
    StatusError,
    build_bad_request,
    build_method_not_allowed,
    build_method_not_supported,
)
from envtest.server.patches import answer_patch
from envtest.server.reads import answer_get, answer_list
from envtest.server.request import RequestInfo
from envtest.server.resource import StoredResource
from envtest.server.scale import answer_scale
from envtest.server.writes import answer_create, answer_update

# Verbs on namespaced resources whose path need not have a namespace.
_ACROSS_NAMESPACES = frozenset({"list", "watch"})

Verb = Callable[[Api, AuthorizedCall], Awaitable[Answer]]

_VERBS: dict[str, Verb] = {
    "get": answer_get,
    "list": answer_list,
    "create": answer_create,
    "update": answer_update,
    "patch": answer_patch,
    "delete": answer_delete,
    "deletecollection": answer_delete_collection,
}


def refuse_missing_verb(resource: StoredResource, info: RequestInfo, method: str) -> None:
    """Refuse a subresource or a verb that the resource does not have.

    Raises:
        StatusError: 404 or 405.
    """
    _refuse_unsupported_verb(resource, info)
    # HEAD is the verb get. kube-apiserver routes custom resources by verb, but built-in ones by
    # method, and HEAD has no route.
    if not resource.rules.is_custom and method == "HEAD":
        raise build_method_not_allowed()


def _refuse_unsupported_verb(resource: StoredResource, info: RequestInfo) -> None:
    """Refuse a request whose verb the resource, or its subresource, does not have.

    Raises:
        StatusError: 404 for an unknown subresource, 405 for a verb, 400 for a missing name. As in
            kube-apiserver, custom and built-in resources differ in the code and the message.
    """
    if info.subresource:
        if info.subresource not in resource.subresources:
            raise (
                resource.build_not_found_error(info.name)
                if resource.rules.is_custom
                else build_missing_path_error()
            )
        is_allowed = info.verb in resource.subresources[info.subresource]["verbs"]
    else:
        is_allowed = info.verb in resource.verbs
    # A POST to the path of an object; kube-apiserver has no such route for built-in resources.
    if (
        info.verb == "create"
        and info.name
        and not info.subresource
        and not resource.rules.is_custom
    ):
        is_allowed = False
    if not info.name and info.verb in {"update", "patch"}:
        if resource.rules.is_custom:
            raise build_bad_request("name must be provided")
        is_allowed = False
    # A path without a namespace stands for all namespaces, where no single object can be meant.
    if resource.namespaced and not info.namespace and info.verb not in _ACROSS_NAMESPACES:
        is_allowed = False
    if not is_allowed:
        if resource.rules.is_custom:
            raise build_method_not_supported(info.verb, resource.plural, resource.group)
        raise build_method_not_allowed()


def has_wrong_scope(resource: StoredResource, info: RequestInfo) -> bool:
    """Return whether the namespace in a path does not fit the scope of the resource.

    A path with a namespace does not fit a cluster-scoped resource, except for the path of a
    Namespace itself. A path without one does not fit a namespaced resource, with two exceptions:
    list and watch of custom resources, and all collections of built-in ones, whose other verbs
    `refuse_missing_verb` refuses with another code.
    """
    if not resource.namespaced:
        is_namespace_object = info.resource == "namespaces" and info.namespace == info.name
        return bool(info.namespace) and not is_namespace_object
    if info.namespace:
        return False
    if resource.rules.is_custom:
        return info.verb not in _ACROSS_NAMESPACES
    return bool(info.name)


def build_missing_path_error() -> StatusError:
    """Return 404 for a path that does not exist within a built-in group."""
    return StatusError(
        404, "the server could not find the requested resource", "NotFound", details={}
    )


async def answer_call(
    api: Api, reviews: Reviews, accounts: AccountTokens, call: AuthorizedCall
) -> Answer:
    """Answer a request on a resource, except for watches, which are streamed."""
    if call.info.resource_path == "serviceaccounts/token" and not call.info.group:
        return accounts.answer_token_request(call)
    # A custom kind of another group may have the plural of a review.
    if call.info.resource in REVIEWS and call.info.group.endswith(".k8s.io"):
        return reviews.answer_review(call)
    if call.info.subresource == "scale":
        return await answer_scale(api, call)
    verb = _VERBS.get(call.info.verb)
    if verb is None:
        raise build_method_not_allowed()
    return await verb(api, call)
