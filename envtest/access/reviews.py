"""Reviews: requests that ask who a user is or what the user may do; nothing is stored."""

from typing import Any

from envtest.access.rbac import AccessAttributes, Authorizer, Rule
from envtest.access.tokens import Authenticator, TokenRefused
from envtest.schema.errors import FieldError, build_invalid_error
from envtest.server.bodies import (
    check_version,
    enforce_field_validation,
    fit_to_resource,
    read_object,
)
from envtest.server.call import AuthorizedCall, JsonAnswer, User
from envtest.server.failures import build_bad_request, build_invalid_object
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

    def answer_review(self, call: AuthorizedCall) -> JsonAnswer:
        """Answer a POST of a review with the review and its status.

        Raises:
            StatusError: the review is malformed or invalid.
        """
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
                status = self._review_token(spec)
            case "selfsubjectreviews":
                status = {"userInfo": describe_user(call.user)}
            case "selfsubjectrulesreviews":
                status = self._review_rules(call.user, spec)
            case "selfsubjectaccessreviews":
                _refuse_invalid(call, _validate_attributes(spec))
                status = self._review_access(call.user, spec)
            case plural:
                # The two reviews about another user: SubjectAccessReview and its local form.
                problems = _validate_attributes(spec) + _validate_subject(spec)
                if plural == "localsubjectaccessreviews":
                    problems += _validate_namespace(spec, call.info.namespace)
                _refuse_invalid(call, problems)
                status = self._review_access(_read_user(spec), spec)
        answer = {name: body[name] for name in ("kind", "apiVersion", "metadata")}
        # A SelfSubjectReview has no spec.
        if call.info.resource != "selfsubjectreviews":
            answer["spec"] = spec
        return JsonAnswer(201, {**answer, "status": status})

    def _review_token(self, spec: dict[str, Any]) -> dict[str, Any]:
        """Return the status of a TokenReview: the user of the token, or why it is not valid.

        Raises:
            StatusError: 400 if the spec has no token.
        """
        token, audiences = spec.get("token", ""), spec.get("audiences") or ()
        if not token:
            raise build_bad_request("token is required for TokenReview in authentication")
        error = "invalid bearer token"
        try:
            identity = self._authenticator.find_token_user(token, audiences)
        except TokenRefused as refused:
            identity, error = None, f"[{error}, {refused}]"
        if identity is None:
            return {"user": {}, "error": error}
        return {
            "authenticated": True,
            "user": describe_user(identity.user),
            "audiences": list(identity.audiences),
        }

    def _review_access(self, user: User, spec: dict[str, Any]) -> dict[str, Any]:
        """Return the status of an access review: whether a user may do what the spec names."""
        resource_attributes = spec.get("resourceAttributes")
        path_attributes = spec.get("nonResourceAttributes") or {}
        if resource_attributes is None:
            access = AccessAttributes(
                path_attributes.get("verb", ""), path=path_attributes.get("path", "")
            )
        else:
            names = ("verb", "group", "resource", "subresource", "namespace", "name")
            access = AccessAttributes(
                **{name: resource_attributes.get(name, "") for name in names}
            )
        decision = self._authorizer.decide(user, access)
        reason = {"reason": decision.reason} if decision.reason else {}
        return {"allowed": decision.allowed, **reason}

    def _review_rules(self, user: User, spec: dict[str, Any]) -> dict[str, Any]:
        """Return the status of a SelfSubjectRulesReview: the rules of a user in a namespace.

        Raises:
            StatusError: 400 if the spec names no namespace.
        """
        namespace = spec.get("namespace", "")
        if not namespace:
            raise build_bad_request("no namespace on request")
        rules: list[Rule] = list(self._authorizer.iterate_rules(user, namespace))
        missing = self._authorizer.describe_missing_roles(user, namespace)
        return {
            "resourceRules": [rule for rule in rules if rule.get("resources")],
            "nonResourceRules": [rule for rule in rules if rule.get("nonResourceURLs")],
            "incomplete": False,
            **({"evaluationError": missing} if missing else {}),
        }


def _refuse_invalid(call: AuthorizedCall, problems: list[FieldError]) -> None:
    """Refuse a review whose spec has problems.

    Raises:
        StatusError: 422.
    """
    if problems:
        raise build_invalid_object(
            call.resource.kind, call.resource.group, name="", problems=problems
        )


def _validate_attributes(spec: dict[str, Any]) -> list[FieldError]:
    """Return an error unless the spec has exactly one of its two attributes."""
    resource_attributes = spec.get("resourceAttributes") is not None
    path_attributes = spec.get("nonResourceAttributes") is not None
    if resource_attributes and path_attributes:
        detail = "cannot be specified in combination with resourceAttributes"
        return [
            build_invalid_error(
                "spec.nonResourceAttributes", spec["nonResourceAttributes"], detail
            )
        ]
    if not resource_attributes and not path_attributes:
        detail = "exactly one of nonResourceAttributes or resourceAttributes must be specified"
        return [build_invalid_error("spec.resourceAttributes", None, detail)]
    return []


def _validate_subject(spec: dict[str, Any]) -> list[FieldError]:
    """Return an error if the spec has neither a user nor groups."""
    if spec.get("user") or spec.get("groups"):
        return []
    return [
        build_invalid_error("spec.user", "", "at least one of user or group must be specified")
    ]


def _validate_namespace(spec: dict[str, Any], namespace: str) -> list[FieldError]:
    """Return an error if a local review asks about another namespace than its own."""
    requested = (spec.get("resourceAttributes") or {}).get("namespace", "")
    if requested == namespace:
        return []
    detail = "must match metadata.namespace"
    return [build_invalid_error("spec.resourceAttributes.namespace", requested, detail)]


def _read_user(spec: dict[str, Any]) -> User:
    """Return the user that the spec of an access review describes."""
    extra = spec.get("extra") or {}
    return User(
        spec.get("user", ""), tuple(spec.get("groups", ())), uid=spec.get("uid", ""), extra=extra
    )


def describe_user(user: User) -> dict[str, Any]:
    """Return a user as a UserInfo of the authentication API; empty fields are left out."""
    user_info: dict[str, Any] = {"username": user.name}
    if user.uid:
        user_info["uid"] = user.uid
    if user.groups:
        user_info["groups"] = list(user.groups)
    if user.extra:
        user_info["extra"] = {key: list(values) for key, values in user.extra.items()}
    return user_info
