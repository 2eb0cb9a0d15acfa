"""Rules of custom resources: what is refused where they are made, and where they are broken."""

import json
from typing import Any

import anyio
import httpx
import pytest

from envtest.plane import RunningControlPlane as Plane
from tests.polling import SECONDS

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
THINGS = "/apis/rules.example.com/v1/namespaces/default/things"
TEXT = {"type": "string", "maxLength": 40}
NUMBER = {"type": "integer"}
PARTS: dict[str, Any] = {
    "name": TEXT,
    "count": NUMBER,
    "share": {"type": "number"},
    "at": {"type": "string", "format": "date-time"},
    "pause": {"type": "string", "format": "duration"},
    "key": {"type": "string", "format": "byte", "maxLength": 40},
    "port": {"x-kubernetes-int-or-string": True},
    "cidr": TEXT,
    "ref": {"type": "object", "properties": {"namespace": TEXT, "cluster-name": TEXT}},
    "labels": {"type": "object", "maxProperties": 4, "additionalProperties": TEXT},
    "limits": {
        "type": "object",
        "maxProperties": 4,
        "additionalProperties": {"type": "object", "properties": {"most": NUMBER}},
    },
    "rows": {
        "type": "array",
        "maxItems": 4,
        "items": {"type": "array", "maxItems": 4, "items": TEXT},
    },
    "disks": {
        "type": "array",
        "maxItems": 4,
        "items": {"type": "object", "properties": {"size": NUMBER, "for": TEXT}},
    },
    "template": {
        "type": "object",
        "x-kubernetes-embedded-resource": True,
        "x-kubernetes-preserve-unknown-fields": True,
    },
}
WHOLE: dict[str, Any] = {
    "name": "a",
    "count": 3,
    "share": 2,
    "at": "2026-01-31T10:00:00Z",
    "pause": "1h30m",
    "key": "YWI=",
    "port": "50%",
    "cidr": "10.0.0.7/8",
    "ref": {"namespace": "n", "cluster-name": "c"},
    "labels": {"a-b": "1", "namespace": "x"},
    "limits": {"a": {"most": 3}},
    "rows": [["a", "b"], ["c"]],
    "disks": [{"size": 1, "for": "a"}, {"size": 2, "for": "b"}],
    "template": {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "q"}},
}
HOLDS = (
    "self.ref.__namespace__ == 'n' && self.ref.cluster__dash__name == 'c'",
    "has(self.ref.__namespace__) && !has(self.labels.other)",
    "self.labels['a-b'] == '1' && self.labels.all(name, self.labels[name].size() == 1)",
    "self.limits.a.most == 3 && self.limits['a'].most > 2",
    "self.rows[0][1] == 'b' && self.rows.all(row, row.size() < 3)",
    "self.disks.exists_one(disk, disk.size == 2 && disk.__for__ == 'b')",
    "self.disks.map(disk, disk.size).isSorted()",
    "self.disks.map(disk, disk.size).sum() == 3",
    "self.disks.filter(disk, disk.size > 1).size() == 1",
    "self.share > 1 && self.share * 2.0 == 4.0",
    "self.at > timestamp('2025-01-01T00:00:00Z') && self.at.getFullYear() == 2026",
    "self.pause == duration('90m') && self.pause.getMinutes() == 90",
    "self.key == b'ab'",
    "type(self.port) == int ? self.port > 0 : self.port.endsWith('%')",
    "self.template.kind == 'Secret' && self.template.metadata.name == 'q'",
    "isCIDR(self.cidr) && cidr(self.cidr).containsIP('10.1.2.3')",
    "cidr(self.cidr).containsCIDR('10.1.0.0/16') && !cidr(self.cidr).containsCIDR('0.0.0.0/0')",
    "cidr(self.cidr).masked() == cidr('10.0.0.0/8') && cidr(self.cidr).prefixLength() == 8",
    "cidr(self.cidr).ip() == ip('10.0.0.7') && ip('fd00::1').family() == 6",
    "!isIP('10.0.0.256') && !isIP('::ffff:10.0.0.1') && !isIP('fe80::1%eth0')",
    "!isIP('01.2.3.4') && isIP('fe80::1')",
    "!isCIDR('10.0.0.0') && !isCIDR('10.0.0.0/255.0.0.0') && !isCIDR('10.0.0.0/08')",
    "self.?name.orValue('') == 'a' && '10.0.0.1'.split('.').map(part, int(part)) == [10, 0, 0, 1]",
    "self.name.matches('^[a-z]$') && 'A'.lowerAscii() == self.name",
)
REFUSED = {
    "self.nmae == 'a'": "undefined field 'nmae'",
    "has(self.ref.name)": "undefined field 'name'",
    "self.disks.all(disk, disk.sizes > 1)": "undefined field 'sizes'",
    "self.limits.all(name, self.limits[name].least > 1)": "undefined field 'least'",
    "self.name == 1": "found no matching overload for '_==_'",
    "self.name.startsWith(1)": "found no matching overload for 'startsWith'",
    "self.cidr.containsIP('10.0.0.1')": "found no matching overload for 'containsIP'",
    "self.count + self.name == 'a'": "found no matching overload for '_+_'",
    "self.count": "must evaluate to a bool",
    "self.count ==": "Syntax error",
    "count == 1": "undeclared reference to 'count'",
    "self.metadata.name == 'a'": "undefined field 'metadata'",
}


def build_rule_definition(*rules: dict[str, Any], on: str = "") -> dict[str, Any]:
    """Return a CRD with rules on its spec, or on one part of it."""
    parts = json.loads(json.dumps(PARTS))
    spec = {"type": "object", "properties": parts}
    (parts[on] if on else spec)["x-kubernetes-validations"] = list(rules)
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}},
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.rules.example.com"},
        "spec": {
            "group": "rules.example.com",
            "scope": "Namespaced",
            "names": {"plural": "things", "kind": "Thing"},
            "versions": [version],
        },
    }


def build_thing(spec: dict[str, Any]) -> dict[str, Any]:
    head = {"apiVersion": "rules.example.com/v1", "kind": "Thing", "metadata": {"name": "x"}}
    return {**head, "spec": spec}


def list_causes(answer: httpx.Response) -> list[tuple[str, str]]:
    """Return the refused fields, each with the message about it; empty for an accepted write."""
    if answer.is_success:
        return []
    assert answer.status_code == 422, answer.text
    return [(cause["field"], cause["message"]) for cause in answer.json()["details"]["causes"]]


async def wait_until_in_force(http: httpx.AsyncClient) -> None:
    """Wait until objects are accepted: a real server needs a moment after the CRD is served."""
    with anyio.fail_after(SECONDS):
        while (await http.get(THINGS)).status_code != 200:
            await anyio.lowlevel.checkpoint()


async def test_rules_that_hold_let_an_object_in(plane: Plane, http: httpx.AsyncClient) -> None:
    await plane.install_crds([build_rule_definition(*({"rule": rule} for rule in HOLDS))])
    await wait_until_in_force(http)
    answer = await http.post(THINGS, json=build_thing(WHOLE))
    assert answer.status_code == 201, answer.text


async def test_the_negation_of_each_of_those_rules_refuses_the_object(
    plane: Plane, http: httpx.AsyncClient
) -> None:
    turned = [f"!({rule})" for rule in HOLDS]
    await plane.install_crds([build_rule_definition(*({"rule": rule} for rule in turned))])
    await wait_until_in_force(http)
    expected = [("spec", f"Invalid value: failed rule: {rule}") for rule in turned]
    causes = list_causes(await http.post(THINGS, json=build_thing(WHOLE)))
    assert sorted(
        (field, message.replace('"object": ', "")) for field, message in causes
    ) == sorted(expected)


@pytest.mark.parametrize("rule", REFUSED)
async def test_a_rule_that_makes_no_sense_for_the_schema_is_refused(
    rule: str, http: httpx.AsyncClient
) -> None:
    answer = await http.post(DEFINITIONS, json=build_rule_definition({"rule": rule}))
    [(field, message)] = list_causes(answer)
    assert field.endswith("properties[spec].x-kubernetes-validations[0].rule")
    assert REFUSED[rule] in message


async def test_a_broken_rule_has_the_message_and_path_of_its_definition(
    plane: Plane, http: httpx.AsyncClient
) -> None:
    rules: list[dict[str, Any]] = [
        {
            "rule": "self.count < 3",
            "messageExpression": "self.count > 9 ? 'far too many' : 'at most 2'",
            "fieldPath": ".count",
            "reason": "FieldValueForbidden",
        },
        {
            "rule": "self.disks.size() == 0",
            "message": "no disks",
            "fieldPath": ".ref['cluster-name']",
            "reason": "FieldValueRequired",
        },
        {"rule": "self.labels.other == 'x'", "message": "other is x"},
    ]
    await plane.install_crds([build_rule_definition(*rules)])
    await wait_until_in_force(http)
    causes = list_causes(await http.post(THINGS, json=build_thing(WHOLE)))
    assert causes[:2] == [
        ("spec.count", "Forbidden: at most 2"),
        ("spec.ref.cluster-name", "Required value: no disks"),
    ]
    assert causes[2][0] == "spec"
    assert "no such key: other evaluating rule: other is x" in causes[2][1]


async def test_rules_on_changes_see_the_old_value(plane: Plane, http: httpx.AsyncClient) -> None:
    rules: list[dict[str, Any]] = [
        {"rule": "self >= oldSelf", "message": "never less"},
        {
            "rule": "self < 5 || oldSelf.hasValue()",
            "message": "new ones are small",
            "optionalOldSelf": True,
        },
        {
            "rule": "oldSelf.optMap(old, self - old <= 5).orValue(true)",
            "message": "five at once",
            "optionalOldSelf": True,
        },
    ]
    await plane.install_crds([build_rule_definition(*rules, on="count")])
    await wait_until_in_force(http)

    async def list_refusals(count: int) -> list[str]:
        body = {"spec": {"count": count}}
        headers = {"Content-Type": "application/merge-patch+json"}
        answer = await http.patch(f"{THINGS}/x", json=body, headers=headers)
        return [message.rpartition(": ")[2] for _, message in list_causes(answer)]

    large = list_causes(await http.post(THINGS, json=build_thing({"count": 7})))
    assert [message.rpartition(": ")[2] for _, message in large] == ["new ones are small"]
    assert (await http.post(THINGS, json=build_thing({"count": 4}))).is_success
    assert await list_refusals(10) == ["five at once"]
    assert await list_refusals(3) == ["never less"]
    assert await list_refusals(7) == []
    assert await list_refusals(7) == []
