"""CustomResourceDefinitions as the API server accepted and refused them."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from envtest.schema import find_crd_warnings, set_crd_defaults, validate_crd
from tests.envtest.schema.answers import list_causes, read_recorded, read_transcript

_CASES = read_recorded("definitions.json")


def _settle(definition: dict[str, Any]) -> dict[str, Any]:
    """The definition as it stands when it is judged: with defaults, and the versions it stores."""
    crd = copy.deepcopy(definition)
    set_crd_defaults(crd)
    versions = crd["spec"].get("versions") or []
    stored = [version.get("name", "") for version in versions if version.get("storage")]
    crd["status"] = {"storedVersions": stored[:1]}
    return crd


@pytest.mark.parametrize("case", _CASES, ids=lambda case: case["about"])
def test_a_definition_gets_the_recorded_answer(case: dict[str, Any]) -> None:
    crd = _settle(case["definition"])
    assert list_causes(validate_crd(crd)) == case["causes"]
    if not case["causes"]:
        assert sorted(find_crd_warnings(crd)) == case["warnings"]


_STEPS = {step["id"]: step for step in read_transcript("crd-lifecycle")}


@pytest.mark.parametrize("step", ["name-mismatch", "no-schema", "non-structural"])
def test_a_bad_definition_is_refused_as_in_the_transcript(step: str) -> None:
    crd = _settle(_STEPS[step]["request"]["body"])
    causes = _STEPS[step]["response"]["body"]["details"]["causes"]
    assert [error.build_cause() for error in validate_crd(crd)] == causes


def test_a_good_definition_is_accepted_with_defaults_filled_in() -> None:
    crd = _settle(_STEPS["create"]["request"]["body"])
    assert validate_crd(crd) == []
    spec = _STEPS["create"]["response"]["body"]["spec"]
    assert {name: crd["spec"][name] for name in spec} == spec


def _make_established(**spec: Any) -> dict[str, Any]:
    crd = _settle(_STEPS["create"]["request"]["body"])
    crd["status"]["conditions"] = [{"type": "Established", "status": "True"}]
    crd["spec"] |= spec
    return crd


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"scope": "Cluster"}, "spec.scope"),
        ({"group": "other.example.com"}, "spec.group"),
    ],
)
def test_fields_that_decide_where_objects_are_stored_are_immutable(
    change: dict[str, Any], field: str
) -> None:
    errors = validate_crd(_make_established(**change), _make_established())
    assert [(error.field, error.detail) for error in errors] == [(field, "field is immutable")]


def test_the_kind_may_change_until_the_names_are_established() -> None:
    new, old = _make_established(), _make_established()
    new["spec"]["names"]["kind"] = "Gadget"
    assert [error.field for error in validate_crd(new, old)] == ["spec.names.kind"]
    old["status"]["conditions"] = []
    assert validate_crd(new, old) == []


def test_a_version_that_was_stored_cannot_be_removed_from_the_spec() -> None:
    new = _make_established()
    new["spec"]["versions"][0]["name"] = "v2"
    new["status"]["storedVersions"] = ["v1", "v2"]
    error = validate_crd(new, _make_established())[0]
    assert error.field == "status.storedVersions[0]"
    assert error.detail.startswith("missing from spec.versions; v1 was previously")


@pytest.mark.parametrize(
    ("changes", "detail"),
    [
        ([{"storage": False}], "must have exactly one version marked as storage version"),
        ([{}, {"name": "v2"}], "must have exactly one version marked as storage version"),
        ([{}, {"storage": False}], "must contain unique version names"),
    ],
)
def test_versions_have_names_of_their_own_and_one_is_stored(
    changes: list[dict[str, Any]], detail: str
) -> None:
    crd = _make_established()
    [version] = crd["spec"]["versions"]
    crd["spec"]["versions"] = [{**version, **change} for change in changes]
    details = [error.detail for error in validate_crd(crd) if error.field == "spec.versions"]
    assert details == [detail]
