"""Who owns the number of replicas when it is changed through the scale subresource."""

from typing import Any

import pytest

from envtest.patching import (
    SCALE_VERSION,
    ApplyConflict,
    FieldModel,
    apply,
    from_scale,
    merge_patch,
    scale_model,
    to_scale,
    track_update,
)

PATHS = {"apps/v1": ".spec.replicas"}
NOW = "2026-01-01T00:00:00Z"


class Deployment:
    """A deployment that is scaled the way an API server does it."""

    def __init__(self) -> None:
        self.obj: dict[str, Any] = {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": "d", "uid": "u"},
            "spec": {"replicas": 1, "paused": True},
        }
        model = FieldModel.builtin("apps", "Deployment")
        track_update(None, self.obj, manager="maker", fields=model, api_version="apps/v1", now=NOW)

    def _scale(self) -> dict[str, Any]:
        entries = to_scale(self.obj["metadata"]["managedFields"], PATHS)
        return {
            "apiVersion": SCALE_VERSION,
            "kind": "Scale",
            "metadata": {"name": "d", "uid": "u", "managedFields": entries},
            "spec": {"replicas": self.obj["spec"]["replicas"]},
            "status": {"replicas": 0},
        }

    def _take(self, scale: dict[str, Any]) -> None:
        self.obj["spec"]["replicas"] = scale["spec"]["replicas"]
        self.obj["metadata"]["managedFields"] = from_scale(
            self.obj["metadata"]["managedFields"],
            scale["metadata"].get("managedFields", []),
            "apps/v1",
            PATHS,
        )

    def patch(self, replicas: int, manager: str) -> None:
        live = self._scale()
        new = merge_patch(live, {"spec": {"replicas": replicas}})
        track_update(
            live,
            new,
            manager=manager,
            fields=scale_model(),
            api_version=SCALE_VERSION,
            subresource="scale",
            now=NOW,
        )
        self._take(new)

    def apply(self, replicas: int, manager: str, *, force: bool = False) -> None:
        body = {
            "apiVersion": SCALE_VERSION,
            "kind": "Scale",
            "metadata": {"name": "d"},
            "spec": {"replicas": replicas},
        }
        self._take(
            apply(
                self._scale(),
                body,
                manager=manager,
                force=force,
                fields=scale_model(),
                subresource="scale",
                now=NOW,
            )
        )

    def owners(self) -> list[tuple[str, str, str, bool, bool]]:
        """Name, operation, subresource, has a time, owns replicas."""
        return [
            (
                entry["manager"],
                entry["operation"],
                entry.get("subresource", ""),
                "time" in entry,
                "f:replicas" in entry["fieldsV1"]["f:spec"],
            )
            for entry in self.obj["metadata"]["managedFields"]
        ]


MAKER = ("maker", "Update", "", True, False)


def test_whoever_scales_takes_the_replicas_over_and_bears_no_time() -> None:
    deployment = Deployment()
    deployment.patch(2, "u1")
    assert deployment.owners() == [("u1", "Update", "scale", False, True), MAKER]
    deployment.patch(2, "u2")
    assert deployment.owners() == [("u1", "Update", "scale", False, True), MAKER]
    deployment.patch(3, "u2")
    assert deployment.owners() == [("u2", "Update", "scale", False, True), MAKER]
    assert {e["apiVersion"] for e in deployment.obj["metadata"]["managedFields"]} == {"apps/v1"}


def test_applying_a_scale_conflicts_with_its_owner_until_forced() -> None:
    deployment = Deployment()
    deployment.patch(3, "u2")
    with pytest.raises(ApplyConflict) as refused:
        deployment.apply(5, "a1")
    assert refused.value.message == (
        "Apply failed with 1 conflict: "
        'conflict with "u2" with subresource "scale" using autoscaling/v1: .spec.replicas'
    )
    deployment.apply(5, "a1", force=True)
    assert deployment.owners() == [("a1", "Apply", "scale", False, True), MAKER]
    assert deployment.obj["spec"]["replicas"] == 5


def test_entries_of_versions_without_a_scale_are_dropped() -> None:
    deployment = Deployment()
    parent = deployment.obj["metadata"]["managedFields"]
    assert to_scale(parent, {"apps/v2": ".spec.replicas"}) == []
    assert from_scale(parent, [], "apps/v2", {"apps/v2": ".spec.replicas"}) == []
