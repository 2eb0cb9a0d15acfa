"""A Team, which is cluster-scoped, owns a Namespace; webhooks default, validate and convert it."""

from contextlib import aclosing
from dataclasses import dataclass, replace

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
    run_until_signal,
    to_owner,
    to_self,
    with_owner,
)
from controller.webhooks import (
    AdmissionRequest,
    Allowed,
    Answer,
    Conversion,
    Denied,
    Patched,
    Spoke,
    Webhook,
)

OWNERS = "example.com/owners"
MORE_OWNERS = "example.com/more-owners"


# -- The kinds
@dataclass(frozen=True, slots=True)
class TeamSpec:
    owners: tuple[str, ...] = ()
    namespace: str = ""


@dataclass(frozen=True, slots=True)
class Team:
    metadata: ObjectMeta
    spec: TeamSpec = TeamSpec()


TEAMS = Resource("example.com", "v2", "Team", "teams", Team, namespaced=False)
NAMESPACES = Resource("", "v1", "Namespace", "namespaces", MetadataOnly, namespaced=False)


# -- Convert
@dataclass(frozen=True, slots=True)
class OldSpec:
    owner: str | None = None
    namespace: str = ""


@dataclass(frozen=True, slots=True)
class OldTeam:
    """A Team of version v1, which had one owner."""

    metadata: ObjectMeta
    spec: OldSpec = OldSpec()


def to_v2(old: OldTeam) -> Team:
    """Make a list of the owner and of those that `to_v1` wrote into the annotation."""
    annotations = dict(old.metadata.annotations)
    candidates = [old.spec.owner or "", *annotations.pop(MORE_OWNERS, "").split(",")]
    owners = tuple(owner for owner in candidates if owner)
    meta = replace(old.metadata, annotations=annotations)
    return Team(meta, TeamSpec(owners, old.spec.namespace))


def to_v1(new: Team) -> OldTeam:
    """Name the first owner, and keep the others in an annotation."""
    first, *others = new.spec.owners or (None,)
    annotations = dict(new.metadata.annotations)
    annotations.pop(MORE_OWNERS, None)  # in v2 it means nothing
    if others:
        annotations[MORE_OWNERS] = ",".join(others)
    meta = replace(new.metadata, annotations=annotations)
    return OldTeam(meta, OldSpec(first, new.spec.namespace))


# -- Set defaults
async def set_defaults(request: AdmissionRequest[Team]) -> Answer:
    """Name the namespace after the team."""
    before = msgspec.json.decode(request.objectBytes)
    spec = {"namespace": f"team-{request.name}", **before.get("spec", {})}
    return Patched.from_change(before, {**before, "spec": spec})


# -- Refuse
async def validate(request: AdmissionRequest[Team]) -> Answer:
    """Refuse a team without owners, and one that moves to another namespace."""
    new, old = request.object, request.oldObject
    if new is None or new.metadata.is_terminating:
        return Allowed()
    if not new.spec.owners or not all("@" in owner for owner in new.spec.owners):
        return Denied.invalid("spec.owners: name the mail addresses of persons")
    if old is not None and new.spec.namespace != old.spec.namespace:
        return Denied.invalid("spec.namespace cannot change: delete the team and make another")
    return Allowed()


# -- What is watched
class Teams:
    """The reconciler of Teams."""

    def __init__(self, manager: Manager) -> None:
        self._client = manager.client
        self._teams = manager.get_informer(TEAMS)
        self._namespaces = manager.get_informer(NAMESPACES)
        to_team = to_owner(TEAMS)
        manager.add_controller(
            "teams",
            self.reconcile,
            watches=[Watch(self._teams, to_self), Watch(self._namespaces, to_team)],
        )
        manager.add_webhook(Webhook("/default-team", set_defaults, Team, mutating=True))
        manager.add_webhook(Webhook("/validate-team", validate, Team))
        old = Spoke("v1", OldTeam, to_hub=to_v2, from_hub=to_v1)
        manager.add_webhook(Conversion("/convert-team", TEAMS, Team, old))

    # -- A pass
    async def reconcile(self, key: Key) -> Outcome:
        team = self._teams.cache.get(key)
        if team is None or team.metadata.is_terminating:
            return SETTLED
        annotations = {OWNERS: ", ".join(team.spec.owners)}
        space = self._namespaces.cache.get(Key("", team.spec.namespace))
        if space is None:
            body = {"metadata": {"name": team.spec.namespace, "annotations": annotations}}
            await self._client.create(NAMESPACES, "", with_owner(body, team, TEAMS))
        elif space.metadata.annotations.get(OWNERS) != annotations[OWNERS]:
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
        converting=("teams.example.com",),
        names=("localhost",),  # where API servers find it if it runs beside them
    ),
)


async def main(options: ManagerOptions = OPTIONS) -> None:
    async with aclosing(await connect()) as transport:
        manager = Manager(transport, options=options)
        Teams(manager)
        await run_until_signal(manager)


if __name__ == "__main__":
    anyio.run(main)
