"""For any input, `plan` ends with an exit code and error messages, never with a traceback."""

import copy
import json
from collections.abc import Iterator
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.reconcilers import make
from tests.reconcilers.cli.commandline import (
    make_allocation,
    make_cluster,
    make_held_status,
    make_pool,
    make_provider,
    plan,
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
    make_pool(
        reserved=["10.40.0.0/28"],
        tenant_allocation={
            "ranges": [{"start": "10.40.0.16", "end": "10.40.0.200"}],
            "defaults": {"nodesPerTenant": 5},
        },
        status={"conditions": [READY], **make.build_journal_status("u1", 5)},
        labels={"a": "b"},
        annotations={"c": "d"},
        uid="u1",
        resourceVersion="7",
        generation=2,
        creationTimestamp="2026-01-01T00:00:00Z",
        finalizers=["butler.butlerlabs.dev/networkpool"],
    ),
    make_allocation(
        "held", 4, status=make_held_status("10.40.0.16", "10.40.0.19") | {"conditions": [READY]}
    ),
    make_allocation("counted", 4),
    make_allocation("pinned", pinned_range=("10.40.0.64", "10.40.0.67")),
    make_provider(
        "prov", "lab", loadBalancer={"defaultPoolSize": 4}, quotaPerTenant={"maxNodeIPs": 9}
    ),
    make_cluster(networking={"lbPoolSize": 3}),
]
# Values that replace others.
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
    """Yield the path of each value inside a value, which is itself at `path`."""
    yield path
    if isinstance(value, dict | list):
        for key in value if isinstance(value, dict) else range(len(value)):
            yield from list_paths(value[key], (*path, key))


PATHS = [path for path in list_paths(OBJECTS) if path]


@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(PATHS), PLAIN), min_size=1, max_size=3))
@example([((0, "spec", "excludeNetworkAndBroadcast"), [])])
@example([((0, "spec", "excludeNetworkAndBroadcast"), {})])
def test_plan_survives_any_value_at_any_path_of_valid_objects(
    changes: list[tuple[tuple[Any, ...], Any]],
) -> None:
    objects = copy.deepcopy(OBJECTS)
    for path, value in changes:
        inner: Any = objects
        try:
            for step in path[:-1]:
                inner = inner[step]
            inner[path[-1]] = copy.deepcopy(value)  # a copy, so that it cannot contain itself
        except (KeyError, IndexError, TypeError):
            continue  # an earlier change has removed this path
    manifests = json.dumps({"apiVersion": "v1", "kind": "List", "items": objects})
    outcome = run("plan", "-f", "-", "-o", "json", stdin=manifests.encode())
    assert outcome.code == (1 if outcome.errors else 0)
    assert "Traceback" not in outcome.err
    json.loads(outcome.out)


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=60))
def test_plan_rejects_random_bytes(data: bytes) -> None:
    outcome = run("plan", "-f", "-", stdin=data)
    assert outcome.code == 1
    assert outcome.errors


@settings(max_examples=100, deadline=None)
@given(st.text(alphabet="abk:-[]{}&*!|>'\"#%@,? \n\t0123.", max_size=40))
def test_plan_rejects_random_text_that_resembles_yaml(content: str) -> None:
    outcome = run("plan", "-f", "-", stdin=content.encode())
    assert outcome.code == 1
    assert outcome.errors


def test_the_unchanged_objects_are_planned_without_errors() -> None:
    assert plan(*OBJECTS).errors == []
