"""Columns of drivers, what they offer, and the devices and volumes that are claimed from them."""

from typing import Any

from envtest.builtins.columns.cells import (
    AGE,
    NONE,
    TITLE,
    UNSET,
    Body,
    Entry,
    at,
    count,
    number,
    text,
    truth,
    value,
)
from envtest.server.rules import Column


def _modes(body: Body) -> str:
    return ",".join(value(body, "spec.volumeLifecycleModes", ())) or NONE


def _audiences(body: Body) -> str:
    given = value(body, "spec.tokenRequests", None)
    return UNSET if given is None else ",".join(one.get("audience", "") for one in given)


def _claim_state(body: Body) -> str:
    states = []
    leaving = "deletionTimestamp" in body["metadata"]
    if leaving:
        states.append("deleted")
    if value(body, "status.allocation", None) is None:
        states += [] if leaving else ["pending"]
    else:
        states.append("allocated")
        if value(body, "status.reservedFor", ()):
            states.append("reserved")
    return ",".join(states)


def _capacity(body: Body) -> str:
    found: Any = value(body, "capacity", UNSET)
    return str(found)


STORAGE: dict[str, list[Entry]] = {
    "CSIDriver": [
        TITLE,
        truth("AttachRequired", "Whether volumes are attached", at("spec.attachRequired", True)),
        truth("PodInfoOnMount", "Whether it is told of pods", at("spec.podInfoOnMount", False)),
        truth("StorageCapacity", "Whether it tells its room", at("spec.storageCapacity", False)),
        text("TokenRequests", "Audiences of tokens that it gets", _audiences),
        truth(
            "RequiresRepublish",
            "Whether volumes are published again and again",
            at("spec.requiresRepublish", False),
        ),
        text("Modes", "What kinds of volumes it has", _modes),
        AGE,
    ],
    "CSINode": [
        TITLE,
        number(
            "Drivers",
            "Drivers indicates the number of CSI drivers registered on the node",
            count("spec.drivers"),
        ),
        AGE,
    ],
    "CSIStorageCapacity": [
        TITLE,
        text("StorageClassName", "For which class", at("storageClassName")),
        text("Capacity", "How much is there", _capacity),
    ],
    "VolumeAttachment": [
        TITLE,
        (Column("Attacher", "string", "Who attaches", "name"), at("spec.attacher")),
        text("PV", "Which volume", at("spec.source.persistentVolumeName")),
        text("Node", "To which node", at("spec.nodeName")),
        truth("Attached", "Whether it is done", at("status.attached", False)),
        AGE,
    ],
    "VolumeAttributesClass": [
        TITLE,
        text("DriverName", "Which driver it is for", at("driverName")),
        AGE,
    ],
    "DeviceClass": [TITLE, AGE],
    "ResourceClaim": [
        TITLE,
        text(
            "State",
            "A summary of the current state (allocated, pending, reserved, etc.).",
            _claim_state,
        ),
        AGE,
    ],
    "ResourceClaimTemplate": [TITLE, AGE],
    "ResourceSlice": [
        TITLE,
        text("Node", "Where the devices are", at("spec.nodeName", UNSET)),
        text("Driver", "Whose they are", at("spec.driver")),
        text("Pool", "Which pool they are part of", at("spec.pool.name")),
        AGE,
    ],
}
