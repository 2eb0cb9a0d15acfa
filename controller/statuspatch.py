"""A status as one pass leaves it: drafted from what is there, written at most once.

A pass that writes each thing as it learns it makes as many events as writes, and each of them
wakes every watcher. So a draft collects, keeps the transition times of conditions that did not
change, and sends what differs in one merge patch, with the object's version as its precondition;
if nothing differs nothing is sent.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, TypeVar

import msgspec

from controller.client import Client
from controller.conditions import Condition, remove_condition, set_condition, to_json
from controller.meta import Object, Version
from controller.resource import Resource

T = TypeVar("T", bound=Object)


class StatusDraft:
    """The status of one object, to be changed and then written.

    Args:
        obj: as it was read.
        status: its status now, a typed one or a mapping; None if it has none.
        now: when this pass judges; the transition time of conditions that change.
    """

    def __init__(self, obj: Object, status: object, now: datetime) -> None:
        self._version = Version.of(obj)
        self._generation = obj.metadata.generation
        self._now = now
        plain = msgspec.to_builtins(status) if status is not None else {}
        self._before: dict[str, Any] = _without_nothing(plain)
        self._after = dict(self._before)
        self._conditions: tuple[Condition, ...] = msgspec.convert(
            self._before.get("conditions", []), tuple[Condition, ...]
        )

    @property
    def conditions(self) -> Sequence[Condition]:
        """The conditions as they are drafted."""
        return self._conditions

    def set(self, **fields: object) -> None:
        """Set fields of the status by their API names; None removes one.

        Args:
            **fields: values as JSON has them.
        """
        for name, value in fields.items():
            if value is None:
                self._after.pop(name, None)
            else:
                self._after[name] = _without_nothing(msgspec.to_builtins(value))

    def condition(self, condition_type: str, status: str, reason: str, message: str = "") -> None:
        """Set a condition; its transition time moves only if `status` is another one.

        Args:
            condition_type: what it is about, for example `Ready`.
            status: `True`, `False` or `Unknown`.
            reason: one CamelCase word for programs.
            message: a sentence for people.
        """
        new = Condition(
            condition_type, status, reason, message, observedGeneration=self._generation or None
        )
        self._put(set_condition(self._conditions, new, self._now))

    def drop_condition(self, condition_type: str) -> None:
        """Remove a condition.

        Args:
            condition_type: for example `Ready`.
        """
        self._put(remove_condition(self._conditions, condition_type))

    def patch(self) -> dict[str, Any]:
        """Return the merge patch of the status; empty if nothing differs."""
        return merge_patch(self._before, self._after)

    async def write(self, client: Client, resource: Resource[T]) -> T | None:
        """Send what differs; returns the object as it is then, None if nothing did.

        Args:
            client: for the write.
            resource: the kind of the object.

        Raises:
            Conflict: the object has moved on; look again.
            ControllerError: as any write.
        """
        patch = self.patch()
        if not patch:
            return None
        body = {"status": patch}
        return await client.patch(resource, self._version, body, subresource="status")

    def _put(self, conditions: tuple[Condition, ...]) -> None:
        self._conditions = conditions
        self._after["conditions"] = [to_json(one) for one in conditions]


def merge_patch(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    """Return the JSON merge patch (RFC 7386) that turns one document into the other.

    Neither may hold nulls, which a merge patch cannot write.

    Args:
        before: decoded JSON.
        after: what it shall become.
    """
    patch: dict[str, Any] = {name: None for name in before if name not in after}
    for name, value in after.items():
        old = before.get(name)
        if isinstance(old, Mapping) and isinstance(value, Mapping):
            if inner := merge_patch(old, value):
                patch[name] = inner
        elif name not in before or old != value:
            patch[name] = value
    return patch


def _without_nothing(value: Any) -> Any:
    """Return a document without nulls: in Kubernetes they mean the same as absence."""
    if isinstance(value, Mapping):
        return {k: _without_nothing(v) for k, v in value.items() if v is not None}
    if isinstance(value, list | tuple):
        return [_without_nothing(one) for one in value]
    return value
