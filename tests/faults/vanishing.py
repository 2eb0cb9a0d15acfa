"""Two ways to make an object vanish although a controller has added its finalizer."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import anyio
import httpx
import pytest

from controller.cache import Change
from controller.meta import Key
from controller.resource import Resource
from envtest.plane import RunningControlPlane as Plane
from reconcilers.api import names
from tests.faults.estate import Estate
from tests.faults.slowdeletions import connect_admin, delay_deletions
from tests.polling import SECONDS

Json = dict[str, Any]


class VanishedObjects:
    """Records the keys of objects that vanished although they had our finalizer.

    An object that a deletionTimestamp announced does not count.
    """

    def __init__(self, estate: Estate[Plane]) -> None:
        self.keys: list[Key] = []
        for informer in estate.witness.informers:
            informer.add_handler(self._record)

    def _record(self, change: Change[Any]) -> None:
        if change.new is None and change.old is not None:
            meta = change.old.metadata
            is_our_finalizer = any(
                finalizer.startswith(names.GROUP) for finalizer in meta.finalizers
            )
            if is_our_finalizer and not meta.is_terminating:
                self.keys.append(meta.key)


async def create_object(
    http: httpx.AsyncClient, resource: Resource[Any], key: Key, spec: Json
) -> None:
    """Create an object as a person does, without a finalizer."""
    body = {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": {"name": key.name},
        "spec": spec,
    }
    response = await http.post(resource.build_collection_path(key.namespace), json=body)
    assert response.status_code == 201, response.text


Vanish = Callable[[Estate[Plane], Resource[Any], Key], AbstractAsyncContextManager[None]]
"""A way to make an object vanish at the end of a context, at whose start two processes start."""


@asynccontextmanager
async def delete_past_finalizer(
    estate: Estate[Plane], resource: Resource[Any], key: Key
) -> AsyncIterator[None]:
    """Start two processes that add their finalizer to an object whose deletion has begun.

    The API server decided on the deletion while the object had no finalizer. So it removes the
    object, with the finalizer, at the end of the context.
    """
    path = resource.build_path(key)
    vanished = VanishedObjects(estate)
    async with (
        delay_deletions(estate.management, resource.plural, path) as deletion_delay,
        connect_admin(estate.management) as http,
        anyio.create_task_group() as group,
    ):
        group.start_soon(http.delete, path)
        with anyio.fail_after(SECONDS):
            await deletion_delay.started.wait()
        for _ in range(2):
            estate.start_process()
        yield
        deletion_delay.allow_deletions()
    await estate.witness.wait_while(
        lambda: "" if key in vanished.keys else f"{key} is still there"
    )


@asynccontextmanager
async def delete_by_force(
    estate: Estate[Plane], resource: Resource[Any], key: Key
) -> AsyncIterator[None]:
    """Start two processes; at the end delete an object and remove its finalizers."""
    for _ in range(2):
        estate.start_process()
    yield
    path = resource.build_path(key)
    headers = {"Content-Type": "application/merge-patch+json"}
    async with connect_admin(estate.management) as http:
        gone = await http.delete(path)
        assert gone.status_code == 200, gone.text
        without_finalizers: Json = {"metadata": {"finalizers": None}}
        await http.patch(path, json=without_finalizers, headers=headers)
    cache = estate.witness.caches[resource.plural]
    await estate.witness.wait_while(lambda: f"{key} is still there" if key in cache else "")


BOTH_WAYS = pytest.mark.parametrize("vanish", [delete_past_finalizer, delete_by_force])
