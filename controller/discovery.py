"""Questions to an API server's discovery documents: which kinds it serves.

The documents are those of a server without aggregated discovery, which all versions have.

An API server that has just started lists the kinds of CustomResourceDefinitions only after some
seconds. So a kind that a document lists is served, and a kind that it lacks may be served, too. A
kind counts as absent only if no established definition serves it. Definitions are stored objects,
which the server has from its first answer on. A client that may not list them has to ask several
times (`AbsenceCounter`).
"""

from collections.abc import Iterable
from itertools import chain
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import msgspec

from controller.clock import Clock
from controller.codec import get_decoder
from controller.conditions import Condition, is_true
from controller.errors import (
    ControllerError,
    DiscoveryIncomplete,
    Forbidden,
    MalformedAnswer,
    NotFound,
)
from controller.lists import list_all
from controller.meta import ObjectMeta
from controller.resource import Resource

if TYPE_CHECKING:  # a client that is given its transport does not need to load aiohttp
    from controller.transport import Transport


class _Version(msgspec.Struct, frozen=True):
    """A served version of a group, for example `apps/v1`."""

    groupVersion: str


class _Group(msgspec.Struct, frozen=True):
    """An API group."""

    name: str
    versions: list[_Version]


class _Groups(msgspec.Struct, frozen=True):
    """The document at /apis: all groups but the core group."""

    kind: Literal["APIGroupList"]
    groups: list[_Group]


class _Kind(msgspec.Struct, frozen=True):
    """A kind by its plural, or a subresource by `PLURAL/NAME` (metav1.APIResource)."""

    name: str
    kind: str = ""
    namespaced: bool = False


class _Kinds(msgspec.Struct, frozen=True):
    """The document of one group and version."""

    kind: Literal["APIResourceList"]
    resources: list[_Kind]


class _DefinedVersion(msgspec.Struct, frozen=True):
    """A version in the spec of a CustomResourceDefinition."""

    name: str
    served: bool = False


class _DefinitionSpec(msgspec.Struct, frozen=True):
    """The versions that a CustomResourceDefinition defines."""

    versions: tuple[_DefinedVersion, ...] = ()


class _DefinitionStatus(msgspec.Struct, frozen=True):
    """The conditions of a CustomResourceDefinition; `Established` says that it is in effect."""

    conditions: tuple[Condition, ...] = ()


class _Definition(msgspec.Struct, frozen=True):
    """A CustomResourceDefinition, as far as it tells what is served."""

    metadata: ObjectMeta
    spec: _DefinitionSpec = _DefinitionSpec()
    status: _DefinitionStatus = _DefinitionStatus()

    def serves(self, version: str) -> bool:
        """Return whether the API server serves this version, now or after its start."""
        return is_true(self.status.conditions, "Established") and any(
            defined.served and defined.name == version for defined in self.spec.versions
        )


_DEFINITIONS = Resource(
    "apiextensions.k8s.io",
    "v1",
    "CustomResourceDefinition",
    "customresourcedefinitions",
    _Definition,
    namespaced=False,
)

D = TypeVar("D", _Groups, _Kinds)


REQUIRED_ABSENCES = 3
"""If definitions may not be listed, a kind counts as absent after so many answers without it."""
ABSENCE_SECONDS = 10.0
"""How far apart these answers are at least."""


class AbsenceCounter:
    """Counts answers of discovery that lack a kind, where definitions may not be listed.

    A starting API server completes its discovery within seconds. So a kind that is lacking in
    `REQUIRED_ABSENCES` answers, each `ABSENCE_SECONDS` after the one before, counts as absent. The
    count begins again once the kind is listed or discovery fails: the server may be restarting.

    Args:
        clock: the time.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        # By kind: how many answers counted, and when (monotonic seconds) the last of them came.
        self._absences: dict[Resource[Any], tuple[int, float]] = {}

    def note_absent(self, resource: Resource[Any]) -> int:
        """Note that an answer lacks a kind; return how many such answers count so far."""
        count, counted_at = self._absences.get(resource, (0, 0.0))
        now = self._clock.monotonic()
        # Answers in quick succession count once: the server may need seconds to list the kind.
        # Beyond REQUIRED_ABSENCES nothing changes, so no more answers are counted.
        if not count or (count < REQUIRED_ABSENCES and now - counted_at >= ABSENCE_SECONDS):
            count, counted_at = count + 1, now
        self._absences[resource] = count, counted_at
        return count

    def reset(self, resource: Resource[Any]) -> None:
        """Count the answers that lack the kind `resource` from zero again."""
        self._absences.pop(resource, None)

    def reset_all(self) -> None:
        """Count the answers from zero again for all kinds."""
        self._absences.clear()


async def is_served(
    transport: "Transport", resource: Resource[Any], counter: AbsenceCounter | None = None
) -> bool:
    """Return whether a server serves the kind `resource`.

    Args:
        transport: the server.
        resource: the kind.
        counter: counts the answers that lack the kind, if CustomResourceDefinitions may not be
            listed; None to believe the first such answer.

    Raises:
        DiscoveryIncomplete: the documents lack the kind. But a definition serves it; or
            definitions may not be listed, and too few answers lacked the kind.
        ControllerError: discovery failed, so the answer is not known.
    """
    try:
        is_listed = bool(await list_served(transport, [resource]))
    except ControllerError:
        if counter is not None:
            counter.reset_all()  # the server may be starting again: earlier answers do not count
        raise
    # The group of a CustomResourceDefinition has a dot. So no definition can serve another group.
    if is_listed or "." not in resource.group:
        if counter is not None:
            counter.reset(resource)
        return is_listed
    try:
        is_defined = await _is_defined(transport, resource)
    except Forbidden as error:
        if counter is None or counter.note_absent(resource) >= REQUIRED_ABSENCES:
            return False
        raise DiscoveryIncomplete(
            f"discovery does not list {resource.full_name} in version {resource.version}. That it"
            f" is absent is believed after {REQUIRED_ABSENCES} answers, {ABSENCE_SECONDS:g} s"
            " apart each: CustomResourceDefinitions, which would tell, may not be listed. Let a"
            " role grant list and watch of customresourcedefinitions.apiextensions.k8s.io"
        ) from error
    if counter is not None:
        counter.reset(resource)
    if is_defined:
        raise DiscoveryIncomplete(
            f"discovery does not list {resource.full_name} in version {resource.version}, which"
            " its CustomResourceDefinition serves: the API server may have just started"
        )
    return False


async def _is_defined(transport: "Transport", resource: Resource[Any]) -> bool:
    """Return whether a CustomResourceDefinition serves a kind in the resource's version.

    Raises:
        Forbidden: definitions may not be listed.
    """
    query = {"fieldSelector": f"metadata.name={resource.full_name}"}
    try:
        page = await list_all(transport, _DEFINITIONS, namespace="", query=query)
    except NotFound:  # a server without definitions: of tests, or an aggregated one
        return False
    definitions = (
        definition for definition in page.items if definition.metadata.name == resource.full_name
    )
    return any(definition.serves(resource.version) for definition in definitions)


async def list_served(
    transport: "Transport", resources: Iterable[Resource[Any]]
) -> frozenset[Resource[Any]]:
    """Return the kinds among `resources` that the discovery documents of a server list.

    Only the documents that can list a kind of `resources` are requested. A kind whose group or
    version the server lacks is left out.

    Raises:
        ControllerError: discovery failed, so the answer is not known.
    """
    candidates = list(resources)
    versions = set[_Version]()
    if any(resource.group for resource in candidates):  # /apis does not have the core group
        groups = (await _fetch_document(transport, "/apis", _Groups)).groups
        versions.update(chain.from_iterable(group.versions for group in groups))
    listed = set[Resource[Any]]()
    for api_version in {resource.api_version for resource in candidates}:
        if "/" in api_version and _Version(api_version) not in versions:
            continue  # the document of a version that is not served would be a 404
        names = {kind.name for kind in await _fetch_kinds(transport, api_version)}
        listed |= {
            resource
            for resource in candidates
            if resource.api_version == api_version and resource.plural in names
        }
    return frozenset(listed)


async def find_kind(
    transport: "Transport", api_version: str, kind: str
) -> tuple[str, bool] | None:
    """Return a kind's plural and whether it is namespaced; None if it is not served.

    Args:
        transport: the server.
        api_version: for example `apps/v1`.
        kind: for example `Deployment`.

    Raises:
        ControllerError: discovery failed, so the answer is not known.
    """
    try:
        kinds = await _fetch_kinds(transport, api_version)
    except NotFound:
        return None  # the version is not served
    for candidate in kinds:
        if candidate.kind == kind and "/" not in candidate.name:  # not a subresource
            return candidate.name, candidate.namespaced
    return None


async def _fetch_kinds(transport: "Transport", api_version: str) -> list[_Kind]:
    """Request the kinds of an API version, with their subresources.

    Raises:
        NotFound: the server does not serve the version.
    """
    root = "/apis" if "/" in api_version else "/api"
    return (await _fetch_document(transport, f"{root}/{api_version}", _Kinds)).resources


async def _fetch_document(transport: "Transport", path: str, document_type: type[D]) -> D:
    """Request a discovery document, and check the type of every field.

    Raises:
        MalformedAnswer: the answer is not of that type; an untrusted server may send any.
    """
    answer = await transport.request("GET", path)
    try:
        document: D = get_decoder(document_type)(answer)
    except (ValueError, RecursionError) as error:
        raise MalformedAnswer(f"GET {path}: no discovery document: {error}") from error
    return document
