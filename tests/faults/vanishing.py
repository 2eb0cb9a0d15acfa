"""Objects made to vanish: by a deletion that overtakes the finalizer, and by force."""

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
from tests.faults.slowdeletions import people, slow_deletions
from tests.polling import SECONDS

Json = dict[str, Any]


class Vanished:
    """Notices objects that went with a finalizer of ours, and were not being deleted."""

    def __init__(self, here: Estate[Plane]) -> None:
        self.keys: list[Key] = []
        for informer in here.witness.informers:
            informer.add_handler(self._see)

    def _see(self, change: Change[Any]) -> None:
        if change.new is None and change.old is not None:
            meta = change.old.metadata
            ours = any(finalizer.startswith(names.GROUP) for finalizer in meta.finalizers)
            if ours and not meta.terminating:
                self.keys.append(meta.key)


async def create(http: httpx.AsyncClient, resource: Resource[Any], key: Key, spec: Json) -> None:
    body = {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": {"name": key.name},
        "spec": spec,
    }
    response = await http.post(resource.collection(key.namespace), json=body)
    assert response.status_code == 201, response.text


Vanishing = Callable[[Estate[Plane], Resource[Any], Key], AbstractAsyncContextManager[None]]


@asynccontextmanager
async def overtaken(here: Estate[Plane], resource: Resource[Any], key: Key) -> AsyncIterator[None]:
    """Begin to delete an object before a controller adopts it; it goes when the context ends."""
    path = resource.path(key)
    vanished = Vanished(here)
    async with (
        slow_deletions(here.management, resource.plural, path) as slow,
        people(here.management) as http,
        anyio.create_task_group() as group,
    ):
        group.start_soon(http.delete, path)
        with anyio.fail_after(SECONDS):
            await slow.begun.wait()
        here.start()
        here.start()
        yield
        slow.go()
    await here.witness.until(lambda: "" if key in vanished.keys else f"{key} is still there")


@asynccontextmanager
async def by_force(here: Estate[Plane], resource: Resource[Any], key: Key) -> AsyncIterator[None]:
    """Delete an object when the context ends, and take its finalizers off at once."""
    here.start()
    here.start()
    yield
    path = resource.path(key)
    headers = {"Content-Type": "application/merge-patch+json"}
    async with people(here.management) as http:
        gone = await http.delete(path)
        assert gone.status_code == 200, gone.text
        without: Json = {"metadata": {"finalizers": None}}
        await http.patch(path, json=without, headers=headers)
    cache = here.witness.caches[resource.plural]
    await here.witness.until(lambda: f"{key} is still there" if key in cache else "")


HOW = pytest.mark.parametrize("vanishing", [overtaken, by_force])
