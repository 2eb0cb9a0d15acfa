"""Parses a bundle of manifests: the text in a ConfigMap becomes objects in the order of applying.

The bundle comes from the platform's operators, but it is applied with full rights in a tenant. So
its size is limited, and a bundle with any fault is refused with a sentence before any of it is
sent.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

import yaml
from typing_extensions import override

from controller.meta import Key
from controller.yamlerrors import YAML_ERRORS
from reconcilers.api import names

MAX_BYTES = 1024 * 1024
MAX_OBJECTS = 200
MAX_DEPTH = 64

_PREREQUISITE_KINDS = ("Namespace", "CustomResourceDefinition")
_OUR_OBJECTS = {
    ("IPAddressPool", names.METALLB_POOL),
    ("L2Advertisement", names.METALLB_ADVERTISEMENT),
}


class InvalidBundle(Exception):
    """The bundle cannot be applied; the message says where it is wrong and how to correct it."""


@dataclass(frozen=True, slots=True)
class BundledManifest:
    """One object of a bundle.

    Args:
        api_version: for example `apps/v1`.
        kind: for example `Deployment`.
        key: its name, and its namespace if it says one.
        body: all of it.
    """

    api_version: str
    kind: str
    key: Key
    body: Mapping[str, Any]

    @property
    def is_prerequisite(self) -> bool:
        """Whether it comes before the others: a namespace, or the definition of a kind."""
        return self.kind in _PREREQUISITE_KINDS

    @override
    def __str__(self) -> str:
        """Return `Kind namespace/name`."""
        return f"{self.kind} {self.key}"


@dataclass(frozen=True, slots=True)
class Bundle:
    """A valid bundle.

    Args:
        digest: the digest of the text, to distinguish bundles.
        manifests: in the order of applying: namespaces, definitions, then the rest as written.
    """

    digest: str
    manifests: tuple[BundledManifest, ...]


class _Loader(yaml.SafeLoader):
    """YAML as Kubernetes reads it: a value that looks like a time is text."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if not tag.endswith(":timestamp")]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def parse_bundle(data: Mapping[str, str]) -> Bundle:
    """Return the bundle in the entries of a ConfigMap, read in the order of their names.

    Entries without text are left out.

    Raises:
        InvalidBundle: the entries are no valid bundle.
    """
    texts = [(name, yaml_text) for name, yaml_text in sorted(data.items()) if yaml_text.strip()]
    if not texts:
        raise InvalidBundle("it is empty; put MetalLB's manifests into an entry of it")
    if sum(len(yaml_text.encode()) for _, yaml_text in texts) > MAX_BYTES:
        raise InvalidBundle(f"it has more than {MAX_BYTES} bytes")
    objects = [manifest for name, yaml_text in texts for manifest in _parse_entry(name, yaml_text)]
    if not objects:
        raise InvalidBundle("it has no objects; put MetalLB's manifests into an entry of it")
    if len(objects) > MAX_OBJECTS:
        raise InvalidBundle(f"it has {len(objects)} objects, more than {MAX_OBJECTS}")
    digest = sha256("\0".join(part for pair in texts for part in pair).encode()).hexdigest()
    # The sort is stable: otherwise the objects stay in the order in which they are written.
    ordered = sorted(
        objects,
        key=lambda manifest: (
            _PREREQUISITE_KINDS.index(manifest.kind)
            if manifest.is_prerequisite
            else len(_PREREQUISITE_KINDS)
        ),
    )
    # A condition names the digest: 16 digits are short, and enough to distinguish bundles.
    return Bundle(digest[:16], tuple(ordered))


def _parse_entry(entry: str, yaml_text: str) -> Iterator[BundledManifest]:
    """Yield the manifests in one entry of the ConfigMap; empty documents are left out.

    Raises:
        InvalidBundle: the text is not YAML, or a document is no object that may be applied.
    """
    try:
        # First, because loading would expand aliases, and recurse deeply.
        _refuse_aliases_and_depth(entry, yaml_text)
        documents = list(yaml.load_all(yaml_text, Loader=_Loader))
    except YAML_ERRORS as error:
        mark = getattr(error, "problem_mark", None)
        line = f", line {mark.line + 1}" if mark is not None else ""
        raise InvalidBundle(f"entry {entry!r}{line}: this is not YAML") from error
    for number, document in enumerate(documents, 1):
        if document is not None:
            yield _parse_document(f"entry {entry!r}, document {number}", document)


def _refuse_aliases_and_depth(entry: str, yaml_text: str) -> None:
    """Raise InvalidBundle for a text that may need unlimited memory when it is loaded.

    A few aliases of aliases expand to gigabytes.
    """
    depth = 0
    for event in yaml.parse(yaml_text, Loader=_Loader):
        if isinstance(event, yaml.AliasEvent):
            raise InvalidBundle(f"entry {entry!r}: YAML aliases are not accepted; write it out")
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if depth > MAX_DEPTH:
            raise InvalidBundle(f"entry {entry!r} is nested more than {MAX_DEPTH} deep")


def _parse_document(where: str, document: object) -> BundledManifest:
    """Return the manifest in one document; raise InvalidBundle if it cannot be applied.

    Args:
        where: entry and number of the document, for the message.
    """
    if not isinstance(document, dict):
        raise InvalidBundle(f"{where}: this is not an object; an object has apiVersion and kind")
    meta = document.get("metadata")
    metadata = meta if isinstance(meta, dict) else {}
    texts = {
        "apiVersion": document.get("apiVersion"),
        "kind": document.get("kind"),
        "metadata.name": metadata.get("name"),
        "metadata.namespace": metadata.get("namespace", ""),
    }
    # Only the namespace may be empty: a cluster-scoped object has none, others get MetalLB's.
    for field, value in texts.items():
        if not isinstance(value, str) or (not value and field != "metadata.namespace"):
            raise InvalidBundle(f"{where}: {field} is missing, or is not a string; write a string")
    kind, key = texts["kind"], Key(texts["metadata.namespace"], texts["metadata.name"])
    if (kind, key.name) in _OUR_OBJECTS:
        raise InvalidBundle(f"{where}: {kind} {key.name} is made by this controller; leave it out")
    # Generators write a status and `creationTimestamp: null`, which the API server sets itself.
    body = {name: value for name, value in document.items() if name != "status"}
    body["metadata"] = {
        name: value for name, value in metadata.items() if name != "creationTimestamp"
    }
    return BundledManifest(texts["apiVersion"], kind, key=key, body=body)
