"""Reviews: questions about who a user is and what they may do. They are never stored."""

from typing import Any

from envtest.access.rbac import AccessAttributes, Authorizer, Rule
from envtest.access.tokens import Authenticator, TokenRefused
from envtest.schema.errors import FieldError, invalid
from envtest.server.bodies import (
    check_version,
    enforce_field_validation,
    fit_to_resource,
    read_object,
)
from envtest.server.call import AuthorizedCall, Plain, User
from envtest.server.failures import bad_request, invalid_object
from envtest.server.options import read_write_options

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

    def __init__(self, authenticator: Authenticator, authorizer: Authorizer) -> None:
        self._authenticator = authenticator
        self._authorizer = authorizer

    def answer(self, call: AuthorizedCall) -> Plain:
        """Answer a POST of a review."""
        options = read_write_options(
            "CreateOptions", call.query, dry_runs=call.dry_runs, agent=call.agent
        )
        decoded = read_object(call.data, call.content_type, call.resource)
        fit_to_resource(call.resource, decoded)
        enforce_field_validation(
            call.resource, decoded, validation=options.field_validation, warnings=call.warnings
        )
        check_version(call.resource, decoded.body)
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
                _refuse(call, _attribute_problems(spec))
                status = self._access(call.user, spec)
            case plural:
                problems = _attribute_problems(spec) + _subject_problems(spec)
                if plural == "localsubjectaccessreviews":
                    problems += _local_problems(spec, call.info.namespace)
                _refuse(call, problems)
                status = self._access(_user(spec), spec)
        answer = {name: body[name] for name in ("kind", "apiVersion", "metadata")}
        if call.info.resource != "selfsubjectreviews":
            answer["spec"] = spec
        return Plain(201, {**answer, "status": status})

    def _token(self, spec: dict[str, Any]) -> dict[str, Any]:
        token, audiences = spec.get("token", ""), spec.get("audiences") or ()
        if not token:
            raise bad_request("token is required for TokenReview in authentication")
        error = "invalid bearer token"
        try:
            known = self._authenticator.of_token(token, audiences)
        except TokenRefused as refused:
            known, error = None, f"[{error}, {refused}]"
        if known is None:
            return {"user": {}, "error": error}
        return {
            "authenticated": True,
            "user": describe(known.user),
            "audiences": list(known.audiences),
        }

    def _access(self, user: User, spec: dict[str, Any]) -> dict[str, Any]:
        of_resource = spec.get("resourceAttributes")
        of_path = spec.get("nonResourceAttributes") or {}
        if of_resource is None:
            access = AccessAttributes(of_path.get("verb", ""), path=of_path.get("path", ""))
        else:
            names = ("verb", "group", "resource", "subresource", "namespace", "name")
            access = AccessAttributes(**{name: of_resource.get(name, "") for name in names})
        decision = self._authorizer.decide(user, access)
        known = {"reason": decision.reason} if decision.reason else {}
        return {"allowed": decision.allowed, **known}

    def _rules(self, user: User, spec: dict[str, Any]) -> dict[str, Any]:
        namespace = spec.get("namespace", "")
        if not namespace:
            raise bad_request("no namespace on request")
        rules: list[Rule] = list(self._authorizer.rules(user, namespace))
        missing = self._authorizer.describe_missing_roles(user, namespace)
        return {
            "resourceRules": [rule for rule in rules if rule.get("resources")],
            "nonResourceRules": [rule for rule in rules if rule.get("nonResourceURLs")],
            "incomplete": False,
            **({"evaluationError": missing} if missing else {}),
        }


def _refuse(call: AuthorizedCall, problems: list[FieldError]) -> None:
    """Refuse a review that cannot be answered.

    Raises:
        StatusError: 422.
    """
    if problems:
        raise invalid_object(call.resource.kind, call.resource.group, name="", problems=problems)


def _attribute_problems(spec: dict[str, Any]) -> list[FieldError]:
    """Check that exactly one thing is asked about."""
    of_resource = spec.get("resourceAttributes") is not None
    of_path = spec.get("nonResourceAttributes") is not None
    if of_resource and of_path:
        detail = "cannot be specified in combination with resourceAttributes"
        return [invalid("spec.nonResourceAttributes", spec["nonResourceAttributes"], detail)]
    if not of_resource and not of_path:
        detail = "exactly one of nonResourceAttributes or resourceAttributes must be specified"
        return [invalid("spec.resourceAttributes", None, detail)]
    return []


def _subject_problems(spec: dict[str, Any]) -> list[FieldError]:
    if spec.get("user") or spec.get("groups"):
        return []
    return [invalid("spec.user", "", "at least one of user or group must be specified")]


def _local_problems(spec: dict[str, Any], namespace: str) -> list[FieldError]:
    """Check that a local review asks about its own namespace."""
    asked = (spec.get("resourceAttributes") or {}).get("namespace", "")
    if asked == namespace:
        return []
    return [invalid("spec.resourceAttributes.namespace", asked, "must match metadata.namespace")]


def _user(spec: dict[str, Any]) -> User:
    extra = spec.get("extra") or {}
    return User(
        spec.get("user", ""), tuple(spec.get("groups", ())), uid=spec.get("uid", ""), extra=extra
    )


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
