"""The CRD's rules and the webhook tell the same story: what CEL refuses, the webhook refuses.

The reverse does not hold: CEL cannot tell who holds what, nor that a reservation straddles an end.
"""

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings

from controller.scaffold.schemas import structural_schema
from envtest.schema import CompiledSchema
from reconcilers.api import names
from reconcilers.api.networkpool import NetworkPool
from reconcilers.webhooks import networkpool
from tests.reconcilers import make
from tests.reconcilers.webhooks.test_properties import LIMIT, POOLS

SCHEMA = CompiledSchema.compile(structural_schema(NetworkPool))
Json = dict[str, Any]


def write_pool(pool: NetworkPool) -> Json:
    """Return a pool as a client writes it, without what is absent."""
    spec = _without_nulls(msgspec.json.decode(msgspec.json.encode(pool.spec)))
    meta = {"name": "lab", "namespace": make.NAMESPACE}
    return {
        "apiVersion": names.API_VERSION,
        "kind": "NetworkPool",
        "metadata": meta,
        "spec": spec,
    }


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _without_nulls(v) for k, v in value.items() if v is not None}
    return [_without_nulls(v) for v in value] if isinstance(value, list) else value


def faults(new: NetworkPool, old: NetworkPool | None = None) -> set[str]:
    problems = SCHEMA.validate(write_pool(new), write_pool(old) if old is not None else None)
    return {str(problem) for problem in problems}


STRADDLING = "straddles ranges["


@pytest.mark.slow
@settings(deadline=None, max_examples=200)
@given(POOLS)
def test_schema_and_webhook_refuse_the_same_new_pools(new: NetworkPool) -> None:
    said = [
        cause.message for cause in networkpool.review_creation(new, make.spaces(), LIMIT).causes
    ]
    by_cel = faults(new)
    assert bool(by_cel) is any(STRADDLING not in message for message in said), (by_cel, said)


@pytest.mark.slow
@settings(deadline=None, max_examples=200)
@given(POOLS, POOLS)
def test_the_schema_refuses_no_edit_that_the_webhook_lets_through(
    old: NetworkPool, new: NetworkPool
) -> None:
    if networkpool.review_update(
        new, old, view=make.view(), spaces=make.spaces(), max_addresses=LIMIT
    ).allowed:
        assert faults(new, old) == set()
