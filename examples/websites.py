"""A Website is served by a Deployment that it owns, under a host that is its own.

The host is claimed in the ConfigMap `routes` of the Website's namespace. It is not owned by one
Website, so the garbage collector cannot clean it up: a finalizer gives the host back.
"""

from contextlib import aclosing
from dataclasses import dataclass, field

import anyio

from controller import (
    SETTLED,
    Blocked,
    Clock,
    Condition,
    Key,
    Manager,
    ObjectMeta,
    Outcome,
    Owner,
    Resource,
    SystemClock,
    Version,
    Watch,
    add_finalizer,
    connect,
    ensure,
    remove_finalizer,
    run_until_signal,
    set_condition,
    to_owner,
    to_self,
)

FINALIZER = "example.com/host"


# -- The kinds
@dataclass(frozen=True, slots=True)
class WebsiteSpec:
    host: str
    image: str = "nginx:1.29"
    replicas: int = 1


@dataclass(frozen=True, slots=True)
class WebsiteStatus:
    readyReplicas: int = -1
    conditions: tuple[Condition, ...] = ()


@dataclass(frozen=True, slots=True)
class Website:
    metadata: ObjectMeta
    spec: WebsiteSpec
    status: WebsiteStatus = WebsiteStatus()


@dataclass(frozen=True, slots=True)
class DeploymentStatus:
    readyReplicas: int = 0


@dataclass(frozen=True, slots=True)
class Deployment:
    metadata: ObjectMeta
    status: DeploymentStatus = DeploymentStatus()


@dataclass(frozen=True, slots=True)
class ConfigMap:
    metadata: ObjectMeta
    data: dict[str, str] = field(default_factory=dict)


WEBSITES = Resource("example.com", "v1", "Website", "websites", Website)
DEPLOYMENTS = Resource("apps", "v1", "Deployment", "deployments", Deployment)
CONFIG_MAPS = Resource("", "v1", "ConfigMap", "configmaps", ConfigMap)


# -- What is watched
class Websites:
    """The reconciler of Websites."""

    def __init__(self, manager: Manager, clock: Clock) -> None:
        self._client, self._clock = manager.client, clock
        self._sites = manager.get_informer(WEBSITES)
        deployments = manager.get_informer(DEPLOYMENTS)
        self._maps = manager.get_informer(CONFIG_MAPS)
        manager.add_controller(
            "websites",
            self.reconcile,
            watches=[
                Watch(self._sites, to_self),
                Watch(deployments, to_owner(WEBSITES)),
                Watch(self._maps, self._waiting_for_hosts),
            ],
        )

    # -- A pass
    async def reconcile(self, key: Key) -> Outcome:
        site = self._sites.cache.get(key)
        if site is None:
            return SETTLED
        if site.metadata.is_terminating:
            await self._release_host(site)
            await remove_finalizer(self._client, WEBSITES, site, FINALIZER)
            return SETTLED
        site = await add_finalizer(self._client, WEBSITES, site, FINALIZER)
        if holder := await self._claim_host(site):
            await self._report(
                site, 0, reason="HostTaken", message=f"{site.spec.host} is served by {holder}"
            )
            return Blocked("HostTaken")
        deployment = await self._ensure_deployment(site)
        ready, replicas = deployment.status.readyReplicas, site.spec.replicas
        reason = "Serving" if ready >= replicas else "Starting"
        await self._report(
            site, ready, reason=reason, message=f"{ready} of {replicas} replicas are ready"
        )
        return SETTLED

    # -- Claim the host
    async def _claim_host(self, site: Website) -> str | None:
        """Write the host into the routes; return the Website that has it already, or None."""
        host, name = site.spec.host, site.metadata.name
        routes = self._maps.cache.get(Key(site.metadata.namespace, "routes"))
        if routes is None:
            body = {"metadata": {"name": "routes"}, "data": {host: name}}
            await self._client.create(CONFIG_MAPS, site.metadata.namespace, body)
            return None
        holder = routes.data.get(host)
        if holder is None:
            patch = {"data": {host: name}}
            await self._client.patch(CONFIG_MAPS, Version.from_object(routes), patch)
        return holder if holder != name else None

    # -- Give the host back
    async def _release_host(self, site: Website) -> None:
        routes = self._maps.cache.get(Key(site.metadata.namespace, "routes"))
        if routes is not None and routes.data.get(site.spec.host) == site.metadata.name:
            patch = {"data": {site.spec.host: None}}
            await self._client.patch(CONFIG_MAPS, Version.from_object(routes), patch)

    # -- Own the Deployment
    async def _ensure_deployment(self, site: Website) -> Deployment:
        owner = Owner(site, WEBSITES)
        child = await ensure(self._client, DEPLOYMENTS, owner, deployment_of(site))
        return child.object

    # -- Report
    async def _report(self, site: Website, ready: int, reason: str, message: str) -> None:
        status = "True" if reason == "Serving" else "False"
        generation = site.metadata.generation
        new = Condition("Ready", status, reason, message, observedGeneration=generation)
        conditions = set_condition(site.status.conditions, new, self._clock.now())
        if WebsiteStatus(ready, conditions) != site.status:
            sent = {"readyReplicas": ready, "conditions": conditions}
            await self._client.patch_status(WEBSITES, site, sent)

    # -- Changes of other objects
    def _waiting_for_hosts(self, routes: ConfigMap) -> list[Key]:
        """Return the Websites that the routes do not serve, because a host may be free now."""
        if routes.metadata.name != "routes":
            return []
        return [
            site.metadata.key
            for site in self._sites.cache
            if site.metadata.namespace == routes.metadata.namespace
            and routes.data.get(site.spec.host) != site.metadata.name
        ]


# -- The Deployment
def deployment_of(site: Website) -> dict[str, object]:
    labels = {"website": site.metadata.name}
    container = {"name": "web", "image": site.spec.image}
    return {
        "metadata": {"name": site.metadata.name, "namespace": site.metadata.namespace},
        "spec": {
            "replicas": site.spec.replicas,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
        },
    }


# -- Run it
async def main() -> None:
    async with aclosing(await connect()) as transport:
        manager = Manager(transport)
        Websites(manager, SystemClock())
        await run_until_signal(manager)


if __name__ == "__main__":
    anyio.run(main)
