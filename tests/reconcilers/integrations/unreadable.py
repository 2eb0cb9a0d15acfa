"""A cluster in which a test makes objects unreadable, and readable again, under one replica.

An object is unreadable if it cannot be decoded, because a field has a value of a wrong type.
"""

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
"""Seconds after which another replica leads."""


class PlatformCluster(Cluster):
    """A cluster that serves the kinds of a platform, and the replicas of butler-ipam at it.

    In all methods, `namespace` does not matter for kinds without namespaces.
    """

    async def create_object(self, kind: Resource[Any], name: str, spec: Json, **more: Any) -> None:
        """Create an object, whether it can be decoded or not.

        Args:
            kind: the kind of the object.
            name: the name of the object.
            spec: the spec of the object.
            **more: `namespace`, `metadata` and `status` of the object.
        """
        namespace = more.get("namespace", NAMESPACE if kind.namespaced else "")
        metadata = {"name": name, **more.get("metadata", {})}
        body = {"metadata": metadata, "spec": spec}
        created = await self.client.create(_make_untyped(kind), namespace, body)
        if "status" in more:
            await self.client.patch_status(_make_untyped(kind), created, dict(more["status"]))

    def get_stored(self, kind: Resource[Any], name: str, namespace: str = NAMESPACE) -> Json:
        """Return an object as it is stored; empty if there is none."""
        return self.api.get_stored(kind, _make_key(kind, name, namespace)) or {}

    def get_ready_condition(
        self, kind: Resource[Any], name: str, namespace: str = NAMESPACE
    ) -> Json:
        """Return the condition Ready of an object; empty if it has none."""
        conditions = self.get_stored(kind, name, namespace).get("status", {}).get("conditions", [])
        return next((condition for condition in conditions if condition["type"] == "Ready"), {})

    async def edit(
        self, kind: Resource[Any], name: str, patch: Json, namespace: str = NAMESPACE
    ) -> None:
        """Merge a patch into an object, whether it can be decoded afterwards or not."""
        untyped = _make_untyped(kind)
        obj = await self.client.get(untyped, _make_key(kind, name, namespace))
        status = patch.pop("status", None)
        if patch:
            obj = await self.client.patch(untyped, Version.from_object(obj), patch)
        if status is not None:
            await self.client.patch_status(untyped, obj, status)

    async def remove_by_force(
        self, kind: Resource[Any], name: str, namespace: str = NAMESPACE
    ) -> None:
        """Remove the finalizers of an object, then delete it."""
        await self.edit(kind, name, patch={"metadata": {"finalizers": None}}, namespace=namespace)
        await self.delete(kind, name, namespace)

    async def delete(self, kind: Resource[Any], name: str, namespace: str = NAMESPACE) -> None:
        """Delete an object as a person does: its finalizers keep it until they are removed."""
        untyped = _make_untyped(kind)
        obj = await self.client.get(untyped, _make_key(kind, name, namespace))
        await self.client.delete(untyped, Version.from_object(obj))

    def read_metric(self, name: str) -> list[float]:
        """Return the values of a metric of the newest replica, one for each pool."""
        families = self.replicas[-1].manager.metrics.registry.collect()
        return [
            sample.value for family in families for sample in family.samples if sample.name == name
        ]

    async def restart_replica(self) -> None:
        """Replace the replica by a new one, which lists all objects before it works."""
        self.stop_replicas()
        await self.pass_by(1)
        self.start_replicas(f"replica-{len(self.replicas)}")
        await self.pass_by(LEASE_SECONDS)

    def stop_replicas(self) -> None:
        """Stop all replicas, as a rollout does."""
        for replica in self.replicas:
            replica.manager.stop()


@asynccontextmanager
async def open_platform_cluster(
    settings: Settings, *kinds: Resource[Any]
) -> AsyncIterator[PlatformCluster]:
    """Yield a cluster that serves some kinds beside ours, with a replica that leads."""
    async with anyio.create_task_group() as group:
        cluster = PlatformCluster(group, settings, shards=1)
        for kind in (DEFINITIONS, *kinds):
            cluster.api.serve(kind, fields=("metadata.name",))
        cluster.start_replicas("replica-0")
        await cluster.pass_by(LEASE_SECONDS)
        yield cluster
        group.cancel_scope.cancel()


def _make_untyped(kind: Resource[Any]) -> Resource[Any]:
    """Return a kind whose objects are decoded without their schema."""
    return replace(kind, type=Untyped, outline=None)


def _make_key(kind: Resource[Any], name: str, namespace: str) -> Key:
    """Return the key of an object; a kind without namespaces ignores `namespace`."""
    return Key(namespace if kind.namespaced else "", name)
