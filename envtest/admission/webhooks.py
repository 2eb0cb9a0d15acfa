"""Asking webhooks about writes: in order where they change the object, at once where they judge.

Mutating webhooks see an object before the server has given it a uid; validating ones see what will
be stored, after the schema had its say.
"""

from collections.abc import Mapping
from typing import Any

import anyio

from envtest.admission.amending import settle_metadata, take_misfits
from envtest.admission.answers import CallFailed, add_warnings
from envtest.admission.attributes import Attributes, Body
from envtest.admission.caller import Caller
from envtest.admission.matching import (
    MUTATING,
    VALIDATING,
    Configurations,
    Invocation,
    Matcher,
    concerns_nobody,
)
from envtest.admission.rounds import Round, ask, call_failed
from envtest.server.api import Api
from envtest.server.call import Call
from envtest.server.failures import StatusError


class Webhooks:
    """The webhooks of one server."""

    def __init__(self, api: Api) -> None:
        self._configurations = Configurations(api)
        self._matcher = Matcher(api)
        self._caller = Caller(api)

    async def close(self) -> None:
        """Release connections."""
        await self._caller.close()

    async def converse(self, client: Mapping[str, Any], review: Mapping[str, Any]) -> Body:
        """Send a review about conversion and return the one that comes back.

        Raises:
            ConversionFailed: none does.
        """
        return await self._caller.converse(client, review)

    async def mutate(self, call: Call, operation: str, new: Body, old: Body | None) -> Body:
        """Return the object after all mutating webhooks.

        Raises:
            StatusError: a webhook refuses, or cannot be asked and must be.
        """
        hooks = self._configurations.hooks(MUTATING)
        if not hooks:
            return new
        attributes = Attributes(call, operation, new, old)
        call.named = attributes.name
        if concerns_nobody(attributes):
            return new
        round_ = Round(self._matcher, self._caller, attributes)
        await round_.play(hooks)
        changed = round_.attributes.new
        if changed is None or changed is new:
            return new
        call.misfits = take_misfits(changed, call.resource)
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
        judges = self._configurations.hooks(VALIDATING)
        if not judges and operation != "DELETE":
            return
        if new is not None and call.misfits:
            new = {**new, "metadata": {**new["metadata"], **call.misfits}}
        attributes = Attributes(call, operation, new, old)
        if concerns_nobody(attributes):
            return
        if operation == "DELETE":
            round_ = Round(self._matcher, self._caller, attributes)
            await round_.play(self._configurations.hooks(MUTATING))
        found = [self._matcher.invocation(hook, attributes) for hook in judges]
        invocations = [one for one in found if one is not None]
        if not invocations:
            return
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
            await ask(self._caller, invocation, attributes, mutating=False)
        except CallFailed as error:
            if not invocation.hook.ignores_failures:
                refusals.append(call_failed(invocation.hook, error))
        except StatusError as error:
            refusals.append(error)
