"""The CRD's rules and the webhook agree: every pool that CEL refuses, the webhook refuses.

The reverse does not hold: CEL knows no allocations, and does not see that a reservation straddles
the end of a range.
"""

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings

from controller.scaffold.schemas import create_structural_schema
from envtest.schema import CompiledSchema
from reconcilers.api import names
from reconcilers.api.networkpool import NetworkPool
from reconcilers.webhooks import networkpool
from tests.reconcilers import make
from tests.reconcilers.webhooks.test_properties import LIMIT, POOLS

SCHEMA = CompiledSchema.compile(create_structural_schema(NetworkPool))
Json = dict[str, Any]


def build_manifest(pool: NetworkPool) -> Json:
    """Return the manifest of a pool as a client sends it: fields without a value are left out."""
    spec = _drop_nulls(msgspec.json.decode(msgspec.json.encode(pool.spec)))
    meta = {"name": "lab", "namespace": make.NAMESPACE}
    return {
        "apiVersion": names.API_VERSION,
        "kind": "NetworkPool",
        "metadata": meta,
        "spec": spec,
    }


def _drop_nulls(value: Any) -> Any:
    """Return JSON without the keys whose value is null, at every depth."""
    if isinstance(value, dict):
        return {k: _drop_nulls(v) for k, v in value.items() if v is not None}
    return [_drop_nulls(v) for v in value] if isinstance(value, list) else value


def list_faults(new: NetworkPool, old: NetworkPool | None = None) -> set[str]:
    """Return the faults that the CRD's schema finds in a new pool (`old` is None) or an edit."""
    problems = SCHEMA.validate(
        build_manifest(new), build_manifest(old) if old is not None else None
    )
    return {str(problem) for problem in problems}


# A refusal that CEL cannot express: a reservation lies partly outside a range of the pool.
STRADDLING = "straddles ranges["


@pytest.mark.slow
@settings(deadline=None, max_examples=200)
@given(POOLS)
def test_schema_and_webhook_refuse_the_same_new_pools(new: NetworkPool) -> None:
    messages = [
        cause.message for cause in networkpool.review_creation(new, make.spaces(), LIMIT).causes
    ]
    schema_faults = list_faults(new)
    assert bool(schema_faults) is any(STRADDLING not in message for message in messages), (
        schema_faults,
        messages,
    )


@pytest.mark.slow
@settings(deadline=None, max_examples=200)
@given(POOLS, POOLS)
def test_the_schema_accepts_each_edit_that_the_webhook_allows(
    old: NetworkPool, new: NetworkPool
) -> None:
    if networkpool.review_update(
        new, old, view=make.view(), spaces=make.spaces(), max_addresses=LIMIT
    ).allowed:
        assert list_faults(new, old) == set()
