"""Strategic merge patch of built-in kinds, as a real server was seen to answer."""

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.managedfields import PatchError
from envtest.patching import PatchHints, apply_strategic_patch
from tests.envtest.patching.values import LAW

SERVICE = PatchHints.for_builtin_kind("", "v1", "Service")
DEPLOYMENT = PatchHints.for_builtin_kind("apps", "v1", "Deployment")


_BAD_ORDER = (
    'The order in patch list:\n[{"name":"p82","port":82,"protocol":"TCP"}]\n'
    ' doesn\'t match $setElementOrder list:\n[{"port":80}]\n'
)


def _build_ports(*numbers: int) -> list[dict[str, Any]]:
    return [{"name": f"p{number}", "port": number, "protocol": "TCP"} for number in numbers]


def _build_service() -> dict[str, Any]:
    return {
        "metadata": {"name": "s", "labels": {"a": "1"}, "finalizers": ["x/a", "x/b"]},
        "spec": {"selector": {"app": "x"}, "ports": _build_ports(80, 81, 82)},
    }


def _merge_ports(patch: dict[str, Any]) -> list[int]:
    merged = apply_strategic_patch(_build_service(), {"spec": patch}, SERVICE)
    return [port["port"] for port in merged["spec"]["ports"]]


def test_items_with_the_same_merge_key_are_merged() -> None:
    patch = {"spec": {"ports": [{"port": 81, "name": "new"}]}}
    ports = apply_strategic_patch(_build_service(), patch, SERVICE)["spec"]["ports"]
    assert ports[1] == {"name": "new", "port": 81, "protocol": "TCP"}
    assert len(ports) == 3


@pytest.mark.parametrize(
    ("patch", "ports"),
    [
        ({"ports": _build_ports(90)}, [90, 80, 81, 82]),
        ({"ports": [{"port": 81, "$patch": "delete"}]}, [80, 82]),
        ({"ports": [*_build_ports(85), {"$patch": "replace"}]}, [85]),
        ({"$setElementOrder/ports": [{"port": 82}, {"port": 80}, {"port": 81}]}, [82, 80, 81]),
        (
            {
                "$setElementOrder/ports": [{"port": 99}, {"port": 80}],
                "ports": [*_build_ports(99), {"port": 81, "$patch": "delete"}],
            },
            [99, 80, 82],
        ),
        ({"ports": []}, [80, 81, 82]),
        ({"$setElementOrder/ports": [], "ports": _build_ports(98, 99)}, [80, 81, 82, 99, 98]),
    ],
)
def test_lists_end_up_in_the_order_that_the_server_gives_them(
    patch: dict[str, Any], ports: list[int]
) -> None:
    assert _merge_ports(patch) == ports


@pytest.mark.parametrize(
    ("patch", "finalizers"),
    [
        ({"finalizers": ["x/c"]}, ["x/c", "x/a", "x/b"]),
        ({"finalizers": ["x/c", "x/a"]}, ["x/c", "x/a", "x/b"]),
        ({"$deleteFromPrimitiveList/finalizers": ["x/a"]}, ["x/b"]),
        ({"$setElementOrder/finalizers": ["x/b", "x/a"], "finalizers": ["x/b"]}, ["x/b", "x/a"]),
    ],
)
def test_lists_of_scalars_are_sets(patch: dict[str, Any], finalizers: list[str]) -> None:
    merged = apply_strategic_patch(_build_service(), {"metadata": patch}, SERVICE)
    assert merged["metadata"]["finalizers"] == finalizers


@pytest.mark.parametrize(
    ("patch", "selector"),
    [
        ({"b": "c"}, {"app": "x", "b": "c"}),
        ({"$patch": "replace", "b": "c"}, {"b": "c"}),
        ({"$patch": "delete"}, {}),
        ({"app": None, "q": None}, {}),
    ],
)
def test_maps_are_merged_unless_a_directive_says_otherwise(
    patch: dict[str, Any], selector: dict[str, str]
) -> None:
    merged = apply_strategic_patch(_build_service(), {"spec": {"selector": patch}}, SERVICE)
    assert merged["spec"]["selector"] == selector


def test_only_retained_keys_survive() -> None:
    live = {"spec": {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}}}}
    patch = {"spec": {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}}
    merged = apply_strategic_patch(live, patch, DEPLOYMENT)
    assert merged == {"spec": {"strategy": {"type": "Recreate"}}}


def test_lists_without_a_strategy_are_replaced() -> None:
    live = {"spec": {"template": {"spec": {"containers": [{"name": "c", "args": ["x", "y"]}]}}}}
    patch = {"spec": {"template": {"spec": {"containers": [{"name": "c", "args": ["z"]}]}}}}
    merged = apply_strategic_patch(live, patch, DEPLOYMENT)
    assert merged["spec"]["template"]["spec"]["containers"] == [{"name": "c", "args": ["z"]}]


@pytest.mark.parametrize(
    ("patch", "status", "message"),
    [
        ([], 400, "json: cannot unmarshal array into Go value of type map[string]interface {}"),
        ({"$retainKeys": 5}, 400, "invalid patch format of retainKeys"),
        ({"$retainKeys": ["metadata"], "spec": {}}, 400, "invalid patch format of retainKeys"),
        (
            {"metadata": {"$deleteFromPrimitiveListfinalizers": []}},
            400,
            "invalid patch format of primitive list",
        ),
        (
            {"spec": {"$setElementOrderports": []}},
            400,
            "invalid patch format of setElementOrder list",
        ),
        (
            {"spec": {"ports": [{"name": "nokey"}]}},
            500,
            'map: {"name":"nokey"} does not contain declared merge key: port',
        ),
        (
            {"spec": {"ports": [{"$patch": "blah", "port": 80}]}},
            500,
            'unknown patch type: blah in map: {"$patch":"blah","port":80}',
        ),
        (
            {"spec": {"ports": [{"$patch": "merge", "port": 80}]}},
            500,
            "merging lists cannot yet be specified in the patch",
        ),
        (
            {"metadata": {"labels": {"$patch": 5}}},
            500,
            'unknown patch type: %!s(number=5) in map: {"$patch":5}',
        ),
        (
            {"metadata": {"$setElementOrder/ownerReferences": 5}},
            500,
            "expected a []interface {}, but received a number",
        ),
        ({"spec": {"$setElementOrder/ports": ["x"]}}, 500, "value for key 0 is not a map"),
        (
            {"spec": {"$setElementOrder/ports": [{"port": 80}], "ports": _build_ports(82)}},
            500,
            _BAD_ORDER,
        ),
        (
            {"metadata": {"finalizers": [["x"]]}},
            500,
            'list element types are not identical: [["x/a","x/b"],[["x"]]]',
        ),
    ],
)
def test_misused_directives_are_refused_in_the_servers_words(
    patch: Any, status: int, message: str
) -> None:
    with pytest.raises(PatchError) as refused:
        apply_strategic_patch(_build_service(), patch, SERVICE)
    assert (refused.value.status, refused.value.message) == (status, message)


NUMBERS = st.lists(st.integers(1, 6), unique=True, max_size=5)


@LAW
@given(NUMBERS, NUMBERS)
def test_a_merged_list_holds_every_key_once_and_the_patch_in_its_order(
    live: list[int], patch: list[int]
) -> None:
    before = {"spec": {"ports": _build_ports(*live)}}
    expected = {"spec": {"ports": _build_ports(*patch)}}
    untouched = copy.deepcopy((before, expected))
    merged = apply_strategic_patch(before, expected, SERVICE)
    ports = [port["port"] for port in merged["spec"]["ports"]]
    assert sorted(ports) == sorted({*live, *patch})
    assert [port for port in ports if port in patch] == patch
    assert (before, expected) == untouched
    assert apply_strategic_patch(merged, expected, SERVICE) == merged
