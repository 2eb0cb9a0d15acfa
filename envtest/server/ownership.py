"""Field ownership of resources with several versions: where their conversions are worked out."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import anyio

from envtest.patching import FieldModel, Versions
from envtest.server.converting import WebhookConversion
from envtest.server.resource import Resource

_T = TypeVar("_T")
_Body = dict[str, Any]


def plain_versions(models: Mapping[str, FieldModel]) -> Versions:
    """Return versions that differ in their name only."""
    return Versions(models.get, lambda body, version: {**body, "apiVersion": version})


def converted_versions(
    models: Mapping[str, FieldModel], conversion: WebhookConversion
) -> Versions:
    """Return versions between which a webhook converts; for use within `settle_owners`."""

    def convert(body: _Body, version: str) -> _Body:
        return anyio.from_thread.run(conversion.convert, [body], version)[0]

    return Versions(models.get, convert)


async def settle_owners(
    resource: Resource, entries: Sequence[Mapping[str, Any]] | None, settle: Callable[[], _T]
) -> _T:
    """Work out who owns what, and wait for the webhook where versions have to be compared.

    Ownership is worked out by functions that wait for nothing. Where a webhook has to be asked,
    they run in a thread, from which it can be waited for.

    Args:
        resource: what is written.
        entries: managedFields so far.
        settle: the work.
    """
    if resource.conversion is None or all(
        entry.get("apiVersion") == resource.api_version for entry in entries or ()
    ):
        return settle()
    return await anyio.to_thread.run_sync(settle)
