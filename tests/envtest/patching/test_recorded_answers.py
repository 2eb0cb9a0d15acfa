"""Recorded requests, answered by the functions under test without any HTTP in between."""

from typing import Any

import pytest

from controller.managedfields import PatchError, track_update
from envtest.patching.builtinmodels import load_builtin_model
from tests.envtest.patching import recorded
from tests.envtest.patching.recorded import RECORDER, WIDGETS, Step
from tests.envtest.patching.shelf import APPLY_PATCH, Shelf

API_VERSION = "lab.example.com/v1"
# Steps that a JSON patch refuses with a message that does not say so.
JSON_PATCH_REFUSALS = {"json-patch-test-fails", "json-patch-bad-path"}
# The beginnings of messages with which patching and field ownership refuse a write.
REFUSAL_BEGINNINGS = (
    "Apply failed",
    "failed to create typed",
    "invalid object type",
    "metadata.managed",
)


def _is_answered_by_patching(step: Step) -> bool:
    """Return whether a step succeeded, or was refused by patching or by field ownership.

    Other parts of a server refuse the other steps: for names, versions, validation, preconditions
    and media types.
    """
    if step.status < 400 or step.id in JSON_PATCH_REFUSALS:
        return True
    return str((step.answer or {}).get("message", "")).startswith(REFUSAL_BEGINNINGS)


def _is_playable(step: Step) -> bool:
    """Return whether a step writes a widget and needs no more of a server than the shelf has."""
    return (
        step.path.startswith(WIDGETS)
        and step.method in {"POST", "PUT", "PATCH"}
        and isinstance(step.body, dict | list)
        and "dryRun" not in step.query
        and "generateName" not in str(step.body)
        and _is_answered_by_patching(step)
    )


def _copy_deletion_finalizers(shelf: Shelf, step: Step) -> None:
    """Give an object the finalizers that a recorded deletion put on it; no manager owns them.

    Does nothing for a step that is no deletion.
    """
    if step.method == "DELETE" and isinstance(step.answer, dict) and "metadata" in step.answer:
        finalizers = step.answer["metadata"].get("finalizers")
        if finalizers:
            shelf.objects[step.answer["metadata"]["name"]]["metadata"]["finalizers"] = finalizers


def _play(shelf: Shelf, step: Step) -> dict[str, Any]:
    """Carry out the request of a step on the shelf; return the answer's object."""
    name, _, subresource = step.path.removeprefix(WIDGETS).strip("/").partition("/")
    if step.method == "POST":
        step.body["metadata"].setdefault("namespace", "lab")
        step.body["metadata"].pop("deletionTimestamp", None)
        return shelf.create(step.body, step.manager)
    if step.method == "PUT":
        body = {**shelf.objects[name], **step.body}
        body["metadata"] = {
            **{k: v for k, v in shelf.objects[name]["metadata"].items() if k != "labels"},
            **{k: v for k, v in step.body["metadata"].items() if "${" not in str(v)},
        }
        return shelf.replace(name, body, manager=step.manager, subresource=subresource)
    if step.content_type == APPLY_PATCH:
        if name not in shelf.objects:
            step.body["metadata"].setdefault("namespace", "lab")
        return shelf.apply(
            name, step.body, step.manager, force=step.force, subresource=subresource
        )
    body = step.body
    if isinstance(body, dict) and "metadata" in body:
        body["metadata"].pop("resourceVersion", None)
        body["metadata"].pop("deletionTimestamp", None)
    return shelf.patch(
        name, step.content_type, patch=body, manager=step.manager, subresource=subresource
    )


@pytest.mark.parametrize(
    ("scenario", "compared_count"),
    [
        ("server-side-apply", 16),
        ("crud", 7),
        ("status-subresource", 5),
        ("finalizers", 9),
        ("concurrency", 4),
    ],
)
def test_every_recorded_write_leaves_the_object_and_its_owners_as_recorded(
    scenario: str, compared_count: int
) -> None:
    shelf = Shelf(recorded.read_widget_schema(), API_VERSION, "Widget")
    differing = {}
    count = 0
    for step in recorded.read_steps(scenario):
        _copy_deletion_finalizers(shelf, step)
        if not _is_playable(step):
            continue
        try:
            answer = _play(shelf, step)
        except PatchError as error:
            answer = {
                "kind": "Status",
                "apiVersion": "v1",
                "metadata": {},
                "status": "Failure",
                "message": error.message,
                "code": error.status,
            }
            answer |= {"reason": error.reason} if error.reason else {}
            answer |= {"details": error.details} if error.details is not None else {}
        if step.answer is None:
            continue  # set-up of which only the code was recorded
        count += 1
        if recorded.mask_object(answer) != recorded.mask_object(step.answer):
            differing[step.id] = (recorded.mask_object(answer), recorded.mask_object(step.answer))
    assert differing == {}
    assert count == compared_count


ALLOCATED = ("clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy")


@pytest.mark.parametrize(
    ("step_id", "kind"),
    [
        ("secret", "Secret"),
        ("configmap", "ConfigMap"),
        ("service", "Service"),
        ("lease", "Lease"),
        ("event-v1", "Event"),
        ("event-core", "Event"),
        ("namespace", "Namespace"),
    ],
)
def test_a_created_builtin_object_is_owned_as_recorded(step_id: str, kind: str) -> None:
    (step,) = (s for s in recorded.read_steps("core-resources") if s.id == step_id)
    stored = step.answer
    entries = recorded.mask_object(stored)["metadata"]["managedFields"]
    del stored["metadata"]["managedFields"]
    if kind == "Service":  # these come from the allocators, after ownership is settled
        for name in ALLOCATED:
            if name not in step.body["spec"]:
                del stored["spec"][name]
        del stored["spec"]["ports"][0]["nodePort"]
    if kind == "Namespace":
        stored |= {"spec": {}, "status": {}}
    group, _, version = stored["apiVersion"].rpartition("/")
    track_update(
        None,
        stored,
        manager=RECORDER,
        fields=load_builtin_model(group, version, kind),
        api_version=stored["apiVersion"],
        now="2026-01-01T00:00:00Z",
    )
    assert recorded.mask_object(stored)["metadata"]["managedFields"] == entries
