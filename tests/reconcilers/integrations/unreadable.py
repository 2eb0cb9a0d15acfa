"""A cluster whose objects become unreadable, and readable again, under one replica."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import anyio

from controller.meta import Key, Untyped, Version
from controller.resource import Resource
from reconcilers.configuration.settings import Settings
from reconcilers.integrations.core.discovery import DEFINITIONS
from tests.reconcilers.test_sharing import NAMESPACE, Cluster

Json = dict[str, Any]
LEASE_SECONDS = 20.0
"""After which another replica leads."""


class Site:
    """A cluster and the replicas at it."""

    def __init__(self, home: Cluster) -> None:
        self.home = home

    async def make(self, kind: Resource[Any], name: str, spec: Json, **more: Any) -> None:
        """Create an object; `namespace`, `metadata` and `status` are optional."""
        namespace = more.get("namespace", NAMESPACE if kind.namespaced else "")
        metadata = {"name": name, **more.get("metadata", {})}
        body = {"metadata": metadata, "spec": spec}
        created = await self.home.client.create(_make_untyped(kind), namespace, body)
        if "status" in more:
            await self.home.client.patch_status(_make_untyped(kind), created, dict(more["status"]))

    def see(self, kind: Resource[Any], name: str, namespace: str = NAMESPACE) -> Json:
        """Return an object as it is stored; empty if it is gone."""
        key = Key(namespace if kind.namespaced else "", name)
        return self.home.api.get_stored(kind, key) or {}

    def ready(self, kind: Resource[Any], name: str, namespace: str = NAMESPACE) -> Json:
        """Return the condition Ready of an object; empty for none."""
        conditions = self.see(kind, name, namespace).get("status", {}).get("conditions", [])
        return next((condition for condition in conditions if condition["type"] == "Ready"), {})

    async def edit(
        self, kind: Resource[Any], name: str, patch: Json, namespace: str = NAMESPACE
    ) -> None:
        """Merge a patch into an object, whether it can be decoded afterwards or not."""
        untyped = _make_untyped(kind)
        key = Key(namespace if kind.namespaced else "", name)
        client = await self.home.client.get(untyped, key)
        version = Version.from_object(client)
        status = patch.pop("status", None)
        if patch:
            client = await self.home.client.patch(untyped, version, patch)
        if status is not None:
            await self.home.client.patch_status(untyped, client, status)

    async def remove(self, kind: Resource[Any], name: str, namespace: str = NAMESPACE) -> None:
        """Delete an object, finalizers or not."""
        await self.edit(kind, name, patch={"metadata": {"finalizers": None}}, namespace=namespace)
        await self.delete(kind, name, namespace)

    async def delete(self, kind: Resource[Any], name: str, namespace: str = NAMESPACE) -> None:
        """Delete an object, as a person does."""
        untyped = _make_untyped(kind)
        key = Key(namespace if kind.namespaced else "", name)
        client = await self.home.client.get(untyped, key)
        await self.home.client.delete(untyped, Version.from_object(client))

    def gauge(self, name: str) -> list[float]:
        """Return the values of a metric that the newest replica shows, one for each pool."""
        families = self.home.replicas[-1].manager.metrics.registry.collect()
        return [
            sample.value for family in families for sample in family.samples if sample.name == name
        ]

    async def restart(self) -> None:
        """Replace the replica by one that lists everything anew."""
        self.stop()
        await self.home.pass_by(1)
        self.home.start(f"replica-{len(self.home.replicas)}")
        await self.home.pass_by(LEASE_SECONDS)

    def stop(self) -> None:
        """Stop the replica, as a rollout does."""
        for replica in self.home.replicas:
            replica.manager.stop()


@asynccontextmanager
async def site(settings: Settings, *kinds: Resource[Any]) -> AsyncIterator[Site]:
    """Return a cluster that serves kinds of an integration, with a replica that leads."""
    async with anyio.create_task_group() as group:
        home = Cluster(group, settings, 1)
        for kind in (DEFINITIONS, *kinds):
            home.api.serve(kind, fields=("metadata.name",))
        home.start("replica-0")
        await home.pass_by(20)
        yield Site(home)
        group.cancel_scope.cancel()


def _make_untyped(kind: Resource[Any]) -> Resource[Any]:
    return replace(kind, type=Untyped, outline=None)
