"""Reviews: questions about who somebody is and what they may do. They are never stored."""

from typing import Any

from envtest.access.rbac import Attributes, Authorizer
from envtest.access.tokens import Authenticator
from envtest.server.bodies import fit, judge_complaints, read_object
from envtest.server.call import Call, Plain, User
from envtest.server.options import write_options

REVIEWS = frozenset(
    {
        "localsubjectaccessreviews",
        "selfsubjectaccessreviews",
        "selfsubjectreviews",
        "selfsubjectrulesreviews",
        "subjectaccessreviews",
        "tokenreviews",
    }
)


class Reviews:
    """Answers reviews."""

    def __init__(
        self, authenticator: Authenticator, authorizer: Authorizer, audiences: list[str]
    ) -> None:
        self._authenticator = authenticator
        self._authorizer = authorizer
        self._audiences = audiences

    def answer(self, call: Call) -> Plain:
        """Answer a POST of a review."""
        options = write_options("CreateOptions", call.query, call.dry_runs, call.agent)
        decoded = read_object(call.data, call.content_type, call.resource)
        fit(call.resource, decoded)
        judge_complaints(call.resource, decoded, options.field_validation, call.warnings)
        body = decoded.body
        spec = body.setdefault("spec", {})
        match call.info.resource:
            case "tokenreviews":
                status = self._token(spec)
            case "selfsubjectreviews":
                status = {"userInfo": describe(call.user)}
            case "selfsubjectrulesreviews":
                status = self._rules(call.user, spec)
            case "selfsubjectaccessreviews":
                status = self._access(call.user, spec)
            case _:
                user = User(spec.get("user", ""), tuple(spec.get("groups", ())))
                status = self._access(user, spec)
        return Plain(201, {**body, "metadata": body.get("metadata") or {}, "status": status})

    def _token(self, spec: dict[str, Any]) -> dict[str, Any]:
        user = self._authenticator.of_token(spec.get("token", ""))
        if user is None:
            return {"user": {}, "error": "invalid bearer token"}
        return {"authenticated": True, "user": describe(user), "audiences": self._audiences}

    def _access(self, user: User, spec: dict[str, Any]) -> dict[str, Any]:
        of_resource = spec.get("resourceAttributes")
        of_path = spec.get("nonResourceAttributes") or {}
        if of_resource is None:
            wanted = Attributes(of_path.get("verb", ""), path=of_path.get("path", ""))
        else:
            names = ("verb", "group", "resource", "subresource", "namespace", "name")
            wanted = Attributes(**{name: of_resource.get(name, "") for name in names})
        return {"allowed": self._authorizer.allowed(user, wanted)}

    def _rules(self, user: User, spec: dict[str, Any]) -> dict[str, Any]:
        if "system:masters" in user.groups:
            everything: dict[str, Any] = {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}
            found = [everything, {"verbs": ["*"], "nonResourceURLs": ["*"]}]
        else:
            found = list(self._authorizer.rules(user, spec.get("namespace", "")))
        return {
            "resourceRules": [rule for rule in found if "resources" in rule],
            "nonResourceRules": [rule for rule in found if "nonResourceURLs" in rule],
            "incomplete": False,
        }


def describe(user: User) -> dict[str, Any]:
    """Return a UserInfo."""
    described: dict[str, Any] = {"username": user.name}
    if user.uid:
        described["uid"] = user.uid
    if user.groups:
        described["groups"] = list(user.groups)
    if user.extra:
        described["extra"] = {key: list(values) for key, values in user.extra.items()}
    return described
