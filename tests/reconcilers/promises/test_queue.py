"""A walk along rows of waiting requests."""

from reconcilers.promises.identities import Tenant
from reconcilers.promises.queue import Rows, TenantRow, Turns

Place = tuple[int, str]


def row_of(tenant: str, answer: str) -> TenantRow:
    return TenantRow(Tenant("Claim", tenant), ("Claim", answer))


def rows(*entries: tuple[TenantRow | str, int, str]) -> Rows[Place]:
    rows = Rows[Place]()
    for row, since, name in entries:
        rows.add(row, (since, name))
    return rows


def test_a_tenant_is_left_out_without_a_look_at_each_of_its_requests() -> None:
    greedy, other = (
        row_of("greedy", "small"),
        row_of("other", "small"),
    )
    large = row_of("greedy", "large")
    turns = Turns(rows((greedy, 1, "a"), (greedy, 2, "b"), (large, 3, "c"), (other, 4, "d")))
    assert next(turns) == (1, "a")
    turns.leave_out_tenant()
    assert list(turns) == [(4, "d")]


def test_equal_requests_of_all_tenants_are_left_out_together() -> None:
    first, second = (
        row_of("a", "small"),
        row_of("b", "small"),
    )
    turns = Turns(rows((first, 1, "a"), (second, 2, "b"), (row_of("b", "large"), 3, "c")))
    assert next(turns) == (1, "a")
    turns.leave_out()
    assert list(turns) == [(3, "c")]


def test_rows_that_are_left_out_until_a_grant_go_on_behind_it() -> None:
    first, second = (
        row_of("a", "small"),
        row_of("b", "small"),
    )
    turns = Turns(
        rows(
            (first, 1, "a"),
            (second, 2, "b"),
            (row_of("b", "large"), 3, "c"),
            (first, 4, "d"),
        )
    )
    assert next(turns) == (1, "a")
    turns.leave_out(until_granted=True)
    assert next(turns) == (3, "c")
    turns.resume_paused()
    assert list(turns) == [(4, "d")]


def test_a_request_in_a_row_of_its_own_is_passed_over_alone() -> None:
    turns = Turns(rows(("a", 1, "a"), ("b", 2, "b")))
    assert next(turns) == (1, "a")
    turns.leave_out_tenant()
    assert list(turns) == [(2, "b")]
