"""Whether MetalLB's kinds are there: where they come later, the stand-in begins later."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import anyio

from controller.clock import Clock
from controller.informer import Informer
from controller.jobs import running
from controller.meta import Key, ObjectMeta
from controller.resource import Resource
from controller.transport import Transport
from reconcilers.cli.standin.crds import crds

ESTABLISHED = "Established"


@dataclass(frozen=True, slots=True)
class DefinitionStatus:
    """How far a definition is; its conditions as plain JSON, null for a new one."""

    conditions: Sequence[Mapping[str, Any]] | None = None


@dataclass(frozen=True, slots=True)
class Definition:
    """A CustomResourceDefinition."""

    metadata: ObjectMeta
    status: DefinitionStatus = field(default_factory=DefinitionStatus)

    @property
    def established(self) -> bool:
        """Whether its kind is served."""
        return any(
            one.get("type") == ESTABLISHED and one.get("status") == "True"
            for one in self.status.conditions or ()
        )


DEFINITION = Resource(
    "apiextensions.k8s.io",
    "v1",
    "CustomResourceDefinition",
    "customresourcedefinitions",
    Definition,
    namespaced=False,
)


async def wait_served(transport: Transport, clock: Clock) -> None:
    """Return once a tenant serves all the kinds that the stand-in needs."""
    await wait_established(transport, clock, crds())


async def wait_established(
    transport: Transport, clock: Clock, definitions: Iterable[Mapping[str, Any]]
) -> None:
    """Return once all of these definitions are established in a tenant."""
    needed = [Key("", one["metadata"]["name"]) for one in definitions]
    informer = Informer(DEFINITION, transport, clock)
    moved = anyio.Event()

    def move(_: object) -> None:
        nonlocal moved
        moved.set()
        moved = anyio.Event()

    informer.add_handler(move)
    async with running([informer.run]):
        while True:
            found = [informer.cache.get(key) for key in needed]
            if all(one is not None and one.established for one in found):
                return
            await moved.wait()
