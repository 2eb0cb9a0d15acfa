"""Paths in, typed objects out: everything between, with a sentence for each thing that is wrong.

What an API server would fill in at creation is filled in here: namespace, uid, resourceVersion,
generation, creationTimestamp. Objects without a creationTimestamp count as created now, one after
another in the order in which they were read, after all that have one.

An object with a resourceVersion is stored in a cluster, whatever is wrong with it: the controllers
use it if they can decode it, and otherwise do not know what it holds.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Generic, NamedTuple, TypeVar

import msgspec

from controller.meta import Key, Object, parse_revision
from reconcilers.api import names
from reconcilers.api.ipallocation import IPAllocation
from reconcilers.api.networkpool import NetworkPool
from reconcilers.api.providerconfig import ProviderConfig
from reconcilers.api.resources import (
    OWN_KINDS,
)
from reconcilers.api.tenantcluster import TenantCluster
from reconcilers.cli.reading.findings import Findings
from reconcilers.cli.reading.objects import RawObject, read_objects, why_unknown
from reconcilers.cli.reading.schema import Validation, schemas
from reconcilers.integrations import views
from reconcilers.integrations.core.objects import decode_failure

T = TypeVar("T", bound=Object)
Body = dict[str, Any]

UNBORN = "planned-"
"""The beginning of a uid that no server has given."""


@dataclass(frozen=True, slots=True)
class ReadManifest(Generic[T]):
    """One object of ours that was read.

    Args:
        raw: as it was written, and where.
        body: as the server would keep it, without the defaults.
        metadata: with what a server would fill in.
        object: as the reconcilers see it.
        number: its place in the input, from 1.
    """

    raw: RawObject
    body: Body
    metadata: Body
    object: T
    number: int

    @property
    def key(self) -> Key:
        """The namespace and name."""
        return self.object.metadata.key


@dataclass(slots=True)
class Manifests:
    """Everything of ours that was read, by kind, in the order in which it was read."""

    pools: list[ReadManifest[NetworkPool]] = field(default_factory=list)
    allocations: list[ReadManifest[IPAllocation]] = field(default_factory=list)
    tenants: list[ReadManifest[TenantCluster]] = field(default_factory=list)
    providers: list[ReadManifest[ProviderConfig]] = field(default_factory=list)
    platform_default: Mapping[str, Any] | None = None
    """defaultProviderConfigRef of a ButlerConfig, if one was read."""
    others: list[Body] = field(default_factory=list)
    """Objects of other platforms' kinds that an integration serves, as they were written."""
    refused: set[tuple[str, Key]] = field(default_factory=set)
    """Kind and key of objects that are in the input, but wrong."""
    unreadable: dict[tuple[str, Key], str] = field(default_factory=dict)
    """Those of them that are stored in a cluster and cannot be decoded, with the reason: what
    they hold is unknown."""
    unreadable_bodies: dict[tuple[str, Key], Body] = field(default_factory=dict)
    """The same objects, as they are stored."""

    def unreadable_of(self, kind: str) -> dict[Key, str]:
        """Return the unreadable objects of a kind of ours, with the reason."""
        return {key: why for (of_kind, key), why in self.unreadable.items() if of_kind == kind}

    def of_kind(self, kind: str) -> list[ReadManifest[Any]]:
        """Return the list for objects of a kind of ours."""
        lists: dict[str, list[Any]] = {
            "NetworkPool": self.pools,
            "IPAllocation": self.allocations,
            "TenantCluster": self.tenants,
            "ProviderConfig": self.providers,
        }
        return lists[kind]

    def every(self) -> list[ReadManifest[Any]]:
        """Return all of them, in the order in which they were read."""
        manifests = [manifest for kind in OWN_KINDS for manifest in self.of_kind(kind)]
        return sorted(manifests, key=lambda manifest: manifest.number)


class _Accepted(NamedTuple):
    """An object of ours that is sound by itself."""

    raw: RawObject
    body: Body
    key: Key

    def meta(self, name: str) -> str:
        """Return a text of its metadata; empty if it has none."""
        return str(self.body["metadata"].get(name) or "")


def read(
    paths: Iterable[str],
    *,
    namespace: str,
    now: datetime,
    findings: Findings,
    recursive: bool = False,
) -> Manifests:
    """Read manifests.

    Args:
        paths: files, folders, `-` for standard input.
        namespace: where objects live that do not say.
        now: when objects were created that do not say.
        findings: takes everything that is wrong.
        recursive: whether folders inside folders are read.
    """
    manifests = Manifests()
    accepted: dict[tuple[str, Key], _Accepted] = {}
    passed_over: Counter[str] = Counter()
    for raw in read_objects(paths, findings, recursive=recursive):
        if raw.is_ours:
            _accept(raw, namespace, accepted=accepted, manifests=manifests, findings=findings)
        elif views.is_known(raw.body):
            manifests.others.append(raw.body)
        elif raw.is_known:
            passed_over[raw.kind] += 1
            if raw.kind == "ButlerConfig":
                manifests.platform_default = _default_provider(raw) or manifests.platform_default
        else:
            why = why_unknown(raw.api_version, raw.kind)
            findings.error(raw.place, f"document {raw.place.document}: {why}")
    if passed_over:
        counted = (f"{kind} ({n})" if n > 1 else kind for kind, n in sorted(passed_over.items()))
        findings.add("note", f"skipped, because plan does not need them:  {', '.join(counted)}")
    _type(accepted.values(), now, manifests=manifests, findings=findings)
    return manifests


def _default_provider(raw: RawObject) -> Mapping[str, Any] | None:
    """Return the ProviderConfig that a ButlerConfig names for clusters that name none."""
    spec = raw.body.get("spec")
    reference = spec.get("defaultProviderConfigRef") if isinstance(spec, dict) else None
    has_name = isinstance(reference, dict) and isinstance(reference.get("name"), str)
    return reference if has_name else None


def _accept(
    raw: RawObject,
    namespace: str,
    accepted: dict[tuple[str, Key], _Accepted],
    manifests: Manifests,
    findings: Findings,
) -> None:
    """Take an object of ours if it is sound and the first of its name."""
    validation = Validation(schemas()[raw.kind], raw.body)
    for path, fault in validation.faults:
        findings.error(raw.at(path), raw.sentence(path, fault))
    for path, hint in validation.unknown:
        fault = f"this field is unknown and ignored{hint}"
        findings.warning(raw.at(path), raw.sentence(path, fault))
    meta = raw.body.get("metadata")
    if not isinstance(meta, dict) or not isinstance(meta.get("name"), str) or not meta["name"]:
        return
    identity = raw.kind, Key(str(meta.get("namespace") or namespace), meta["name"])
    if validation.faults and not _is_decodable(raw, identity[1], manifests):
        manifests.refused.add(identity)
        return
    first = accepted.get(identity)
    if first is not None:
        findings.error(
            raw.place, f"{raw.kind} {identity[1]} is defined twice, first at {first.raw.place}"
        )
        return
    kept = {**validation.kept["metadata"], "namespace": identity[1].namespace}
    head: Body = {"apiVersion": raw.api_version, "kind": raw.kind}
    body = head | {"metadata": kept}
    accepted[identity] = _Accepted(raw, {**body, **validation.kept, "metadata": kept}, identity[1])


def _is_decodable(raw: RawObject, key: Key, manifests: Manifests) -> bool:
    """Return whether the controllers can use a stored object that the API server would refuse.

    An object that was stored before its definition became stricter is served as it is.
    """
    metadata = raw.body["metadata"]
    if not is_stored(metadata):
        return False
    placed = {**metadata, "namespace": key.namespace}
    resource = OWN_KINDS[raw.kind]
    try:
        msgspec.convert({**raw.body, "metadata": placed}, resource.type)
    except msgspec.ValidationError as error:
        manifests.unreadable[raw.kind, key] = decode_failure(
            resource, raw.body, metadata=placed, error=error
        )
        manifests.unreadable_bodies[raw.kind, key] = {**raw.body, "metadata": placed}
        return False
    return True


def is_stored(metadata: Mapping[str, Any]) -> bool:
    """Return whether an object comes from a cluster, by its resourceVersion."""
    version = metadata.get("resourceVersion")
    return isinstance(version, str) and parse_revision(version) is not None


def _type(
    accepted: Iterable[_Accepted], now: datetime, manifests: Manifests, findings: Findings
) -> None:
    """Turn sound objects into typed ones, filling in what a server would."""
    objects = list(accepted)
    revision = max(
        (parse_revision(obj.meta("resourceVersion")) or 0 for obj in objects), default=0
    )
    stamps = [stamp.upper() for obj in objects if (stamp := obj.meta("creationTimestamp"))]
    moment = max([now, *map(datetime.fromisoformat, stamps)])
    known_uids = _tenant_uids(objects)
    for number, obj in enumerate(objects, 1):
        moment += timedelta(microseconds=1)
        identity = (obj.raw.kind, obj.key)
        filled: Body = {
            "generation": 1,
            "uid": known_uids.get(identity, f"{UNBORN}{number}"),
            "resourceVersion": str(revision + number),
            "creationTimestamp": moment.isoformat(),
        }
        metadata = obj.body["metadata"].items()
        filled |= {k: v for k, v in metadata if v or not isinstance(v, str | int)}
        resource = OWN_KINDS[obj.raw.kind]
        try:
            typed: Any = msgspec.convert(obj.body | {"metadata": filled}, resource.type)
        except msgspec.ValidationError as error:
            findings.error(obj.raw.place, obj.raw.sentence((), str(error)))
            manifests.refused.add(identity)
            if is_stored(obj.body["metadata"]):
                failure = decode_failure(resource, obj.body, metadata=filled, error=error)
                manifests.unreadable[identity] = failure
                manifests.unreadable_bodies[identity] = {**obj.body, "metadata": filled}
        else:
            manifest = ReadManifest(
                obj.raw, obj.body, metadata=filled, object=typed, number=number
            )
            manifests.of_kind(obj.raw.kind).append(manifest)


def _tenant_uids(objects: Iterable[_Accepted]) -> dict[tuple[str, Key], str]:
    """Return the uids of TenantClusters that allocations in the input were stamped with.

    So a cluster's manifest from a repository goes together with allocations from a cluster.
    """
    uids: dict[tuple[str, Key], str] = {}
    for obj in objects:
        stamp = obj.body["metadata"].get("annotations", {}).get(names.ANNOTATION_TENANT_UID)
        if obj.raw.kind == "IPAllocation" and stamp:
            reference = obj.body["spec"]["tenantClusterRef"]
            key = Key(reference["namespace"], reference["name"])
            uids.setdefault(("TenantCluster", key), stamp)
    return uids
