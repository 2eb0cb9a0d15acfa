"""The output formats of a plan: table, YAML and JSON."""

from pathlib import Path

import click
import pytest
import yaml

from reconcilers.cli.output import Cell, TableColumn, draw_bar, render_table
from tests.reconcilers.cli.commandline import (
    make_allocation,
    make_cluster,
    make_held_status,
    make_pool,
    make_provider,
    plan,
    plan_text,
    run,
)

TABLE = Path(__file__).parents[2] / "data" / "plan-table.txt"


def dump_yaml(*objects: object) -> str:
    """Return objects as YAML documents."""
    return yaml.safe_dump_all(objects, sort_keys=False)


def test_the_table_of_a_plan_equals_the_stored_table() -> None:
    outcome = plan_text(
        dump_yaml(
            make_pool(cidr="10.40.0.0/27"),
            make_provider("prov", "lab"),
            make_cluster(),
            make_allocation(
                "old", 8, status=make_held_status("10.40.0.16", "10.40.0.23"), tenant="team/x"
            ),
            make_allocation("huge", 16, tenant="team/z"),
        )
    )
    assert outcome.code == 0
    assert outcome.out == TABLE.read_text(encoding="utf-8")


def test_the_table_contains_the_reason_of_a_failed_request() -> None:
    outcome = plan_text(
        dump_yaml(make_pool(cidr="10.0.0.0/30"), make_allocation("a", 8), make_allocation("b"))
    )
    assert "Failed  PoolExhausted: pool exhausted: no contiguous block available" in outcome.out
    assert "it never has 8 addresses in a row, 4 at the most\n" in outcome.out
    assert "2 allocations: 2 failed\n" in outcome.out


def test_the_table_contains_the_reason_why_a_pool_is_not_ready() -> None:
    outcome = plan_text(dump_yaml(make_pool(cidr="10.0.0.0/33"), make_allocation("a", 8)))
    assert "no: validation errors: [invalid pool CIDR" in outcome.out
    assert "1 allocation: 1 waiting\n" in outcome.out


def test_yaml_and_json_hold_the_same_list() -> None:
    objects = dump_yaml(make_pool(), make_allocation("a", 4))
    printed = [yaml.safe_load(plan_text(objects, "-o", form).out) for form in ("yaml", "json")]
    for document in printed:
        assert (document["apiVersion"], document["kind"]) == ("v1", "List")
        assert [item["kind"] for item in document["items"]] == ["NetworkPool", "IPAllocation"]
    for item, other in zip(printed[0]["items"], printed[1]["items"], strict=True):
        assert item["spec"] == other["spec"]
        assert item["status"].keys() == other["status"].keys()


@pytest.mark.parametrize("form", ["yaml", "json"])
def test_labels_and_finalizers_of_the_input_are_in_the_output(form: str) -> None:
    request = make_allocation("a", 4, labels={"team": "a"}, finalizers=["example.com/x"])
    document = yaml.safe_load(plan_text(dump_yaml(make_pool(), request), "-o", form).out)
    metadata = document["items"][1]["metadata"]
    assert (metadata["labels"], metadata["finalizers"]) == ({"team": "a"}, ["example.com/x"])


def test_objects_are_printed_in_the_order_of_the_input_and_new_ones_at_the_end() -> None:
    outcome = plan(
        make_cluster(), make_allocation("a", 4), make_provider("prov", "lab"), make_pool()
    )
    assert list(outcome.items) == [
        *("TenantCluster/app", "IPAllocation/a", "ProviderConfig/prov", "NetworkPool/lab"),
        *("IPAllocation/team-app-lb", "IPAllocation/team-app-nodes"),
    ]


def test_metadata_and_spec_of_the_input_are_printed_unchanged() -> None:
    labels = {"example.com/why": "because"}
    network_pool = make_pool(
        labels=labels,
        uid="u",
        resourceVersion="7",
        generation=3,
        tenant_allocation={"defaults": {}},
    )
    planned = plan(network_pool).items["NetworkPool/lab"]
    assert planned["metadata"] == network_pool["metadata"]
    assert planned["spec"] == network_pool["spec"]
    assert planned["status"]["observedGeneration"] == 3


def test_a_range_of_more_than_65536_addresses_lists_the_first_of_them() -> None:
    outcome = plan(make_pool(cidr="10.0.0.0/12"), make_allocation("a", 70_000))
    status = outcome.items["IPAllocation/a"]["status"]
    assert status["allocatedCount"] == 70_000
    assert len(status["addresses"]) == 65_536


def test_a_plan_of_a_missing_file_prints_an_empty_list() -> None:
    outcome = run("plan", "-f", "/nowhere/at/all", "-o", "json")
    assert outcome.code == 1
    assert outcome.items == {}


def test_standard_output_is_valid_yaml_if_there_are_errors() -> None:
    full = [make_pool(cidr="10.0.0.0/30"), make_provider("prov", "gone", "lab"), make_cluster()]
    yaml.safe_load(plan_text(dump_yaml(*full), "-o", "yaml").out)


@pytest.mark.parametrize(
    ("used", "total", "expected"),
    [
        (0, 0, "[--------------------]   0%"),
        (0, 256, "[--------------------]   0%"),
        (1, 256, "[#-------------------]   0%"),
        (128, 256, "[##########----------]  50%"),
        (255, 256, "[####################]  99%"),
        (256, 256, "[####################] 100%"),
    ],
)
def test_a_bar_shows_the_smallest_use_and_rounds_the_percentage_down(
    used: int, total: int, expected: str
) -> None:
    assert draw_bar(used, total).content == expected


def test_bars_turn_yellow_and_red_at_the_pools_own_thresholds() -> None:
    assert [draw_bar(used, 100).colour for used in (69, 70, 94, 95)] == [
        *("green", "yellow", "yellow", "red"),
    ]


def test_columns_with_colours_are_aligned() -> None:
    columns: list[TableColumn[tuple[str, int]]] = [
        TableColumn("NAME", lambda row: Cell(row[0], "red")),
        TableColumn("COUNT", lambda row: row[1]),
    ]
    lines = render_table(columns, [("a", 5), ("longer", 1000)])
    assert click.unstyle(lines) == "NAME    COUNT\na           5\nlonger  1,000\n"
