"""Schemas that were checked and compiled before are not checked and compiled again."""

from typing import Any

import pytest

from envtest.schema import CompiledSchema, validate_crd
from envtest.schema.compiled import LONGEST_CACHED_SCHEMA
from envtest.schema.crd import versions


def build_schema(rule: str = "self.size > 0", **more: Any) -> dict[str, Any]:
    """Return a schema with one rule; each call gives a new one."""
    spec = {
        "type": "object",
        "properties": {"size": {"type": "integer"}},
        "x-kubernetes-validations": [{"rule": rule}],
    }
    return {"type": "object", "properties": {"spec": spec}, **more}


def build_definition(*schemas: dict[str, Any], status: bool = False) -> dict[str, Any]:
    """Return a definition with a version for each schema."""
    versions = [
        {
            "name": f"v{number}",
            "served": True,
            "storage": number == 1,
            "schema": {"openAPIV3Schema": schema},
            **({"subresources": {"status": {}}} if status else {}),
        }
        for number, schema in enumerate(schemas, 1)
    ]
    names = {"plural": "gears", "singular": "gear", "kind": "Gear", "listKind": "GearList"}
    return {
        "metadata": {"name": "gears.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": names,
            "versions": versions,
            "conversion": {"strategy": "None"},
        },
        "status": {"storedVersions": ["v1"]},
    }


def list_refused(*schemas: dict[str, Any], status: bool = False) -> list[str]:
    """Return the fields of a definition that are refused."""
    return [error.field for error in validate_crd(build_definition(*schemas, status=status))]


def test_the_same_schema_is_compiled_once_and_another_one_again() -> None:
    assert CompiledSchema.compile(build_schema()) is CompiledSchema.compile(build_schema())
    assert CompiledSchema.compile(build_schema()) is not CompiledSchema.compile(
        build_schema("self.size > 1")
    )


def test_a_schema_that_is_changed_afterwards_is_another_one_and_leaves_the_first_as_it_was() -> (
    None
):
    given_schema = build_schema()
    compiled = CompiledSchema.compile(given_schema)
    given_schema["properties"]["spec"]["required"] = ["size"]
    assert compiled.validate({"spec": {"size": 1}}) == []
    assert compiled.validate({"spec": {"other": 1}}) != []
    assert "Required value" not in str(compiled.validate({"spec": {}}))
    assert CompiledSchema.compile(given_schema) is not compiled
    assert "size" in str(CompiledSchema.compile(given_schema).validate({"spec": {}}))


def test_a_long_schema_is_compiled_each_time() -> None:
    long = build_schema(description="x" * LONGEST_CACHED_SCHEMA)
    assert CompiledSchema.compile(long) is not CompiledSchema.compile(long)


def test_rules_of_a_schema_that_was_checked_before_are_not_compiled_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    known, other = build_schema("self.size > 2"), build_schema("self.size > 3")
    assert list_refused(known) == []

    def count(*_: object, **__: object) -> list[Any]:
        checked.append(1)
        return []

    checked: list[int] = []
    monkeypatch.setattr(versions, "find_node_errors", count)
    assert list_refused(known) == []
    assert checked == []
    assert list_refused(other) == []
    assert checked == [1]


def test_each_error_is_reported_each_time_with_its_place() -> None:
    wrong = build_schema("self.sizes > 0")
    of_all = "spec.validation.openAPIV3Schema.properties[spec].x-kubernetes-validations[0].rule"
    of_one = of_all.replace("spec.validation", "spec.versions[1].schema", 1)
    assert list_refused(wrong) == list_refused(wrong) == [of_all]
    assert list_refused(build_schema(), wrong) == [of_one]


def test_what_a_status_subresource_forbids_is_refused_though_the_schema_was_accepted_without() -> (
    None
):
    odd = build_schema(enum=[{}])
    assert list_refused(odd) == []
    assert "spec.validation.openAPIV3Schema" in list_refused(odd, status=True)
