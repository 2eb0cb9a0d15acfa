"""A pool's status: counters and conditions, as a function of the objects alone.

A *tier* is a condition that is True from some percentage of allocated addresses on. *Figures* are
the counters and the conditions that follow from them.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from allocator import Capacity
from controller.conditions import find_condition, remove_condition
from reconcilers.api.networkpool import (
    ExactCounts,
    NetworkPool,
    NetworkPoolStatus,
    SecondaryCounts,
    cap_at_int32,
)
from reconcilers.networkpool import problems
from reconcilers.networkpool.otherholders import HeldRange
from reconcilers.networkpool.protocol import PassDecision
from reconcilers.networkpool.statusjournal import JOURNAL_FIELDS
from reconcilers.networkpool.view import AllocationsView
from reconcilers.promises.unreadable import HOLDERS_UNKNOWN, UnreadableHoldings
from reconcilers.reporting.conditions import (
    FOREIGN_MANAGER,
    READY,
    ConditionFinding,
    render_conditions,
    with_findings,
)
from reconcilers.reporting.wording import count_noun, name_with_count
from reconcilers.specrules.poolnamespaces import NAMESPACE_NOT_ALLOWED, describe_refused_namespace

STALLED = "Stalled"
NO_CAPACITY = "NoCapacity"
TIERS: tuple[tuple[str, int], ...] = (
    ("CapacityWarning", 70),
    ("CapacityCritical", 85),
    ("CapacityExhausted", 95),
)


@dataclass(frozen=True, slots=True)
class PoolSummary:
    """The status of a pool that can be served, apart from its promises."""

    capacities: tuple[Capacity, ...]
    """Of its first family, and of its second."""
    allocations: int

    def describe_ready(self) -> ConditionFinding:
        """Return the Ready condition."""
        *others, last = self.capacities
        counts = " and ".join(
            [
                *(f"{other.available}/{other.total}" for other in others),
                f"{last.available}/{count_noun(last.total, 'IP')}",
            ]
        )
        allocations = count_noun(self.allocations, "allocation")
        return ConditionFinding(
            READY, True, reason="Ready", message=f"{counts} available ({allocations})"
        )

    def describe_tiers(self) -> list[ConditionFinding]:
        """Return the three capacity conditions, which are always present.

        Of two families the fuller one counts.
        """
        fullest = max(self.capacities, key=_compute_fullness)
        used, total = fullest.allocated, fullest.total
        if total == 0:
            return [
                ConditionFinding(
                    tier, False, reason=NO_CAPACITY, message="Pool has no allocatable IPs"
                )
                for tier, _ in TIERS
            ]
        of_total = f"{used}/{count_noun(total, 'IP')}"
        message = f"Pool utilization is {fullest.utilization_percent}% ({of_total})"
        return [
            ConditionFinding(
                tier,
                100 * used >= threshold * total,
                reason="UtilizationAboveThreshold"
                if 100 * used >= threshold * total
                else "UtilizationBelowThreshold",
                message=message,
            )
            for tier, threshold in TIERS
        ]

    def render_counters(self, before: NetworkPoolStatus) -> dict[str, Any]:
        """Return the counts as fields of a status patch.

        Args:
            before: the status that is patched. Its fields that no longer apply are set to null.
        """
        return {
            **_render_family(self.capacities[0], had_exact_counts=before.exactCounts is not None),
            "allocationCount": self.allocations,
            **self._render_secondary(before.secondary),
        }

    def _render_secondary(self, before: SecondaryCounts | None) -> dict[str, Any]:
        """Return the field `secondary`; a null in the patch removes it with the second family."""
        if len(self.capacities) > 1:
            had_exact_counts = before is not None and before.exactCounts is not None
            second = _render_family(self.capacities[1], had_exact_counts=had_exact_counts)
            return {"secondary": second}
        return {"secondary": None} if before is not None else {}


def _compute_fullness(capacity: Capacity) -> float:
    """Return the share of the addresses that is allocated, 0 to 1; 0 for no addresses."""
    return capacity.allocated / capacity.total if capacity.total else 0.0


def _render_family(capacity: Capacity, *, had_exact_counts: bool) -> dict[str, Any]:
    """Return the counts and percentages of one family, as a patch of the status carries them.

    Args:
        capacity: of the family.
        had_exact_counts: whether the status before has `exactCounts` of this family.
    """
    counts = {
        "totalIPs": capacity.total,
        "allocatedIPs": capacity.allocated,
        "availableIPs": capacity.available,
        "largestFreeBlock": capacity.largest_free,
    }
    return {
        **_render_counts(counts, had_exact_counts=had_exact_counts),
        "fragmentationPercent": capacity.fragmentation_percent,
        "utilizationPercent": capacity.utilization_percent,
    }


def _render_counts(counts: Mapping[str, int], *, had_exact_counts: bool) -> dict[str, Any]:
    """Return counts of addresses as the fields of a status patch.

    The fields are int32 in the API, so a larger count is capped. If any is, `exactCounts` has all
    counts as texts. A merge patch keeps a field that it lacks, so `exactCounts` of the status
    before is removed by a null once no count is too large.
    """
    shown_counts: dict[str, Any] = {name: cap_at_int32(count) for name, count in counts.items()}
    if shown_counts != counts:
        return shown_counts | {"exactCounts": {name: str(count) for name, count in counts.items()}}
    return shown_counts | ({"exactCounts": None} if had_exact_counts else {})


def summarize_pool(view: AllocationsView, decision: PassDecision) -> PoolSummary:
    """Return the figures of the pool's status once this pass' promises are kept."""
    # A holder that is in use and has a promise counts once.
    promised = sum(
        not view.holdings.get_facts(promise.holder).is_in_use
        for promise in decision.journal.promises
    )
    return PoolSummary(decision.capacities, view.holdings.in_use_count + promised)


def render_figures(  # noqa: PLR0913 - what was read, decided, and is known of other pools
    pool: NetworkPool,
    view: AllocationsView,
    decision: PassDecision,
    now: datetime,
    overlapping: ConditionFinding | None = None,
    closed: ConditionFinding | None = None,
    *,
    observed: Sequence[HeldRange] = (),
) -> dict[str, Any]:
    """Return the status of a pool whose spec is valid, without its journal.

    Args:
        view: the IPAllocations of the pool.
        decision: the ranges that the pass hands out.
        overlapping: condition for pools that hand out the same addresses; None if not known yet.
        closed: condition Ready of a pool that hands out nothing; None if it hands out ranges.
        observed: the ranges that another allocator gave; used only if the decision has problems.
    """
    figures = summarize_pool(view, decision)
    problem_findings = problems.list_findings(
        pool, view, decision=decision, overlapping=overlapping, observed=observed
    )
    manager_findings = (
        [problems.describe_no_foreign_manager()]
        if find_condition(pool.status.conditions, FOREIGN_MANAGER)
        else []
    )
    conditions = with_findings(
        remove_condition(pool.status.conditions, STALLED),
        [
            closed or figures.describe_ready(),
            *figures.describe_tiers(),
            *problem_findings,
            *manager_findings,
        ],
        generation=pool.metadata.generation,
        now=now,
    )
    return {
        **figures.render_counters(pool.status),
        "observedGeneration": pool.metadata.generation,
        "conditions": render_conditions(conditions),
    }


def render_invalid(
    pool: NetworkPool,
    problems: Sequence[str],
    now: datetime,
    closed: ConditionFinding | None = None,
) -> dict[str, Any]:
    """Return the status of a pool whose spec contradicts itself; its journal stays as it is.

    Args:
        problems: of its spec.
        now: the time.
        closed: condition Ready if another reason comes first; Stalled names the problems.
    """
    message = f"validation errors: [{', '.join(problems)}]"
    findings = [
        closed or ConditionFinding(READY, False, reason="ValidationFailed", message=message),
        ConditionFinding(STALLED, True, reason="ValidationFailed", message=message),
        *(
            ConditionFinding(
                tier, False, reason=NO_CAPACITY, message="Pool has no allocatable IPs"
            )
            for tier, _ in TIERS
        ),
    ]
    # An invalid pool offers no address. The number of allocated addresses is not computed again.
    nothing = {"totalIPs": 0, "availableIPs": 0, "largestFreeBlock": 0}
    before = pool.status
    counts = _render_counts(
        nothing | {"allocatedIPs": before.allocated},
        had_exact_counts=before.exactCounts is not None,
    )
    # The field has this number already; only exactCounts must be rendered with all counts.
    if before.exactCounts is None:
        del counts["allocatedIPs"]
    if before.secondary is not None:
        counts["secondary"] = None
    return counts | _render_conditions_only(pool, findings, now)


def render_unreadable(pool: NetworkPool, why: UnreadableHoldings, now: datetime) -> dict[str, Any]:
    """Return the status of a pool while objects that may hold its ranges cannot be decoded."""
    effect = "the pool is not deleted" if pool.metadata.is_terminating else "nothing is handed out"
    message = f"{effect} until they are repaired or deleted: {why}"
    return _render_conditions_only(
        pool, [ConditionFinding(READY, False, reason=why.reason, message=message)], now
    )


def render_unknown_holders(pool: NetworkPool, why: str, now: datetime) -> dict[str, Any]:
    """Return the status of a pool for which a pass cannot know yet what is held."""
    return _render_conditions_only(pool, [describe_unknown_holders(pool, why)], now)


def describe_unknown_holders(pool: NetworkPool, why: str) -> ConditionFinding:
    """Return condition Ready of a pool for which a pass cannot know yet what is held."""
    effect = "the pool is not deleted" if pool.metadata.is_terminating else "nothing is handed out"
    message = f"{effect} until that is known: {why}"
    return ConditionFinding(READY, False, reason=HOLDERS_UNKNOWN, message=message)


def find_shown_wait(pool: NetworkPool) -> str:
    """Return the message of a pool's status about unknown holders; empty without one."""
    ready = find_condition(pool.status.conditions, READY)
    return ready.message if ready is not None and ready.reason == HOLDERS_UNKNOWN else ""


def render_outdated_definition(pool: NetworkPool, now: datetime) -> dict[str, Any]:
    """Return the status of a pool whose journal the API server does not store as it is written.

    What is stored instead does not match its checksum, so it counts as lost for every replica.
    """
    message = (
        "nothing is handed out: the CustomResourceDefinition in force drops fields of the journal"
        " (status.assignments, status.revisions and status.journalOf), or an admission webhook or"
        " policy changes them; apply the definition of this version (butler-ipam crds), and let"
        " nothing change these fields"
    )
    finding = ConditionFinding(READY, False, reason="DefinitionOutdated", message=message)
    return _render_conditions_only(pool, [finding], now)


def find_namespace_block(pool: NetworkPool, namespaces: Sequence[str]) -> ConditionFinding | None:
    """Return condition Ready if the pool's namespace may not hand out ranges; None if it may.

    Args:
        namespaces: those of `--pool-namespaces`; empty for all.
    """
    why = describe_refused_namespace(pool.metadata.namespace, namespaces)
    if not why:
        return None
    message = f"nothing is handed out, ranges from before are kept: {why}"
    return ConditionFinding(READY, False, reason=NAMESPACE_NOT_ALLOWED, message=message)


def render_foreign_managed(
    pool: NetworkPool, other: problems.ForeignManager, now: datetime
) -> dict[str, Any]:
    """Return the status of a pool that hands out nothing as long as another controller writes."""
    return _render_conditions_only(pool, other.list_findings(pool), now)


def describe_waiting_deletion(blockers: int, claims: Iterable[HeldRange] = ()) -> ConditionFinding:
    """Return condition Ready of a pool whose deletion waits for `blockers` allocations and claims.

    Args:
        blockers: how many there are.
        claims: what claims hold of it; the condition names them.
    """
    message = f"waiting for {count_noun(blockers, 'active allocation')} to be released"
    holders = sorted(holding.text for holding in claims)
    if holders:
        message += f", among them {name_with_count(holders)}"
    return ConditionFinding(READY, False, reason="Deleting", message=message)


def render_ready_only(pool: NetworkPool, ready: ConditionFinding, now: datetime) -> dict[str, Any]:
    """Return a status with a new condition Ready; the figures, which are not known, stay.

    Args:
        ready: the new condition, which tells why the deletion waits, for example.
        now: the time.
    """
    return _render_conditions_only(pool, [ready], now)


def _render_conditions_only(
    pool: NetworkPool, findings: Sequence[ConditionFinding], now: datetime
) -> dict[str, Any]:
    """Return a status patch with conditions and observedGeneration; the rest stays as it is."""
    generation = pool.metadata.generation
    conditions = with_findings(pool.status.conditions, findings, generation=generation, now=now)
    return {"observedGeneration": generation, "conditions": render_conditions(conditions)}


def differs(status: NetworkPoolStatus, new_status: Mapping[str, Any]) -> bool:
    """Return whether `new_status` differs from the status, apart from the journal.

    Promises that are over need no write of their own: the next write drops them.
    """
    ignored = JOURNAL_FIELDS | {"conditions"}
    figures_differ = any(
        _render_value(getattr(status, name)) != value
        for name, value in new_status.items()
        if name not in ignored
    )
    return figures_differ or render_conditions(status.conditions) != new_status["conditions"]


def _render_value(value: object) -> object:
    """Return a value of a status as a write carries it: counts as mappings, without None."""
    if not isinstance(value, ExactCounts | SecondaryCounts):
        return value
    # Counts of the secondary family hold exact counts; msgspec's asdict would leave these as they
    # are.
    rendered = ((name, _render_value(getattr(value, name))) for name in value.__struct_fields__)
    return {name: part for name, part in rendered if part is not None}
