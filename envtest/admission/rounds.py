"""One write on its way through webhooks: what each is asked, and what its answer changes."""

from collections.abc import Sequence

from envtest.admission.amending import amended, operations_of
from envtest.admission.answers import (
    CallFailed,
    Response,
    add_warnings,
    denial,
    failure,
    no_dry_run,
)
from envtest.admission.attributes import Attributes
from envtest.admission.caller import Caller
from envtest.admission.matching import Hook, Invocation, Matcher
from envtest.admission.review import admission_review
from envtest.schema.gotext import quote
from envtest.server.failures import StatusError

_NO_SIDE_EFFECTS = frozenset({"None", "NoneOnDryRun"})


class Round:
    """One write on its way through the mutating webhooks.

    When one changes the object after others that want to see changes (reinvocationPolicy
    IfNeeded), those are asked once more after all have been asked, and never a third time.
    """

    def __init__(self, matcher: Matcher, caller: Caller, attributes: Attributes) -> None:
        self._matcher = matcher
        self._caller = caller
        self.attributes = attributes
        # Webhooks that want to see changes and have seen all so far; those that have not.
        self._content: set[str] = set()
        self._behind: set[str] = set()

    async def play(self, hooks: Sequence[Hook]) -> None:
        """Ask all, then those again that missed a change."""
        for hook in hooks:
            await self._visit(hook)
        for hook in hooks:
            if hook.uid in self._behind:
                await self._visit(hook)

    async def _visit(self, hook: Hook) -> None:
        invocation = self._matcher.invocation(hook, self.attributes)
        if invocation is None:
            return
        try:
            changed = await self._change(invocation)
        except CallFailed as error:
            if not hook.ignores_failures:
                raise call_failed(hook, error) from None
            changed = False
        if changed:
            self._behind |= self._content
            self._content = set()
        if hook.body.get("reinvocationPolicy") == "IfNeeded":
            self._content.add(hook.uid)

    async def _change(self, invocation: Invocation) -> bool:
        """Ask one webhook and do what it wants; tell whether anything is different then."""
        attributes, hook = self.attributes, invocation.hook
        response = await ask(self._caller, invocation, attributes, mutating=True)
        operations = operations_of(response)
        if not operations:
            return False
        if attributes.new is None:
            raise failure(
                f"admission webhook {quote(hook.name)} attempted to modify the object, which is "
                "not supported for this operation"
            )
        given = attributes.call.resource
        new = amended(
            attributes.new,
            operations,
            given,
            invocation.resource,
            whole=attributes.new.get("apiVersion") == given.api_version,
        )
        changed = new != attributes.new
        self.attributes = attributes.changed(new)
        return changed


async def ask(
    caller: Caller, invocation: Invocation, attributes: Attributes, *, mutating: bool
) -> Response:
    """Return the response of a webhook that allows a write.

    Raises:
        CallFailed: there is none that counts.
        StatusError: it does not allow it.
    """
    hook = invocation.hook
    if attributes.dry_run and hook.body.get("sideEffects") not in _NO_SIDE_EFFECTS:
        raise no_dry_run(hook.name)
    versions: list[str] = list(hook.body.get("admissionReviewVersions") or ())
    review = admission_review(attributes, invocation.resource, versions)
    response = await caller.ask(hook, review, mutating=mutating)
    add_warnings(attributes.call.warnings, response.warnings)
    if not response.allowed:
        raise denial(hook.name, response.status)
    return response


def call_failed(hook: Hook, error: CallFailed) -> StatusError:
    """Return the refusal of a write that a webhook should have judged and did not."""
    return failure(f"failed calling webhook {quote(hook.name)}: {error}")
