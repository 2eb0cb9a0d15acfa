"""The annotation in which kubectl kept what it applied, before servers could apply.

Only the manager named `kubectl` is treated so: its conflicts with fields that the annotation
shows it to have set are none, and the annotation is kept up to date for the way back.
"""

import json
from typing import Any

from envtest.patching import fieldset
from envtest.patching.checking import check
from envtest.patching.compare import claimed
from envtest.patching.errors import ModelError
from envtest.patching.fieldset import Fields
from envtest.patching.tracking import Write
from envtest.schema import gotext

ANNOTATION = "kubectl.kubernetes.io/last-applied-configuration"
KUBECTL = "kubectl"
_MAX_ANNOTATIONS = 256 * 1024  # bytes, all keys and values together


def _annotations(obj: dict[str, Any]) -> dict[str, Any]:
    """Return the annotations of an object."""
    metadata = obj.get("metadata")
    found = metadata.get("annotations") if isinstance(metadata, dict) else None
    return found if isinstance(found, dict) else {}


def owned(write: Write, live: dict[str, Any]) -> Fields | None:
    """Return the fields that still are as the annotation has them, None without a usable one."""
    root = write.model.root
    try:
        last = json.loads(_annotations(live).get(ANNOTATION) or "null")
        if not isinstance(last, dict) or last.get("apiVersion") != write.api_version:
            return None
        check(root, live)
        check(root, last)
    except (ValueError, ModelError):
        return None
    change = write.compare(last, live)
    fields = fieldset.difference(claimed(root, last), change.written())
    return fieldset.difference(fields, change.removed)


def renewed(obj: dict[str, Any], applied: dict[str, Any], manager: str) -> dict[str, Any]:
    """Return the object with the annotation, if it has one, saying what is applied now."""
    present = _annotations(obj)
    if manager != KUBECTL or not present.get(ANNOTATION):
        return obj
    metadata = dict(applied.get("metadata") or {})
    if "annotations" in metadata:
        own = _annotations(applied)
        metadata["annotations"] = {k: v for k, v in own.items() if k != ANNOTATION}
    text = gotext.json_text({**applied, "metadata": metadata}) + "\n"
    annotations = {**present, ANNOTATION: text}
    if sum(len(k.encode()) + len(v.encode()) for k, v in annotations.items()) > _MAX_ANNOTATIONS:
        del annotations[ANNOTATION]
    return {**obj, "metadata": {**obj["metadata"], "annotations": annotations}}
