"""Writes that the API server has to refuse, or to warn of, and what it answered."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from controller.errors import ApiError
from controller.meta import Key
from controller.resource import Resource
from controller.transport import HttpTransport, Transport
from reconcilers.api.names import DEFAULT_NAMESPACE
from reconcilers.cli.demo.steps import Step
from reconcilers.cli.demo.world import Broken, World
from reconcilers.cli.local.objects import Manifest

MOST = 3
"""So many reasons of one refusal are shown."""
MERGE = "application/merge-patch+json"


@dataclass(frozen=True, slots=True)
class Attempt:
    """A write that should be refused or warned of.

    Args:
        what: somebody tries, in words.
        method: of the request.
        path: of the request.
        body: what is sent; None for nothing.
        words: that have to be in the answer.
    """

    what: str
    method: str
    path: str
    body: Mapping[str, Any] | None
    words: str

    async def send(self, transport: Transport) -> None:
        """Send it; what would be created is not stored if nobody minds.

        Raises:
            ApiError: it was refused.
            ControllerError: the server did not answer.
        """
        await transport.request(
            self.method,
            self.path,
            query={"dryRun": "All"} if self.method == "POST" else {},
            body=None if self.body is None else msgspec.json.encode(self.body),
            content_type=MERGE if self.method == "PATCH" else "application/json",
        )


def creating(what: str, resource: Resource[Any], manifest: Manifest, words: str) -> Attempt:
    """Return the attempt to create an object."""
    where = resource.collection(manifest["metadata"]["namespace"])
    return Attempt(what, "POST", where, manifest, words)


def changing(
    what: str, resource: Resource[Any], name: str, change: Mapping[str, Any], words: str
) -> Attempt:
    """Return the attempt to change an object's spec."""
    path = resource.path(Key(DEFAULT_NAMESPACE, name))
    return Attempt(what, "PATCH", path, {"spec": change}, words)


def deleting(what: str, resource: Resource[Any], name: str, words: str) -> Attempt:
    """Return the attempt to delete an object."""
    return Attempt(what, "DELETE", resource.path(Key(DEFAULT_NAMESPACE, name)), None, words)


class _Answers:
    """What was answered, from the action that asks to the check that shows it."""

    def __init__(self, attempts: Sequence[Attempt]) -> None:
        self._attempts = attempts
        self._lines: list[str] = []

    async def refuse(self, world: World) -> None:
        """Try each of them, and hold the server to refusing it."""
        for attempt in self._attempts:
            try:
                await attempt.send(world.management.transport)
            except ApiError as refusal:
                self._note(attempt, "refused", reasons(refusal))
            else:
                raise Broken(f"{attempt.what}, and it was not refused")

    async def warn(self, world: World) -> None:
        """Try each of them, and hold the server to warning of it."""
        async with world.management.connected() as transport:
            for attempt in self._attempts:
                warnings = list[str]()
                if isinstance(transport, HttpTransport):
                    transport.on_warning = warnings.append
                await attempt.send(transport)
                self._note(attempt, "warned", warnings)

    def lines(self, _: World) -> Sequence[str]:
        """Return what was answered."""
        return self._lines

    def _note(self, attempt: Attempt, how: str, said: Sequence[str]) -> None:
        if not any(attempt.words in line for line in said):
            heard = "; ".join(said) or "nothing"
            raise Broken(f"{attempt.what}, and {attempt.words!r} is not in what was said: {heard}")
        self._lines += [attempt.what, *(f"    {how}: {line}" for line in said[:MOST])]
        if more := len(said[MOST:]):
            self._lines.append(f"    and {more} more")


def reasons(refusal: ApiError) -> list[str]:
    """Return why something was refused, one line for each cause that the server names."""
    named = [f"{one.field}: {one.message}" if one.field else one.message for one in refusal.causes]
    return named or [refusal.message]


def refused(title: str, *attempts: Attempt) -> Step:
    """Return the step in which all of these are refused."""
    answers = _Answers(attempts)
    return Step(title, (answers.lines,), (answers.refuse,))


def warned(title: str, *attempts: Attempt) -> Step:
    """Return the step in which all of these are let through with a warning."""
    answers = _Answers(attempts)
    return Step(title, (answers.lines,), (answers.warn,))
