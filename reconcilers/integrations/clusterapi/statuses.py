"""The statuses of claims: condition Ready, and the record of the address in its message.

A claim's status has no field for the address itself, only the name of the IPAddress. So the write
that sets addressRef also *records* the address, in the message of condition Ready. A promise takes
effect by one write of one object, as with an IPAllocation. And the claims alone show which
addresses they hold, even if a person removed an IPAddress by force.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from controller.conditions import TRUE, Condition, find_condition, to_json
from reconcilers.api import names
from reconcilers.integrations.clusterapi.api import (
    CLAIM_FINALIZER,
    IPAddress,
    IPAddressClaim,
    PoolRef,
)
from reconcilers.integrations.core.claimproblems import ADDRESS_ALLOCATED
from reconcilers.reporting.conditions import READY, ConditionFinding, with_findings

RESTORED_ADDRESS = names.ANNOTATION_RESTORED_ADDRESS
"""The annotation of `read_restored_record`."""
LEGACY_VERSION = "v1beta1"
"""The version in which `conditions` are Cluster API's older list."""
_RECORD = re.compile(r"Allocated ([0-9a-fA-F:.]+)/([0-9]{1,3}) from (\S+) (\S+)")


@dataclass(frozen=True, slots=True)
class ClaimRecord:
    """The address and prefix length that a claim holds, as they are recorded on the claim."""

    address: str
    prefix: int


def render_message(address: str, prefix: int, pool: PoolRef) -> str:
    """Return the message of a claim that has its address; `read_record` parses it."""
    return f"Allocated {address}/{prefix} from {pool.kind} {pool.name}"


def read_record(claim: IPAddressClaim) -> ClaimRecord | None:
    """Return the address that a claim holds by its status; None if it holds no address.

    A claim that is being deleted holds its address until our finalizer is gone. After that it gets
    no address any more, even if another finalizer still keeps the claim.
    """
    if claim.address_name != claim.metadata.name:
        # It has no address, or another provider served it: our IPAddresses have the claim's name.
        return None
    if claim.metadata.is_terminating and CLAIM_FINALIZER not in claim.metadata.finalizers:
        return None
    ready = find_condition(claim.status.conditions, READY)
    if ready is None or ready.status != TRUE or ready.reason != ADDRESS_ALLOCATED:
        return None
    return _parse_record(ready.message, claim.spec.poolRef)


def read_restored_record(claim: IPAddressClaim) -> ClaimRecord | None:
    """Return the address that an annotation of a claim records; None without annotation.

    The annotation is there while the claim's IPAddress, restored from a backup, is deleted and
    created again. In between no IPAddress holds the address.
    """
    # A record in the status takes precedence. Without our finalizer a claim holds no address.
    if read_record(claim) is not None or CLAIM_FINALIZER not in claim.metadata.finalizers:
        return None
    record = claim.metadata.annotations.get(RESTORED_ADDRESS, "")
    return _parse_record(record, claim.spec.poolRef)


def _parse_record(record: str, pool: PoolRef) -> ClaimRecord | None:
    """Return the address in a text of `render_message`; None for another text or another pool."""
    match = _RECORD.fullmatch(record)
    if match is None or (match[3], match[4]) != (pool.kind, pool.name):
        return None
    return ClaimRecord(match[1], int(match[2]))


def is_waiting(claim: IPAddressClaim) -> bool:
    """Return whether a pool must serve a claim: it has our finalizer and no record of an address.

    This includes a claim whose IPAddress exists already: its status must still record the address.
    """
    meta = claim.metadata
    return (
        CLAIM_FINALIZER in meta.finalizers
        and not meta.is_terminating
        and read_record(claim) is None
    )


def render_ready(
    claim: IPAddressClaim, finding: ConditionFinding, version: str, now: datetime
) -> Mapping[str, Any]:
    """Return a patch of a claim's status that sets its Ready condition.

    Args:
        claim: as it was read.
        finding: status, reason and message to set.
        version: the version of the API in which the claim was read and is written.
        now: the time.
    """
    generation = claim.metadata.generation
    conditions = with_findings(claim.status.conditions, [finding], generation=generation, now=now)
    encode = to_legacy_json if version == LEGACY_VERSION else to_json
    return {"conditions": [encode(condition) for condition in conditions]}


def render_granted(
    claim: IPAddressClaim, address: IPAddress, version: str, now: datetime
) -> Mapping[str, Any]:
    """Return a patch of a claim's status that names its IPAddress and records the address.

    Address and prefix are copied from the IPAddress. If it was adopted, its prefix may differ from
    that of the pool.

    Args:
        version: the version of the API in which the claim was read and is written.
        now: the time.
    """
    message = render_message(address.spec.address, address.spec.prefix, claim.spec.poolRef)
    finding = ConditionFinding(READY, True, reason=ADDRESS_ALLOCATED, message=message)
    status = render_ready(claim, finding, version=version, now=now)
    return {**status, "addressRef": {"name": address.metadata.name}}


def to_legacy_json(condition: Condition) -> dict[str, Any]:
    """Return a condition as an entry of Cluster API's older list."""
    body = to_json(condition)
    body.pop("observedGeneration", None)
    # The older list has a severity for each condition that is not True. To wait is no error.
    if condition.status != TRUE:
        body["severity"] = "Info" if condition.reason == "PoolNotReady" else "Error"
    return body


def is_finding_shown(claim: IPAddressClaim, finding: ConditionFinding) -> bool:
    """Return whether a claim's Ready condition has the status, reason and message of a finding."""
    reason_to_show = (TRUE if finding.status else "False", finding.reason, finding.message)
    return read_shown_reason(claim) == reason_to_show


def read_shown_reason(claim: IPAddressClaim) -> tuple[str, str, str]:
    """Return status, reason and message of a claim's Ready condition; empty without condition."""
    ready = find_condition(claim.status.conditions, READY)
    return ("", "", "") if ready is None else (ready.status, ready.reason, ready.message)
