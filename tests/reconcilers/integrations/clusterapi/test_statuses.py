"""The status of a claim shows whether it is served, and records its address.

A claim *waits* until its status records an address.
"""

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


def make_claim(*conditions: Condition, ref: str = "a", **metadata: object) -> IPAddressClaim:
    """Return claim `a` of POOL.

    Args:
        *conditions: the conditions in its status.
        ref: the IPAddress that its status names; empty for none.
        **metadata: fields of its metadata.
    """
    meta = ObjectMeta(name="a", finalizers=(CLAIM_FINALIZER,), generation=3)
    status = ClaimStatus(NameRef(ref) if ref else None, conditions)
    return IPAddressClaim(replace(meta, **metadata), ClaimSpec(POOL), status)  # type: ignore[arg-type] # any field


def test_the_record_of_a_claim_is_the_address_in_its_condition_ready() -> None:
    served_claim = make_claim(SERVED)
    assert read_record(served_claim) == ClaimRecord("10.0.0.7", 24)
    assert not is_waiting(served_claim)


@pytest.mark.parametrize(
    "waiting_claim",
    [
        make_claim(),
        make_claim(SERVED, ref=""),
        make_claim(SERVED, ref="b"),
        make_claim(replace(SERVED, status="False")),
        make_claim(replace(SERVED, message="something else")),
        make_claim(replace(SERVED, message=render_message("10.0.0.7", 24, PoolRef("X", "q")))),
    ],
    ids=[
        "no condition",
        "no addressRef",
        "addressRef to another IPAddress",
        "not ready",
        "no address in the message",
        "a message about another pool",
    ],
)
def test_a_claim_without_a_record_waits(waiting_claim: IPAddressClaim) -> None:
    assert read_record(waiting_claim) is None
    assert is_waiting(waiting_claim)


def test_a_deleted_claim_holds_its_address_until_our_finalizer_is_gone() -> None:
    deleted = make_claim(SERVED, deletionTimestamp=NOW, finalizers=(CLAIM_FINALIZER, "other"))
    assert read_record(deleted) is not None
    assert not is_waiting(deleted)
    assert read_record(make_claim(SERVED, deletionTimestamp=NOW, finalizers=("other",))) is None


def test_conditions_that_other_controllers_wrote_are_kept() -> None:
    other = Condition("Other", "True", "Because", "", NOW)
    written = render_ready(
        make_claim(other),
        ConditionFinding(READY, False, reason="PoolExhausted", message="x"),
        version="v1beta2",
        now=NOW,
    )
    assert [condition["type"] for condition in written["conditions"]] == ["Other", READY]
    assert written["conditions"][1]["observedGeneration"] == 3


def test_conditions_of_v1beta1_have_a_severity_if_they_are_false_and_no_observed_generation() -> (
    None
):
    failed = ConditionFinding(READY, False, reason="PoolExhausted", message="no free address")
    [written] = render_ready(make_claim(), failed, version="v1beta1", now=NOW)["conditions"]
    assert written["severity"] == "Error"
    assert "observedGeneration" not in written
    finding = ConditionFinding(READY, True, reason="AddressAllocated", message="x")
    [written] = render_ready(make_claim(), finding, version="v1beta1", now=NOW)["conditions"]
    assert "severity" not in written
