"""A Team, which is cluster-scoped, owns a Namespace; webhooks set its defaults and judge it."""

from contextlib import aclosing
from dataclasses import dataclass

import anyio
import msgspec

from controller import (
    SETTLED,
    Key,
    Manager,
    ManagerOptions,
    MetadataOnly,
    ObjectMeta,
    Outcome,
    Resource,
    SelfSigned,
    Version,
    Watch,
    connect,
    owned,
    run_until_signal,
    to_owner,
    to_self,
)
from controller.webhooks import AdmissionRequest, Allowed, Answer, Denied, Patched, Webhook

OWNER = "example.com/owner"


# -- The kinds
@dataclass(frozen=True, slots=True)
class TeamSpec:
    owner: str = ""
    namespace: str = ""


@dataclass(frozen=True, slots=True)
class Team:
    metadata: ObjectMeta
    spec: TeamSpec = TeamSpec()


TEAMS = Resource("example.com", "v1", "Team", "teams", Team, namespaced=False)
NAMESPACES = Resource("", "v1", "Namespace", "namespaces", MetadataOnly, namespaced=False)


# -- Set defaults
async def set_defaults(request: AdmissionRequest[Team]) -> Answer:
    """Name the namespace after the team."""
    before = msgspec.json.decode(request.objectBytes)
    spec = {"namespace": f"team-{request.name}", **before.get("spec", {})}
    return Patched.between(before, {**before, "spec": spec})


# -- Refuse
async def judge(request: AdmissionRequest[Team]) -> Answer:
    """Refuse a team without an owner, and one that moves to another namespace."""
    new, old = request.object, request.oldObject
    if new is None or new.metadata.terminating:
        return Allowed()
    if "@" not in new.spec.owner:
        return Denied.invalid("spec.owner: name the mail address of a person")
    if old is not None and new.spec.namespace != old.spec.namespace:
        return Denied.invalid("spec.namespace cannot change: delete the team and make another")
    return Allowed()


# -- What is watched
class Teams:
    """The reconciler of Teams."""

    def __init__(self, manager: Manager) -> None:
        self._client = manager.client
        self._teams = manager.informer(TEAMS)
        self._namespaces = manager.informer(NAMESPACES)
        to_team = to_owner("Team", "example.com", namespaced=False)
        manager.controller(
            "teams",
            self.reconcile,
            watches=[Watch(self._teams, to_self), Watch(self._namespaces, to_team)],
        )
        manager.add_webhook(Webhook("/default-team", set_defaults, Team, mutating=True))
        manager.add_webhook(Webhook("/judge-team", judge, Team))

    # -- A pass
    async def reconcile(self, key: Key) -> Outcome:
        team = self._teams.cache.get(key)
        if team is None or team.metadata.terminating:
            return SETTLED
        annotations = {OWNER: team.spec.owner}
        space = self._namespaces.cache.get(Key("", team.spec.namespace))
        if space is None:
            body = {"metadata": {"name": team.spec.namespace, "annotations": annotations}}
            await self._client.create(NAMESPACES, "", owned(body, team, TEAMS))
        elif space.metadata.annotations.get(OWNER) != team.spec.owner:
            patch = {"metadata": {"annotations": annotations}}
            await self._client.patch(NAMESPACES, Version.from_object(space), patch)
        return SETTLED


# -- Run it
OPTIONS = ManagerOptions(
    webhook_bind=":9443",
    webhook_self_signed=SelfSigned(
        namespace="default",
        service="teams",
        secret="teams-certificate",  # noqa: S106 - its name
        validating=("teams",),
        mutating=("teams",),
    ),
)


async def main(options: ManagerOptions = OPTIONS) -> None:
    async with aclosing(await connect()) as transport:
        manager = Manager(transport, options=options)
        Teams(manager)
        await run_until_signal(manager)


if __name__ == "__main__":
    anyio.run(main)
