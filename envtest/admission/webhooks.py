"""Call webhooks about writes: mutating ones one by one, validating ones concurrently.

Mutating webhooks get an object before the server sets its uid. Validating webhooks get the object
that will be stored, after validation by the schema. Each mutating webhook is called once; the
reinvocationPolicy is not supported.
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
from envtest.admission.review import AdmissionAttributes, Body, build_review, convert_version
from envtest.kinds.typed import TypedError
from envtest.patching import apply_json_patch
from envtest.schema import MalformedMetadata, MalformedObject
from envtest.server.api import Api
from envtest.server.call import AuthorizedCall
from envtest.server.failures import StatusError, build_bad_request, build_internal_error

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
            StatusError: a webhook denies the write, or cannot be called and its failurePolicy is
                Fail.
        """
        hooks = self._configurations.list_hooks(MUTATING)
        if not hooks:
            return new
        attributes = AdmissionAttributes(call, operation, new=new, old=old)
        # Later reviews quote the client's name, even if a webhook changes it.
        call.new_name = attributes.name
        if bypasses_webhooks(attributes):
            return new
        for hook in hooks:
            invocation = self._matcher.find_invocation(hook, attributes)
            if invocation is None:
                continue
            response = await self._call_webhook(invocation, attributes, mutating=True)
            if response is not None and response.patch:
                new = _apply_patch(new, response.patch, call=call, invocation=invocation)
                attributes = attributes.replace_object(new)
        return new

    async def validate(
        self, call: AuthorizedCall, operation: str, new: Body | None, old: Body | None
    ) -> None:
        """Call all validating webhooks concurrently.

        Raises:
            StatusError: a webhook denies the write, or cannot be called and its failurePolicy is
                Fail. Of several refusals, the first one to arrive.
        """
        hooks = self._configurations.list_hooks(VALIDATING)
        attributes = AdmissionAttributes(call, operation, new=new, old=old)
        if not hooks or bypasses_webhooks(attributes):
            return
        matches = [self._matcher.find_invocation(hook, attributes) for hook in hooks]
        invocations = [invocation for invocation in matches if invocation is not None]
        if not invocations:
            return
        refusals: list[StatusError] = []
        async with anyio.create_task_group() as tasks:
            for invocation in invocations:
                tasks.start_soon(self._call_validating_webhook, invocation, attributes, refusals)
        if refusals:
            raise refusals[0]

    async def _call_validating_webhook(
        self, invocation: Invocation, attributes: AdmissionAttributes, refusals: list[StatusError]
    ) -> None:
        """Call one validating webhook; add its refusal to `refusals`.

        The refusal is not raised here, because it would cancel the other calls.
        """
        try:
            await self._call_webhook(invocation, attributes, mutating=False)
        except StatusError as error:
            refusals.append(error)

    async def _call_webhook(
        self, invocation: Invocation, attributes: AdmissionAttributes, *, mutating: bool
    ) -> ReviewResponse | None:
        """Call a webhook; return its response if it allows the write.

        None if it cannot be called and its failurePolicy is Ignore.

        Raises:
            StatusError: it denies the write, or cannot be called and its failurePolicy is Fail, or
                has side effects in a dry run.
        """
        hook = invocation.hook
        if attributes.dry_run and hook.body.get("sideEffects") not in _NO_SIDE_EFFECTS:
            raise build_bad_request(
                f"admission webhook {quote(hook.name)} does not support dry run"
            )
        versions: list[str] = list(hook.body.get("admissionReviewVersions") or ())
        review = build_review(attributes, invocation.resource, versions)
        try:
            response = await self._caller.send_review(hook, review, mutating=mutating)
        except CallFailed as error:
            if hook.ignores_failures:
                return None
            raise build_internal_error(
                f"failed calling webhook {quote(hook.name)}: {error}"
            ) from None
        # A header cannot contain control characters.
        attributes.call.warnings += [
            warning for warning in response.warnings if warning.isprintable() and warning
        ]
        if not response.allowed:
            raise _build_denial(hook, response.status)
        return response


def _apply_patch(
    body: Body, operations: list[Any], call: AuthorizedCall, invocation: Invocation
) -> Body:
    """Return an object with a webhook's patch and with defaults, in the version of the request.

    The patch is applied in the version that the webhook got.

    Raises:
        StatusError: 500 if the patch cannot be applied, or changes the kind of the object.
    """
    request_resource, webhook_resource = call.resource, invocation.resource
    # Only None is converted to None, so `or {}` is for the type checker.
    original = convert_version(body, request_resource, webhook_resource) or {}
    try:
        patched = apply_json_patch(original, operations)
        if not isinstance(patched, dict) or not isinstance(patched.get("metadata"), dict):
            raise build_internal_error("the patched object has no metadata")
        if any(patched.get(name) != original.get(name) for name in ("apiVersion", "kind")):
            raise build_internal_error("a webhook may not change apiVersion and kind")
        webhook_resource.rules.decode(patched)
    except (PatchError, TypedError, MalformedObject, MalformedMetadata) as error:
        raise build_internal_error(str(error)) from None
    webhook_resource.rules.set_defaults(patched)
    return convert_version(patched, webhook_resource, request_resource) or {}


def _build_denial(hook: Hook, status: Mapping[str, Any]) -> StatusError:
    """Return the refusal by a webhook that denies a write, with its status."""
    reason = str(status.get("reason") or "")
    message = status.get("message") or reason
    explanation = f"admission webhook {quote(hook.name)} denied the request"
    explanation += f": {message}" if message else " without explanation"
    code, details = status.get("code"), status.get("details")
    # A webhook may send a code that is no refusal; any such code becomes 400.
    status_code = code if isinstance(code, int) and code > 400 else 400
    status_details = details if isinstance(details, dict) else None
    return StatusError(status_code, explanation, reason, details=status_details)
