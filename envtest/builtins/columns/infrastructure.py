"""Columns of nodes and volumes."""

from typing import Any

from envtest.builtins.columns.cells import (
    AGE,
    NONE,
    TITLE,
    UNKNOWN,
    UNSET,
    Body,
    Cell,
    Entry,
    at,
    conditions,
    text,
    value,
    wide,
)

_ROLE = "node-role.kubernetes.io/"
_MODES = {
    "ReadWriteOnce": "RWO",
    "ReadOnlyMany": "ROX",
    "ReadWriteMany": "RWX",
    "ReadWriteOncePod": "RWOP",
}
_DEFAULT_CLASS = (
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
)


def _node_status(body: Body) -> str:
    ready = conditions(body).get("Ready")
    shown = {"True": "Ready", None: "Unknown"}.get(ready, "NotReady")
    return f"{shown},SchedulingDisabled" if value(body, "spec.unschedulable", False) else shown


def _roles(body: Body) -> str:
    found = set()
    for key, one in value(body, "metadata.labels", {}).items():
        if key.startswith(_ROLE) and key != _ROLE:
            found.add(key.removeprefix(_ROLE))
        elif key == "kubernetes.io/role" and one:
            found.add(one)
    return ",".join(sorted(found)) or NONE


def _address(kind: str) -> Cell:
    def read(body: Body) -> str:
        found = value(body, "status.addresses", ())
        return next((one["address"] for one in found if one["type"] == kind), NONE)

    return read


def _info(name: str, otherwise: str) -> Cell:
    return lambda body: value(body, f"status.nodeInfo.{name}") or otherwise


def _modes(path: str) -> Cell:
    def read(body: Body) -> str:
        given = set(value(body, path, ()))
        return ",".join(short for mode, short in _MODES.items() if mode in given)

    return read


def _terminating(path: str) -> Cell:
    def read(body: Body) -> str:
        gone = "deletionTimestamp" in body["metadata"]
        return "Terminating" if gone else str(value(body, path))

    return read


def _claim(body: Body) -> str:
    given: dict[str, Any] = value(body, "spec.claimRef", {})
    return f"{given.get('namespace', '')}/{given.get('name', '')}" if given else ""


def _class(body: Body) -> str:
    annotated = value(body, "metadata.annotations", {})
    return str(
        annotated.get("volume.beta.kubernetes.io/storage-class")
        or value(body, "spec.storageClassName")
    )


def _bound(path: str) -> Cell:
    """Return a cell of a claim that has something to show only when it has a volume."""
    return lambda body: value(body, path) if value(body, "spec.volumeName") else ""


def _class_name(body: Body) -> str:
    annotated = value(body, "metadata.annotations", {})
    is_default = any(annotated.get(name) == "true" for name in _DEFAULT_CLASS)
    return f"{body['metadata'].get('name', '')}{' (default)' * is_default}"


def _expansion(body: Body) -> str:
    return "true" if value(body, "allowVolumeExpansion", False) else "false"


INFRASTRUCTURE: dict[str, list[Entry]] = {
    "Node": [
        TITLE,
        text("Status", "The status of the node", _node_status),
        text("Roles", "The roles of the node", _roles),
        AGE,
        text("Version", "Of its kubelet", at("status.nodeInfo.kubeletVersion")),
        wide("Internal-IP", "Its address inside", _address("InternalIP")),
        wide("External-IP", "Its address from outside", _address("ExternalIP")),
        wide("OS-Image", "Its operating system", _info("osImage", UNKNOWN)),
        wide("Kernel-Version", "Its kernel", _info("kernelVersion", UNKNOWN)),
        wide("Container-Runtime", "What runs its pods", _info("containerRuntimeVersion", UNKNOWN)),
    ],
    "PersistentVolume": [
        TITLE,
        text("Capacity", "How much it holds", at("spec.capacity.storage")),
        text("Access Modes", "How it can be mounted", _modes("spec.accessModes")),
        text(
            "Reclaim Policy",
            "What becomes of it when it is let go",
            at("spec.persistentVolumeReclaimPolicy"),
        ),
        text("Status", "Its phase", _terminating("status.phase")),
        text("Claim", "Who has it", _claim),
        text("StorageClass", "StorageClass of the pv", _class),
        text(
            "VolumeAttributesClass",
            "VolumeAttributesClass of the pv",
            at("spec.volumeAttributesClassName", UNSET),
        ),
        text("Reason", "Why it is in its phase", at("status.reason")),
        AGE,
        wide("VolumeMode", "Files or blocks", at("spec.volumeMode", UNSET)),
    ],
    "PersistentVolumeClaim": [
        TITLE,
        text("Status", "Its phase", _terminating("status.phase")),
        text("Volume", "What it got", at("spec.volumeName")),
        text("Capacity", "How much that holds", _bound("status.capacity.storage")),
        text(
            "Access Modes",
            "How that can be mounted",
            lambda body: (
                _modes("status.accessModes")(body) if value(body, "spec.volumeName") else ""
            ),
        ),
        text("StorageClass", "StorageClass of the pvc", _class),
        text(
            "VolumeAttributesClass",
            "VolumeAttributesClass of the pvc",
            at("spec.volumeAttributesClassName", UNSET),
        ),
        AGE,
        wide("VolumeMode", "Files or blocks", at("spec.volumeMode", UNSET)),
    ],
    "StorageClass": [
        (TITLE[0], _class_name),
        text("Provisioner", "Who makes its volumes", at("provisioner")),
        text("ReclaimPolicy", "What becomes of them", at("reclaimPolicy", "Delete")),
        text("VolumeBindingMode", "When they are made", at("volumeBindingMode", "Immediate")),
        text("AllowVolumeExpansion", "Whether they can grow", _expansion),
        AGE,
    ],
}
