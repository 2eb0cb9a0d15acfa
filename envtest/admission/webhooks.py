"""Calls webhooks about writes: mutating ones in order, validating ones all at once.

Mutating webhooks see an object before the server has given it a uid; validating ones see what will
be stored, after validation by the schema. Each mutating webhook is asked once: none is asked again
because of what those after it changed (reinvocationPolicy).
"""

from collections.abc import Mapping
from typing import Any, Final

import anyio

from controller.managedfields import PatchError
from controller.managedfields.gotext import quote
from envtest.admission.caller import Caller, CallFailed, ReviewResponse
from envtest.admission.matching import (
    MUTATING,
    VALIDATING,
    Configurations,
    Hook,
    Invocation,
    Matcher,
    bypasses_webhooks,
)
from envtest.admission.review import AdmissionAttributes, Body, admission_review, in_version
from envtest.kinds.typed import TypedError
from envtest.patching import json_patch
from envtest.schema import MalformedMetadata, MalformedObject
from envtest.server.api import Api
from envtest.server.call import AuthorizedCall
from envtest.server.failures import StatusError, bad_request

_NO_SIDE_EFFECTS: Final = frozenset({"None", "NoneOnDryRun"})


class Webhooks:
    """The webhooks of one server."""

    def __init__(self, api: Api) -> None:
        self._configurations = Configurations(api)
        self._matcher = Matcher(api)
        self._caller = Caller(api)

    async def close(self) -> None:
        """Release connections."""
        await self._caller.close()

    async def mutate(
        self, call: AuthorizedCall, operation: str, new: Body, old: Body | None
    ) -> Body:
        """Return the object after all mutating webhooks.

        Raises:
            StatusError: a webhook refuses, or cannot be asked and must be.
        """
        hooks = self._configurations.hooks(MUTATING)
        if not hooks:
            return new
        attributes = AdmissionAttributes(call, operation, new=new, old=old)
        call.new_name = attributes.name
        if bypasses_webhooks(attributes):
            return new
        for hook in hooks:
            invocation = self._matcher.invocation(hook, attributes)
            if invocation is None:
                continue
            response = await self._ask(invocation, attributes, mutating=True)
            if response is not None and response.patch:
                new = _apply_patch(new, response.patch, call=call, invocation=invocation)
                attributes = attributes.replace_object(new)
        return new

    async def validate(
        self, call: AuthorizedCall, operation: str, new: Body | None, old: Body | None
    ) -> None:
        """Ask all validating webhooks at once.

        Raises:
            StatusError: a webhook refuses, or cannot be asked and must be.
        """
        hooks = self._configurations.hooks(VALIDATING)
        attributes = AdmissionAttributes(call, operation, new=new, old=old)
        if not hooks or bypasses_webhooks(attributes):
            return
        matches = [self._matcher.invocation(hook, attributes) for hook in hooks]
        invocations = [invocation for invocation in matches if invocation is not None]
        if not invocations:
            return
        refusals: list[StatusError] = []
        async with anyio.create_task_group() as tasks:
            for invocation in invocations:
                tasks.start_soon(self._validate_by, invocation, attributes, refusals)
        if refusals:
            raise refusals[0]

    async def _validate_by(
        self, invocation: Invocation, attributes: AdmissionAttributes, refusals: list[StatusError]
    ) -> None:
        """Ask one validating webhook; the first refusal that comes is returned to the client."""
        try:
            await self._ask(invocation, attributes, mutating=False)
        except StatusError as error:
            refusals.append(error)

    async def _ask(
        self, invocation: Invocation, attributes: AdmissionAttributes, *, mutating: bool
    ) -> ReviewResponse | None:
        """Call a webhook; return its response if it allows the write.

        Returns:
            None where it cannot be asked and its failure policy lets the write pass.

        Raises:
            StatusError: it does not allow it, or cannot be asked and must be.
        """
        hook = invocation.hook
        if attributes.dry_run and hook.body.get("sideEffects") not in _NO_SIDE_EFFECTS:
            raise bad_request(f"admission webhook {quote(hook.name)} does not support dry run")
        versions: list[str] = list(hook.body.get("admissionReviewVersions") or ())
        review = admission_review(attributes, invocation.resource, versions)
        try:
            response = await self._caller.ask(hook, review, mutating=mutating)
        except CallFailed as error:
            if hook.ignores_failures:
                return None
            raise _failure(f"failed calling webhook {quote(hook.name)}: {error}") from None
        # What has control characters cannot stand in a header.
        attributes.call.warnings += [
            warning for warning in response.warnings if warning.isprintable() and warning
        ]
        if not response.allowed:
            raise _denial(hook, response.status)
        return response


def _apply_patch(
    body: Body, operations: list[Any], call: AuthorizedCall, invocation: Invocation
) -> Body:
    """Return an object with a webhook's patch applied, defaults filled in again.

    Raises:
        StatusError: 500; the patch does not apply, or makes it something else.
    """
    request_resource, seen = call.resource, invocation.resource
    original = in_version(body, request_resource, seen) or {}
    try:
        patched = json_patch(original, operations)
        if not isinstance(patched, dict) or not isinstance(patched.get("metadata"), dict):
            raise _failure("the patched object has no metadata")
        if any(patched.get(name) != original.get(name) for name in ("apiVersion", "kind")):
            raise _failure("a webhook may not change apiVersion and kind")
        seen.rules.decode(patched)
    except (PatchError, TypedError, MalformedObject, MalformedMetadata) as error:
        raise _failure(str(error)) from None
    seen.rules.default(patched)
    return in_version(patched, seen, request_resource) or {}


def _denial(hook: Hook, status: Mapping[str, Any]) -> StatusError:
    """Return the refusal that a webhook asks for."""
    reason = str(status.get("reason") or "")
    message = status.get("message") or reason
    explanation = f"admission webhook {quote(hook.name)} denied the request"
    explanation += f": {message}" if message else " without explanation"
    code, details = status.get("code"), status.get("details")
    # Nothing below 400 is a refusal.
    refusal = code if isinstance(code, int) and code > 400 else 400
    known = details if isinstance(details, dict) else None
    return StatusError(refusal, explanation, reason, details=known)


def _failure(message: str) -> StatusError:
    """Return the real server's InternalError."""
    return StatusError(
        500,
        f"Internal error occurred: {message}",
        "InternalError",
        details={"causes": [{"message": message}]},
    )
