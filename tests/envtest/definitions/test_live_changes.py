"""Definitions that change, compete and end while there are objects of their kind."""

import copy
from typing import Any

import httpx
import pytest

from envtest.plane import RunningControlPlane as Plane
from envtest.settings import read_settings
from tests.envtest.definitions.gears import (
    DEFINITION,
    DEFINITIONS,
    GROUP,
    V1,
    V2,
    build_gear,
    build_gear_definition,
)
from tests.polling import until

MERGE = {"Content-Type": "application/merge-patch+json"}


def _get_spec_schema(definition: dict[str, Any], version: int = 0) -> dict[str, Any]:
    schema = definition["spec"]["versions"][version]["schema"]["openAPIV3Schema"]
    spec: dict[str, Any] = schema["properties"]["spec"]
    return spec


def _read_warning(answer: httpx.Response) -> str:
    return str(answer.headers.get("Warning", ""))


async def test_a_stored_value_that_a_new_schema_refuses_may_stay_and_no_object_may_get_one(
    http: httpx.AsyncClient, plane: Plane
) -> None:
    await plane.install_crds([build_gear_definition()])
    await http.post(V1, json=build_gear("a", maker="acme"))
    stricter = build_gear_definition()
    _get_spec_schema(stricter)["properties"]["maker"] = {"type": "string", "enum": ["other"]}
    await plane.install_crds([stricter])

    kept = await http.patch(f"{V1}/a", json={"spec": {"size": "4mm"}}, headers=MERGE)
    moved = await http.patch(f"{V1}/a", json={"spec": {"maker": "third"}}, headers=MERGE)
    response = await http.post(V1, json=build_gear("b", maker="acme"))

    assert (kept.status_code, kept.json()["spec"]["size"]) == (200, "4mm")
    assert (moved.status_code, response.status_code) == (422, 422)


async def test_a_rule_that_an_unchanged_value_breaks_is_a_warning(
    http: httpx.AsyncClient, plane: Plane
) -> None:
    await plane.install_crds([build_gear_definition()])
    await http.post(V1, json=build_gear("a", maker="acme"))
    stricter = build_gear_definition()
    rule = {"rule": "self.size() < 3", "message": "too long a name"}
    _get_spec_schema(stricter)["properties"]["maker"]["x-kubernetes-validations"] = [rule]
    await plane.install_crds([stricter])

    kept = await http.patch(f"{V1}/a", json={"spec": {"size": "4mm"}}, headers=MERGE)
    moved = await http.patch(f"{V1}/a", json={"spec": {"maker": "third"}}, headers=MERGE)

    assert kept.status_code == 200
    assert "spec.maker: Invalid value:" in _read_warning(kept)
    assert "too long a name" in _read_warning(kept)
    assert moved.status_code == 422


async def test_a_new_default_shows_in_old_objects_and_a_lost_field_does_not(
    http: httpx.AsyncClient, plane: Plane
) -> None:
    await plane.install_crds([build_gear_definition()])
    await http.post(V1, json=build_gear("a", maker="acme"))
    changed = build_gear_definition()
    spec = _get_spec_schema(changed)
    spec["properties"] = {"size": {"type": "string"}, "teeth": {"type": "integer", "default": 12}}
    del changed["spec"]["versions"][0]["selectableFields"]
    await plane.install_crds([changed])

    assert (await http.get(f"{V1}/a")).json()["spec"] == {"size": "3mm", "teeth": 12}


async def test_a_version_that_may_still_be_stored_cannot_be_removed(
    http: httpx.AsyncClient, plane: Plane
) -> None:
    await plane.install_crds([build_gear_definition()])
    await plane.install_crds([build_gear_definition(storage="v2")])
    current = (await http.get(DEFINITION)).json()
    assert current["status"]["storedVersions"] == ["v1", "v2"]
    without = copy.deepcopy(current)
    del without["spec"]["versions"][0]

    refused = await http.put(DEFINITION, json=without)

    assert refused.status_code == 422
    assert refused.json()["details"]["causes"][0]["field"] == "status.storedVersions[0]"
    status = {"status": {"storedVersions": ["v2"]}}
    migrated = await http.patch(f"{DEFINITION}/status", json=status, headers=MERGE)
    assert migrated.status_code == 200, migrated.text
    without["metadata"] = migrated.json()["metadata"]
    without["status"] = migrated.json()["status"]
    accepted = await http.put(DEFINITION, json=without)
    assert accepted.status_code == 200, accepted.text
    assert await _wait_for_status_code(http, V1, 404) == 404


async def test_a_version_that_is_no_longer_served_answers_404(
    http: httpx.AsyncClient, plane: Plane
) -> None:
    await plane.install_crds([build_gear_definition()])
    await http.post(V1, json=build_gear("a"))
    hidden = build_gear_definition()
    hidden["spec"]["versions"][0]["served"] = False
    await plane.install_crds([hidden])

    assert await _wait_for_status_code(http, V1, 404) == 404
    assert await _wait_for_status_code(http, f"/apis/{GROUP}/v1", 404) == 404
    assert await _wait_for_status_code(http, f"{V2}/a", 200) == 200
    assert (await http.get(f"{V2}/a")).json()["apiVersion"] == f"{GROUP}/v2"


async def test_a_deprecated_version_warns_with_its_own_words_or_the_usual_ones(
    http: httpx.AsyncClient, plane: Plane
) -> None:
    old = build_gear_definition()
    old["spec"]["versions"][0] |= {"deprecated": True, "deprecationWarning": "use v2 of gears"}
    await plane.install_crds([old])
    assert _read_warning(await http.get(V1)) == '299 - "use v2 of gears"'
    del old["spec"]["versions"][0]["deprecationWarning"]
    await plane.install_crds([old])
    assert _read_warning(await http.get(V1)) == (
        f'299 - "{GROUP}/v1 Gear is deprecated; use {GROUP}/v2 Gear"'
    )
    assert _read_warning(await http.get(V2)) == ""


def _build_wheel_definition(plural: str = "wheels", **names: Any) -> dict[str, Any]:
    """Return a definition of wheels in the group of the gears; `names` are added to its names."""
    other = build_gear_definition()
    other["metadata"]["name"] = f"{plural}.{GROUP}"
    other["spec"]["names"] = {"plural": plural, "kind": "Wheel", **names}
    return other


async def _wait_for_status_code(http: httpx.AsyncClient, path: str, expected: int) -> int:
    """Wait until a GET is answered with the status code `expected`; return that code.

    On a real server a controller writes conditions, and serves or ends a kind, a little later.
    """

    async def look() -> int:
        return (await http.get(path)).status_code

    return await until(look, lambda code: code == expected)


async def _wait_for_established_status(
    http: httpx.AsyncClient, name: str, expected: str
) -> dict[str, tuple[str, str, str]]:
    """Wait until the condition Established has the status `expected`; return all conditions.

    The reason Installing does not count: the server gives a new definition that reason for a few
    seconds, before it serves the kind.
    """

    def has_expected_status(conditions_by_type: dict[str, tuple[str, str, str]]) -> bool:
        status, reason, _ = conditions_by_type.get("Established", ("", "", ""))
        return status == expected and reason != "Installing"

    return await until(lambda: _read_conditions(http, name), has_expected_status)


async def _read_conditions(
    http: httpx.AsyncClient, name: str, group: str = GROUP
) -> dict[str, tuple[str, str, str]]:
    """Return status, reason and message of a definition's conditions, by type."""
    status = (await http.get(f"{DEFINITIONS}/{name}.{group}")).json().get("status", {})
    return {
        condition["type"]: (condition["status"], condition["reason"], condition["message"])
        for condition in status.get("conditions") or ()
    }


async def test_a_definition_is_established_once_its_names_are_free(
    http: httpx.AsyncClient, plane: Plane
) -> None:
    await plane.install_crds([build_gear_definition()])
    response = await http.post(
        DEFINITIONS, json=_build_wheel_definition(kind="Gear", shortNames=["gear"])
    )
    assert response.status_code == 201, response.text

    assert await _wait_for_established_status(http, "wheels", "False") == {
        "NamesAccepted": ("False", "ListKindConflict", '"GearList" is already in use'),
        "Established": ("False", "NotAccepted", "not all names are accepted"),
    }
    assert (await http.get(f"/apis/{GROUP}/v1/wheels")).status_code == 404

    await http.delete(DEFINITION)

    established_at = await _wait_for_established_status(http, "wheels", "True")
    assert {kind: status for kind, (status, _, _) in established_at.items()} == {
        "NamesAccepted": "True",
        "Established": "True",
    }
    assert await _wait_for_status_code(http, f"/apis/{GROUP}/v1/wheels", 200) == 200


async def test_a_served_kind_keeps_its_names_when_it_asks_for_taken_ones(
    http: httpx.AsyncClient, plane: Plane
) -> None:
    await plane.install_crds([build_gear_definition(), _build_wheel_definition(shortNames=["wh"])])
    path = f"{DEFINITIONS}/wheels.{GROUP}"
    change = {"spec": {"names": {"shortNames": ["gear", "wh"]}}}
    assert (await http.patch(path, json=change, headers=MERGE)).status_code == 200

    served_names = await until(
        lambda: _read_conditions(http, "wheels"),
        lambda conditions: conditions["NamesAccepted"][0] == "False",
    )
    assert served_names["NamesAccepted"] == (
        "False",
        "ShortNamesConflict",
        '"gear" is already in use',
    )
    assert served_names["Established"][0] == "True"
    listed = (await http.get(f"/apis/{GROUP}/v1")).json()["resources"]
    names = {resource["name"]: resource.get("shortNames") for resource in listed}
    assert names["wheels"] == ["wh"]


async def test_a_definition_waits_for_objects_that_wait_for_their_finalizers(
    http: httpx.AsyncClient, plane: Plane
) -> None:
    await plane.install_crds([build_gear_definition()])
    held_gear = build_gear("held")
    held_gear["metadata"]["finalizers"] = ["example.com/wait"]
    await http.post(V1, json=held_gear)
    await http.post(V1, json=build_gear("free"))

    await http.delete(DEFINITION)

    async def items() -> list[dict[str, Any]]:
        listed: list[dict[str, Any]] = (await http.get(V1)).json()["items"]
        return listed

    remaining = await until(items, lambda items: len(items) == 1)
    assert [gear_left["metadata"]["name"] for gear_left in remaining] == ["held"]
    assert remaining[0]["metadata"]["deletionTimestamp"]
    conditions = await _read_conditions(http, "gears")
    assert conditions["Terminating"][:2] == ("True", "InstanceDeletionInProgress")
    refused = await http.post(V1, json=build_gear("late"))
    assert (refused.status_code, refused.json()["message"]) == (
        403,
        (
            f'gears.{GROUP} "late" is forbidden: create not allowed while custom resource'
            " definition is terminating"
        ),
    )
    await http.patch(f"{V1}/held", json={"metadata": {"finalizers": None}}, headers=MERGE)
    assert await _wait_for_status_code(http, DEFINITION, 404) == 404
    assert await _wait_for_status_code(http, V1, 404) == 404


async def test_a_definition_in_a_group_of_kubernetes_says_who_approved_it(
    http: httpx.AsyncClient,
) -> None:
    approved = build_gear_definition()
    group = "gears.networking.k8s.io"
    approved["metadata"] = {
        "name": f"gears.{group}",
        "annotations": {"api-approved.kubernetes.io": "https://example.com/pull/1"},
    }
    approved["spec"]["group"] = group
    response = await http.post(DEFINITIONS, json=approved)
    assert response.status_code == 201, response.text
    policy = "KubernetesAPIApprovalPolicyConformant"
    shown_conditions = await until(
        lambda: _read_conditions(http, "gears", group),
        lambda shown_conditions: policy in shown_conditions,
    )
    assert shown_conditions[policy] == (
        "True",
        "ApprovedAnnotation",
        "approved in https://example.com/pull/1",
    )


async def test_an_entry_of_managed_fields_with_a_manager_of_129_bytes_is_refused(
    http: httpx.AsyncClient, plane: Plane
) -> None:
    await plane.install_crds([build_gear_definition()])
    body = (await http.post(V1, json=build_gear("a"))).json()
    (entry,) = body["metadata"]["managedFields"]
    body["metadata"]["managedFields"] = [{**entry, "manager": "m" * 129}]

    refused = await http.put(f"{V1}/a", json=body)

    assert refused.status_code == 422
    causes = refused.json()["details"]["causes"]
    expected = {
        "reason": "FieldValueTooLong",
        "message": "Too long: may not be more than 128 bytes",
        "field": "metadata.managedFields[0].manager",
    }
    assert expected in causes


@pytest.mark.skipif(
    read_settings().kind != "embedded", reason="a real server calls conversion webhooks"
)
async def test_a_conversion_webhook_is_not_called_and_a_warning_says_so(
    http: httpx.AsyncClient,
) -> None:
    client = {"url": "https://127.0.0.1:9/", "caBundle": "Cg=="}
    webhook = {"clientConfig": client, "conversionReviewVersions": ["v1"]}
    conversion = {"strategy": "Webhook", "webhook": webhook}

    response = await http.post(DEFINITIONS, json=build_gear_definition(conversion=conversion))

    assert response.status_code == 201, response.text
    assert "conversion webhooks are not called" in response.headers["warning"]
    assert (await _read_conditions(http, "gears"))["Established"][0] == "True"
    assert (await http.get(V1)).status_code == 200
