"""Reads manifests from paths to typed objects, with a finding for each fault.

Fields that an API server sets at creation are set here: namespace, uid, resourceVersion,
generation, creationTimestamp. Objects without a creationTimestamp count as created now, in the
order in which they were read, after all objects that have one.

An object with a resourceVersion is stored in a cluster, even if it has a fault. Controllers use
such an object if they can decode it; if they cannot, it is unknown which addresses it holds.
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
from reconcilers.cli.reading.objects import RawObject, describe_unknown_kind, read_objects
from reconcilers.cli.reading.schema import Validation, load_schemas
from reconcilers.integrations import views
from reconcilers.integrations.core.objects import make_decode_failure

T = TypeVar("T", bound=Object)
Body = dict[str, Any]

UNBORN = "planned-"
"""The prefix of a uid that no API server has assigned."""


@dataclass(frozen=True, slots=True)
class ReadManifest(Generic[T]):
    """An object of one of our kinds that was read and decoded.

    Args:
        raw: the object as it is in its file.
        body: the object as an API server would store it, but without defaults.
        metadata: the metadata, with the fields that an API server sets.
        object: the decoded object, as the reconcilers read it.
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
    """The objects that were read, by kind, in the order of the input."""

    pools: list[ReadManifest[NetworkPool]] = field(default_factory=list)
    allocations: list[ReadManifest[IPAllocation]] = field(default_factory=list)
    tenants: list[ReadManifest[TenantCluster]] = field(default_factory=list)
    providers: list[ReadManifest[ProviderConfig]] = field(default_factory=list)
    platform_default: Mapping[str, Any] | None = None
    """defaultProviderConfigRef of a ButlerConfig in the input; None if there is none."""
    others: list[Body] = field(default_factory=list)
    """Objects of other platforms' kinds that an integration serves, as they are in their files."""
    refused: set[tuple[str, Key]] = field(default_factory=set)
    """Kind and key of the objects of our kinds that have faults and are not used."""
    unreadable: dict[tuple[str, Key], str] = field(default_factory=dict)
    """Why refused objects that are stored in a cluster cannot be decoded; it is unknown which
    addresses they hold."""
    unreadable_bodies: dict[tuple[str, Key], Body] = field(default_factory=dict)
    """The objects in `unreadable`, as they are stored."""

    def find_unreadable(self, kind: str) -> dict[Key, str]:
        """Return why objects of one of our kinds are unreadable, by key."""
        return {key: why for (get_list, key), why in self.unreadable.items() if get_list == kind}

    def get_list(self, kind: str) -> list[ReadManifest[Any]]:
        """Return the list for the objects of one of our kinds, to read or to append to."""
        lists: dict[str, list[Any]] = {
            "NetworkPool": self.pools,
            "IPAllocation": self.allocations,
            "TenantCluster": self.tenants,
            "ProviderConfig": self.providers,
        }
        return lists[kind]

    def list_own(self) -> list[ReadManifest[Any]]:
        """Return the objects of all our kinds in the order of the input."""
        manifests = [manifest for kind in OWN_KINDS for manifest in self.get_list(kind)]
        return sorted(manifests, key=lambda manifest: manifest.number)


class _Accepted(NamedTuple):
    """An object of one of our kinds whose own fields are valid, before it is decoded."""

    raw: RawObject
    body: Body
    key: Key

    def get_metadata_text(self, name: str) -> str:
        """Return a field of the metadata as text; empty if it is absent."""
        return str(self.body["metadata"].get(name) or "")


def read_manifests(
    paths: Iterable[str],
    *,
    namespace: str,
    now: datetime,
    findings: Findings,
    recursive: bool = False,
) -> Manifests:
    """Return the objects in files, folders and standard input.

    1. Objects of our kinds are validated and decoded.
    2. Objects that an integration serves are kept as they are.
    3. Objects of other known kinds are skipped; a ButlerConfig sets the platform's default.
    4. An unknown kind is an error, because it is likely misspelled.

    Args:
        paths: names of files and folders; `-` for standard input.
        namespace: the namespace of objects that have none.
        now: the creationTimestamp of objects that have none.
        findings: takes a finding for each fault.
        recursive: whether folders inside folders are read.
    """
    manifests = Manifests()
    accepted: dict[tuple[str, Key], _Accepted] = {}
    skipped_kinds: Counter[str] = Counter()
    for raw in read_objects(paths, findings, recursive=recursive):
        if raw.is_ours:
            _accept(raw, namespace, accepted=accepted, manifests=manifests, findings=findings)
        elif views.is_known(raw.body):
            manifests.others.append(raw.body)
        elif raw.is_known:
            skipped_kinds[raw.kind] += 1
            if raw.kind == "ButlerConfig":
                manifests.platform_default = (
                    _find_default_provider(raw) or manifests.platform_default
                )
        else:
            why = describe_unknown_kind(raw.api_version, raw.kind)
            findings.add_error(raw.place, f"document {raw.place.document}: {why}")
    if skipped_kinds:
        counted = (
            f"{kind} ({count})" if count > 1 else kind
            for kind, count in sorted(skipped_kinds.items())
        )
        findings.add("note", f"skipped, because plan does not need them: {', '.join(counted)}")
    _decode_accepted(accepted.values(), now, manifests=manifests, findings=findings)
    return manifests


def _find_default_provider(raw: RawObject) -> Mapping[str, Any] | None:
    """Return a ButlerConfig's reference to the default ProviderConfig; None if it has none."""
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
    """Add an object of one of our kinds to `accepted`, and a finding for each fault.

    An object with faults is refused, unless it is stored in a cluster and can be decoded. If two
    objects have one name, only the first is accepted. An object without a name is left out.

    Args:
        accepted: takes the object, by kind and key.
        manifests: takes kind and key of an object that is refused.
    """
    validation = Validation(load_schemas()[raw.kind], raw.body)
    for path, fault in validation.faults:
        findings.add_error(raw.at(path), raw.build_sentence(path, fault))
    for path, hint in validation.unknown:
        fault = f"this field is unknown and ignored{hint}"
        findings.add_warning(raw.at(path), raw.build_sentence(path, fault))
    meta = raw.body.get("metadata")
    if not isinstance(meta, dict) or not isinstance(meta.get("name"), str) or not meta["name"]:
        return  # without a name, which is among the faults, nothing can refer to it
    key = Key(str(meta.get("namespace") or namespace), meta["name"])
    identity = raw.kind, key
    # `_is_decodable` notes an object that is stored and cannot be decoded.
    if validation.faults and not _is_decodable(raw, key, manifests):
        manifests.refused.add(identity)
        return
    first = accepted.get(identity)
    if first is not None:
        findings.add_error(
            raw.place, f"{raw.kind} {key} is defined twice, first at {first.raw.place}"
        )
        return
    metadata = {**validation.stored_form["metadata"], "namespace": key.namespace}
    # These fields come first when the object is printed, wherever they are in the file.
    head: Body = {"apiVersion": raw.api_version, "kind": raw.kind, "metadata": metadata}
    accepted[identity] = _Accepted(
        raw, {**head, **validation.stored_form, "metadata": metadata}, key
    )


def _is_decodable(raw: RawObject, key: Key, manifests: Manifests) -> bool:
    """Return whether an object with faults is stored in a cluster and can be decoded.

    Such an object was stored before its definition became stricter, and controllers use it. A
    stored object that cannot be decoded is added to `manifests.unreadable`; the result is False.
    """
    metadata = raw.body["metadata"]
    if not is_stored(metadata):
        return False
    placed = {**metadata, "namespace": key.namespace}
    resource = OWN_KINDS[raw.kind]
    try:
        msgspec.convert({**raw.body, "metadata": placed}, resource.type)
    except msgspec.ValidationError as error:
        manifests.unreadable[raw.kind, key] = make_decode_failure(
            resource, raw.body, metadata=placed, error=error
        )
        manifests.unreadable_bodies[raw.kind, key] = {**raw.body, "metadata": placed}
        return False
    return True


def is_stored(metadata: Mapping[str, Any]) -> bool:
    """Return whether an object comes from a cluster, by its resourceVersion."""
    version = metadata.get("resourceVersion")
    return isinstance(version, str) and parse_revision(version) is not None


def _decode_accepted(
    accepted: Iterable[_Accepted], now: datetime, manifests: Manifests, findings: Findings
) -> None:
    """Decode accepted objects, with the fields that an API server sets, into `manifests`.

    An object that cannot be decoded becomes a finding, and is refused. An object without revision
    or creation time gets later ones than all other objects, in the order of the input.
    """
    objects = list(accepted)
    revision = max(
        (parse_revision(obj.get_metadata_text("resourceVersion")) or 0 for obj in objects),
        default=0,
    )
    # RFC 3339 allows `t` and `z` in a time; Python parses `T` and `Z`.
    stamps = [
        stamp.upper() for obj in objects if (stamp := obj.get_metadata_text("creationTimestamp"))
    ]
    moment = max([now, *map(datetime.fromisoformat, stamps)])
    known_uids = _find_tenant_uids(objects)
    for number, obj in enumerate(objects, 1):
        moment += timedelta(microseconds=1)
        identity = (obj.raw.kind, obj.key)
        filled: Body = {
            "generation": 1,
            "uid": known_uids.get(identity, f"{UNBORN}{number}"),
            "resourceVersion": str(revision + number),
            "creationTimestamp": moment.isoformat(),
        }
        # An empty text or 0 counts as absent.
        filled |= {
            name: value
            for name, value in obj.body["metadata"].items()
            if value or not isinstance(value, str | int)
        }
        resource = OWN_KINDS[obj.raw.kind]
        try:
            typed: Any = msgspec.convert(obj.body | {"metadata": filled}, resource.type)
        except msgspec.ValidationError as error:
            findings.add_error(obj.raw.place, obj.raw.build_sentence((), str(error)))
            manifests.refused.add(identity)
            if is_stored(obj.body["metadata"]):
                failure = make_decode_failure(resource, obj.body, metadata=filled, error=error)
                manifests.unreadable[identity] = failure
                manifests.unreadable_bodies[identity] = {**obj.body, "metadata": filled}
        else:
            manifest = ReadManifest(
                obj.raw, obj.body, metadata=filled, object=typed, number=number
            )
            manifests.get_list(obj.raw.kind).append(manifest)


def _find_tenant_uids(objects: Iterable[_Accepted]) -> dict[tuple[str, Key], str]:
    """Return the uids of TenantClusters that allocations in the input note, by kind and key.

    The manifest of a cluster in a repository has no uid. With the noted uid, allocations from a
    live cluster belong to it.
    """
    uids: dict[tuple[str, Key], str] = {}
    for obj in objects:
        noted_uid = obj.body["metadata"].get("annotations", {}).get(names.ANNOTATION_TENANT_UID)
        if obj.raw.kind == "IPAllocation" and noted_uid:
            reference = obj.body["spec"]["tenantClusterRef"]
            key = Key(reference["namespace"], reference["name"])
            uids.setdefault(("TenantCluster", key), noted_uid)
    return uids
