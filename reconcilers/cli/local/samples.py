"""The samples that are shipped with us, as `up` loads them."""

import json
from collections.abc import Iterator

import yaml

from controller.meta import Key
from manifests import folder
from reconcilers.cli.local.objects import Manifest

LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


def samples() -> list[Manifest]:
    """Return the shipped samples, in the order of their files.

    Raises:
        FileNotFoundError: this installation has none.
    """
    return list(_documents())


def _documents() -> Iterator[Manifest]:
    for file in sorted(folder("samples").iterdir(), key=lambda one: one.name):
        if file.name.endswith(".yaml"):
            for document in yaml.safe_load_all(file.read_text(encoding="utf-8")):
                if document:
                    yield document


def as_kubectl_applies(document: Manifest) -> Manifest:
    """Return `document` with the note that `kubectl apply` leaves, so that it can take over."""
    meta = {"annotations": {}, **document["metadata"]}
    text = json.dumps({**document, "metadata": meta}, sort_keys=True, separators=(",", ":"))
    noted = {**meta["annotations"], LAST_APPLIED: f"{text}\n"}
    return {**document, "metadata": {**meta, "annotations": noted}}


def first_cluster(documents: list[Manifest]) -> Key | None:
    """Return the first TenantCluster among `documents`."""
    for document in documents:
        if document["kind"] == "TenantCluster":
            meta = document["metadata"]
            return Key(meta.get("namespace", "default"), meta["name"])
    return None


def namespaces(documents: list[Manifest]) -> list[str]:
    """Return the namespaces that `documents` live in, each once."""
    found = (document["metadata"].get("namespace") for document in documents)
    return list(dict.fromkeys(name for name in found if name))
