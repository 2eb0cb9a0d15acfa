"""The order in which a pass tries waiting requests, and which rows of them it leaves out.

A row is a queue of equal requests of one tenant. A request is here a number, by which it waits
longer the lower it is, and a name.
"""

from reconcilers.promises.identities import Tenant
from reconcilers.promises.queue import Rows, TenantRow, Turns

Place = tuple[int, str]


def make_row(tenant: str, answer: str) -> TenantRow:
    """Return the row of a tenant's requests that get the same answer."""
    return TenantRow(Tenant("Claim", tenant), ("Claim", answer))


def make_rows(*entries: tuple[TenantRow | str, int, str]) -> Rows[Place]:
    """Return the rows of requests, each given by row, number and name."""
    rows = Rows[Place]()
    for row, since, name in entries:
        rows.add(row, (since, name))
    return rows


def test_all_rows_of_a_tenant_are_left_out_together() -> None:
    greedy, other = (
        make_row("greedy", "small"),
        make_row("other", "small"),
    )
    large = make_row("greedy", "large")
    turns = Turns(make_rows((greedy, 1, "a"), (greedy, 2, "b"), (large, 3, "c"), (other, 4, "d")))
    assert next(turns) == (1, "a")
    turns.leave_out_tenant()
    assert list(turns) == [(4, "d")]


def test_equal_requests_of_all_tenants_are_left_out_together() -> None:
    first, second = (
        make_row("a", "small"),
        make_row("b", "small"),
    )
    turns = Turns(make_rows((first, 1, "a"), (second, 2, "b"), (make_row("b", "large"), 3, "c")))
    assert next(turns) == (1, "a")
    turns.leave_out()
    assert list(turns) == [(3, "c")]


def test_rows_that_are_left_out_until_a_grant_resume_with_later_requests() -> None:
    first, second = (
        make_row("a", "small"),
        make_row("b", "small"),
    )
    turns = Turns(
        make_rows(
            (first, 1, "a"),
            (second, 2, "b"),
            (make_row("b", "large"), 3, "c"),
            (first, 4, "d"),
        )
    )
    assert next(turns) == (1, "a")
    turns.leave_out(until_granted=True)
    assert next(turns) == (3, "c")
    turns.resume_paused()
    assert list(turns) == [(4, "d")]


def test_leaving_out_the_tenant_of_a_row_without_tenant_skips_one_request() -> None:
    turns = Turns(make_rows(("a", 1, "a"), ("b", 2, "b")))
    assert next(turns) == (1, "a")
    turns.leave_out_tenant()
    assert list(turns) == [(2, "b")]
