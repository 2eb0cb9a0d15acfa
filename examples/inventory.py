"""The nodes of other clusters, counted in a ConfigMap here.

Each Secret with the label `example.com/cluster` has a kubeconfig. The nodes of that cluster are
watched, so the count changes when a node does.
"""

import base64
from contextlib import aclosing
from dataclasses import dataclass, field

import anyio

from controller import (
    SETTLED,
    Again,
    Clock,
    Clusters,
    ClusterSettings,
    ClusterWatch,
    Condition,
    ConfigurationError,
    Connection,
    Key,
    Manager,
    ObjectMeta,
    Outcome,
    Resource,
    SystemClock,
    Version,
    Watch,
    connect,
    create_tenant_transport,
    parse_kubeconfig,
    run_until_signal,
    to_owner,
    to_self,
    with_owner,
)

LABEL = "example.com/cluster"


# -- The kinds
@dataclass(frozen=True, slots=True)
class Secret:
    metadata: ObjectMeta
    data: dict[str, str] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True)
class ConfigMap:
    metadata: ObjectMeta
    data: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class NodeStatus:
    conditions: tuple[Condition, ...] = ()


@dataclass(frozen=True, slots=True)
class Node:
    metadata: ObjectMeta
    status: NodeStatus = NodeStatus()


SECRETS = Resource("", "v1", "Secret", "secrets", Secret)
CONFIG_MAPS = Resource("", "v1", "ConfigMap", "configmaps", ConfigMap)
NODES = Resource("", "v1", "Node", "nodes", Node, namespaced=False)


# -- What is watched
class Inventory:
    """The reconciler of Secrets that name clusters."""

    def __init__(self, manager: Manager, clock: Clock) -> None:
        self._client = manager.client
        self._secrets = manager.get_informer(SECRETS)
        self._maps = manager.get_informer(CONFIG_MAPS)
        self._clusters = Clusters(self._open, clock, ClusterSettings(limit=50))
        self._nodes = self._clusters.watch_kind(NODES)
        self._kubeconfigs: dict[Key, dict[str, str]] = {}
        manager.add_service("clusters", self._clusters.run)
        manager.add_controller(
            "inventory",
            self.reconcile,
            watches=[
                Watch(self._secrets, to_self),
                Watch(self._maps, to_owner(SECRETS)),
                ClusterWatch(self._nodes, lambda cluster, _: [cluster]),
            ],
        )

    # -- A pass
    async def reconcile(self, key: Key) -> Outcome:
        secret = self._secrets.cache.get(key)
        if secret is None or LABEL not in secret.metadata.labels:
            self._clusters.close(key)
            self._kubeconfigs.pop(key, None)
            return SETTLED
        if self._kubeconfigs.setdefault(key, secret.data) != secret.data:
            self._kubeconfigs[key] = secret.data
            await self._clusters.renew(key)
        if not self._clusters.open(key):
            return Again(60)  # no slot is free
        nodes = self._nodes.get_cache(key)
        if nodes is None:
            error = self._clusters.get_last_error(key)
            await self._write(secret, {"error": str(error)} if error else None)
            return Again(5)
        ready = sum(is_ready(node) for node in nodes)
        await self._write(secret, {"nodes": str(len(nodes)), "ready": str(ready)})
        return SETTLED

    # -- Reach the other cluster
    async def _open(self, key: Key) -> Connection:
        """Connect to the cluster of a Secret, which is not trusted."""
        secret = await self._client.get(SECRETS, key)
        if "kubeconfig" not in secret.data:
            raise ConfigurationError(f"Secret {key} has no entry `kubeconfig`")
        credentials = parse_kubeconfig(base64.b64decode(secret.data["kubeconfig"]))
        transport = create_tenant_transport(credentials, max_bytes=64 * 1024 * 1024, timeout=30)
        return Connection(transport, identity=credentials.server + credentials.authority)

    # -- Write the ConfigMap
    async def _write(self, secret: Secret, data: dict[str, str] | None) -> None:
        """Write the ConfigMap of a Secret, if `data` is known and differs."""
        name, space = f"{secret.metadata.name}-nodes", secret.metadata.namespace
        existing = self._maps.cache.get(Key(space, name))
        if data is None or (existing is not None and existing.data == data):
            return
        if existing is None:
            body = {"metadata": {"name": name, "namespace": space}, "data": data}
            await self._client.create(CONFIG_MAPS, space, with_owner(body, secret, SECRETS))
        else:
            whole = dict.fromkeys(existing.data) | data
            await self._client.patch(CONFIG_MAPS, Version.from_object(existing), {"data": whole})


# -- Which nodes are ready
def is_ready(node: Node) -> bool:
    return any(
        condition.type == "Ready" and condition.status == "True"
        for condition in node.status.conditions
    )


# -- Run it
async def main() -> None:
    async with aclosing(await connect()) as transport:
        manager = Manager(transport)
        Inventory(manager, SystemClock())
        await run_until_signal(manager)


if __name__ == "__main__":
    anyio.run(main)
