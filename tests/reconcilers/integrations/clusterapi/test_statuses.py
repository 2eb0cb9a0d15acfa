"""A claim's status says whether it has its address, and is its record of which."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from controller.conditions import Condition
from controller.meta import ObjectMeta
from reconcilers.integrations.clusterapi.api import (
    CLAIM_FINALIZER,
    GROUP,
    ClaimSpec,
    ClaimStatus,
    IPAddressClaim,
    NameRef,
    PoolRef,
)
from reconcilers.integrations.clusterapi.statuses import (
    ClaimRecord,
    is_waiting,
    read_record,
    render_message,
    render_ready,
)
from reconcilers.reporting.conditions import READY, ConditionFinding

NOW = datetime(2026, 1, 1, tzinfo=UTC)
POOL = PoolRef("InClusterIPPool", "p", GROUP)
SERVED = Condition(READY, "True", "AddressAllocated", render_message("10.0.0.7", 24, POOL))


def claim(*conditions: Condition, ref: str = "a", **metadata: object) -> IPAddressClaim:
    meta = ObjectMeta(name="a", finalizers=(CLAIM_FINALIZER,), generation=3)
    status = ClaimStatus(NameRef(ref) if ref else None, conditions)
    return IPAddressClaim(replace(meta, **metadata), ClaimSpec(POOL), status)  # type: ignore[arg-type] # any field


def test_the_record_is_what_the_ready_condition_says() -> None:
    served_claim = claim(SERVED)
    assert read_record(served_claim) == ClaimRecord("10.0.0.7", 24)
    assert not is_waiting(served_claim)


@pytest.mark.parametrize(
    "waiting_claim",
    [
        claim(),
        claim(SERVED, ref=""),
        claim(SERVED, ref="b"),
        claim(replace(SERVED, status="False")),
        claim(replace(SERVED, message="something else")),
        claim(replace(SERVED, message=render_message("10.0.0.7", 24, PoolRef("X", "q")))),
    ],
    ids=[
        "no condition",
        "no addressRef",
        "addressRef of another",
        "not ready",
        "no record",
        "of another pool",
    ],
)
def test_a_claim_without_a_record_waits(waiting_claim: IPAddressClaim) -> None:
    assert read_record(waiting_claim) is None
    assert is_waiting(waiting_claim)


def test_a_deleted_claim_holds_its_address_until_our_finalizer_is_gone() -> None:
    kept = claim(SERVED, deletionTimestamp=NOW, finalizers=(CLAIM_FINALIZER, "other"))
    assert read_record(kept) is not None
    assert not is_waiting(kept)
    assert read_record(claim(SERVED, deletionTimestamp=NOW, finalizers=("other",))) is None


def test_conditions_of_others_are_kept() -> None:
    other = Condition("Other", "True", "Because", "", NOW)
    written = render_ready(
        claim(other),
        ConditionFinding(READY, False, reason="PoolExhausted", message="x"),
        version="v1beta2",
        now=NOW,
    )
    assert [condition["type"] for condition in written["conditions"]] == ["Other", READY]
    assert written["conditions"][1]["observedGeneration"] == 3


def test_the_older_list_has_a_severity_where_something_is_wrong_and_no_generation() -> None:
    failed = ConditionFinding(READY, False, reason="PoolExhausted", message="no free address")
    [written] = render_ready(claim(), failed, version="v1beta1", now=NOW)["conditions"]
    assert written["severity"] == "Error"
    assert "observedGeneration" not in written
    finding = ConditionFinding(READY, True, reason="AddressAllocated", message="x")
    [written] = render_ready(claim(), finding, version="v1beta1", now=NOW)["conditions"]
    assert "severity" not in written
