"""What is said of the demand of an elastic tenant, in its condition."""

from collections.abc import Sequence
from dataclasses import replace

from reconcilers.conditions import Finding
from reconcilers.tenantcluster.elastic.demand import MOST_SERVICES, Elsewhere
from reconcilers.tenantcluster.status import demand_met
from reconcilers.wording import count_noun

MOST_NAMED = 3
"""Services that are named in one condition."""


def counted(services: int) -> str:
    """Return how many Services, in words."""
    return count_noun(services, "Service")


def with_unexamined(finding: Finding, services: int) -> Finding:
    """Return a condition that also reports the Services that this pass did not examine.

    Args:
        finding: the condition, from the Services that were examined.
        services: how many others have no address.
    """
    if not services:
        return finding
    others = count_noun(services, "more has no address and was", "more have no address and were")
    return replace(
        finding,
        message=f"{finding.message}; {others} not examined: of one"
        f" tenant {MOST_SERVICES} are at a time",
    )


def no_growth_due(unserved: int, elsewhere: Sequence[Elsewhere]) -> Finding:
    """Return the condition of a tenant for which nothing has to be done.

    Services that have just begun to wait are not counted: most wait for a second, and each would
    cost two writes on the management cluster. Those that ask for what is not ours are named: it is
    for their owners to mend, so the condition is True.
    """
    if unserved:
        return demand_met(
            False,
            "GrownInVain",
            f"{counted(unserved)} without an address; growing did not help,"
            " see the events of the Service in the tenant",
        )
    met = "no Service has been without an address for long"
    if not elsewhere:
        return demand_met(True, "Ready", met)
    ordered = sorted(elsewhere, key=lambda one: one.service.metadata.key)
    named = [f"{one.service.metadata.key} asks for {one.asks}" for one in ordered[:MOST_NAMED]]
    more = len(ordered) - len(named)
    return demand_met(
        True,
        ordered[0].reason,
        f"{met} that could have one of ours; {'; '.join(named)}"
        + (f"; {count_noun(more, 'more is', 'more are')} like that" if more else ""),
    )
