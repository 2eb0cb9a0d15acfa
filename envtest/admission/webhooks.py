"""Asking webhooks about writes: in order where they change the object, at once where they judge.

Mutating webhooks see an object before the server has given it a uid; validating ones see what will
be stored, after the schema had its say.
"""

from typing import Any

import anyio

from envtest.access.rbac import Attributes as Wanted
from envtest.access.rbac import Authorizer
from envtest.admission.amending import amended, operations_of, settle_metadata
from envtest.admission.answers import CallFailed, Response, denial, failure, no_dry_run
from envtest.admission.attributes import Attributes, Body
from envtest.admission.caller import Caller
from envtest.admission.configurations import MUTATING, VALIDATING, Configurations, Hook
from envtest.admission.matching import Invocation, Matcher, concerns_nobody
from envtest.admission.review import admission_review
from envtest.admission.warnings import add_warnings
from envtest.schema.gotext import quote
from envtest.server.api import Api
from envtest.server.call import Call, User
from envtest.server.failures import StatusError

_NO_SIDE_EFFECTS = frozenset({"None", "NoneOnDryRun"})


class Webhooks:
    """The webhooks of one server."""

    def __init__(self, api: Api, authorizer: Authorizer) -> None:
        self._configurations = Configurations(api)
        self._matcher = Matcher(api, lambda call, wanted: _may(authorizer, call, wanted))
        self._caller = Caller(api)

    async def close(self) -> None:
        """Release connections."""
        await self._caller.close()

    async def mutate(self, call: Call, operation: str, new: Body, old: Body | None) -> Body:
        """Return the object after all mutating webhooks.

        Raises:
            StatusError: a webhook refuses, or cannot be asked and must be.
        """
        attributes = Attributes(call, operation, new, old)
        call.named = attributes.name
        hooks = [] if concerns_nobody(attributes) else self._configurations.hooks(MUTATING)
        if not hooks:
            return new
        round_ = _Round(self._matcher, self._caller, attributes)
        await round_.play(hooks)
        changed = round_.attributes.new
        if changed is None or changed is new:
            return new
        warnings: list[str] = []
        settle_metadata(changed, new, warnings)
        add_warnings(call.warnings, warnings)
        return changed

    async def validate(
        self, call: Call, operation: str, new: Body | None, old: Body | None
    ) -> None:
        """Ask all validating webhooks at once; of a DELETE the mutating ones before them.

        Raises:
            StatusError: a webhook refuses, or cannot be asked and must be.
        """
        attributes = Attributes(call, operation, new, old)
        if concerns_nobody(attributes):
            return
        if operation == "DELETE":
            round_ = _Round(self._matcher, self._caller, attributes)
            await round_.play(self._configurations.hooks(MUTATING))
        found = [
            self._matcher.invocation(hook, attributes)
            for hook in self._configurations.hooks(VALIDATING)
        ]
        invocations = [one for one in found if one is not None]
        refusals: list[StatusError] = []
        async with anyio.create_task_group() as tasks:
            for invocation in invocations:
                tasks.start_soon(self._judge, invocation, attributes, refusals)
        if refusals:
            raise refusals[0]

    async def _judge(
        self, invocation: Invocation, attributes: Attributes, refusals: list[StatusError]
    ) -> None:
        """Ask one validating webhook; the first refusal that comes is the one that is told."""
        try:
            await _ask(self._caller, invocation, attributes, mutating=False)
        except CallFailed as error:
            if not invocation.hook.ignores_failures:
                refusals.append(_failed(invocation.hook, error))
        except StatusError as error:
            refusals.append(error)


class _Round:
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

    async def play(self, hooks: list[Hook]) -> None:
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
                raise _failed(hook, error) from None
            changed = False
        if changed:
            self._behind |= self._content
            self._content = set()
        if hook.body.get("reinvocationPolicy") == "IfNeeded":
            self._content.add(hook.uid)

    async def _change(self, invocation: Invocation) -> bool:
        """Ask one webhook and do what it wants; tell whether anything is different then."""
        attributes, hook = self.attributes, invocation.hook
        response = await _ask(self._caller, invocation, attributes, mutating=True)
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


async def _ask(
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


def _failed(hook: Hook, error: CallFailed) -> StatusError:
    return failure(f"failed calling webhook {quote(hook.name)}: {error}")


def _may(authorizer: Authorizer, call: Call, wanted: Any) -> bool:
    """Answer what the author of a request, or a service account, may do."""
    user, account = call.user, wanted.get("serviceAccount")
    if account:
        namespace, _, _ = account.partition(":")
        groups = (
            "system:serviceaccounts",
            f"system:serviceaccounts:{namespace}",
            "system:authenticated",
        )
        user = User(f"system:serviceaccount:{account}", groups)
    names = ("group", "resource", "subresource", "namespace", "name")
    given = {name: wanted.get(name, "") for name in names}
    return authorizer.allowed(user, Wanted(wanted["verb"], path=wanted.get("path"), **given))
