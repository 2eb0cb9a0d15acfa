"""The verb, resource and object of a request, read from its path: the API server's RequestInfo.

Authorization and routing both use it, so the action that is done is the one that was allowed.
"""

from collections.abc import Mapping

import msgspec

_VERBS = {
    "GET": "get",
    "HEAD": "get",
    "POST": "create",
    "PUT": "update",
    "PATCH": "patch",
    "DELETE": "delete",
}
# Under a namespace these are subresources of the namespace itself, not resources in it.
_NAMESPACE_SUBRESOURCES = frozenset({"status", "finalize"})


class RequestInfo(msgspec.Struct, frozen=True, gc=False):
    """One request: a verb on a resource, or on a path that is no resource."""

    path: str
    verb: str
    is_resource: bool = False
    group: str = ""
    version: str = ""
    namespace: str = ""
    resource: str = ""
    subresource: str = ""
    name: str = ""
    selected_name: str = ""
    """The name that the field selector `metadata.name=...` demands; empty without one.

    A role that allows an object by resourceNames also allows to list and watch it like this.
    """

    @property
    def resource_path(self) -> str:
        """The resource with its subresource, such as `widgets/status`."""
        return f"{self.resource}/{self.subresource}" if self.subresource else self.resource


def read_request(method: str, path: str, query: Mapping[str, str]) -> RequestInfo:
    """Return the verb, resource and object of a request.

    For a path that is no resource, only the path and, as the verb, the HTTP method are set.
    """
    parts = path.strip("/").split("/")
    if len(parts) >= 3 and parts[0] == "api":
        group, version, rest = "", parts[1], parts[2:]
    elif len(parts) >= 4 and parts[0] == "apis":
        group, version, rest = parts[1], parts[2], parts[3:]
    else:
        return RequestInfo(path, method.lower())
    verb = _VERBS.get(method, "")
    namespace, rest = _split_namespace(rest)
    resource, name = rest[0], rest[1] if len(rest) > 1 else ""
    # All that follows the name, also if it is no subresource that exists: the server refuses it.
    subresource = "/".join(rest[2:])
    if not name:
        verb = {"get": "list", "delete": "deletecollection"}.get(verb, verb)
        # Any other value means true, as in `options.read_flag`.
        if verb == "list" and query.get("watch", "0").lower() not in {"0", "false"}:
            verb = "watch"
    may_select_name = verb in {"list", "watch"}
    selected_name = _read_selected_name(query.get("fieldSelector", "")) if may_select_name else ""
    return RequestInfo(
        path,
        verb,
        is_resource=True,
        group=group,
        version=version,
        namespace=namespace,
        resource=resource,
        subresource=subresource,
        name=name,
        selected_name=selected_name,
    )


def _read_selected_name(fields: str) -> str:
    """Return the name that a field selector demands; empty if it demands none, or no valid one.

    As RequestInfoFactory does (k8s.io/apiserver/pkg/endpoints/request/requestinfo.go).
    """
    for term in fields.split(","):
        field, equals, value = term.partition("=")
        # The operator may be `=` or `==`.
        name = value.removeprefix("=")
        if equals and field.strip() == "metadata.name" and _is_segment(name):
            return name
    return ""


def _is_segment(name: str) -> bool:
    """Return whether a name can be one segment of a URL path."""
    return name not in {"", ".", ".."} and "/" not in name and "%" not in name


def _split_namespace(rest: list[str]) -> tuple[str, list[str]]:
    """Return the namespace of a path (empty if it has none), and the parts after it.

    A path of the namespace object itself keeps all its parts: its resource is `namespaces`.
    """
    if rest[0] != "namespaces" or len(rest) < 2:
        return "", rest
    if len(rest) == 2 or (len(rest) == 3 and rest[2] in _NAMESPACE_SUBRESOURCES):
        return rest[1], rest
    return rest[1], rest[2:]
