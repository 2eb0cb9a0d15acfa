"""Whatever is thrown at it, a plan ends with an exit code and sentences, never a traceback."""

import copy
import json
from collections.abc import Iterator
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.reconcilers import make
from tests.reconcilers.cli.commandline import (
    allocation,
    cluster,
    make_held_status,
    plan,
    pool,
    provider,
    run,
)

READY = {
    "type": "Ready",
    "status": "True",
    "reason": "Ready",
    "message": "",
    "lastTransitionTime": "2026-01-01T00:00:00Z",
}
OBJECTS: list[dict[str, Any]] = [
    pool(
        reserved=["10.40.0.0/28"],
        tenant={
            "ranges": [{"start": "10.40.0.16", "end": "10.40.0.200"}],
            "defaults": {"nodesPerTenant": 5},
        },
        status={"conditions": [READY], **make.journal_of("u1", 5)},
        labels={"a": "b"},
        annotations={"c": "d"},
        uid="u1",
        resourceVersion="7",
        generation=2,
        creationTimestamp="2026-01-01T00:00:00Z",
        finalizers=["butler.butlerlabs.dev/networkpool"],
    ),
    allocation(
        "held", 4, status=make_held_status("10.40.0.16", "10.40.0.19") | {"conditions": [READY]}
    ),
    allocation("counted", 4),
    allocation("pinned", pin=("10.40.0.64", "10.40.0.67")),
    provider("prov", "lab", loadBalancer={"defaultPoolSize": 4}, quotaPerTenant={"maxNodeIPs": 9}),
    cluster(networking={"lbPoolSize": 3}),
]
PLAIN = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=12),
    st.sampled_from(
        ["", "0.0.0.0/0", "10.0.0.0/33", "255.255.255.255", "999.1.1.1", "Ready", "::"]
    ),
    st.just([]),
    st.just({}),
    st.just([None]),
    st.just({"": {"": None}}),
)


def list_paths(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield path
    if isinstance(value, dict | list):
        for key in value if isinstance(value, dict) else range(len(value)):
            yield from list_paths(value[key], (*path, key))


PATHS = [path for path in list_paths(OBJECTS) if path]


@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(PATHS), PLAIN), min_size=1, max_size=3))
@example([((0, "spec", "excludeNetworkAndBroadcast"), [])])
@example([((0, "spec", "excludeNetworkAndBroadcast"), {})])
def test_any_value_in_any_place_ends_in_an_exit_code(
    changes: list[tuple[tuple[Any, ...], Any]],
) -> None:
    objects = copy.deepcopy(OBJECTS)
    for path, value in changes:
        inner: Any = objects
        try:
            for step in path[:-1]:
                inner = inner[step]
            inner[path[-1]] = copy.deepcopy(value)  # or a later change could put it into itself
        except (KeyError, IndexError, TypeError):
            continue  # an earlier change took the place away
    manifests = json.dumps({"apiVersion": "v1", "kind": "List", "items": objects})
    outcome = run("plan", "-f", "-", "-o", "json", stdin=manifests.encode())
    assert outcome.code == (1 if outcome.errors else 0)
    assert "Traceback" not in outcome.err
    json.loads(outcome.out)


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=60))
def test_any_bytes_end_in_an_exit_code(data: bytes) -> None:
    outcome = run("plan", "-f", "-", stdin=data)
    assert outcome.code == 1
    assert outcome.errors


@settings(max_examples=100, deadline=None)
@given(st.text(alphabet="abk:-[]{}&*!|>'\"#%@,? \n\t0123.", max_size=40))
def test_any_text_that_looks_like_yaml_ends_in_an_exit_code(content: str) -> None:
    outcome = run("plan", "-f", "-", stdin=content.encode())
    assert outcome.code == 1
    assert outcome.errors


def test_the_unchanged_objects_plan_without_errors() -> None:
    assert plan(*OBJECTS).errors == []
