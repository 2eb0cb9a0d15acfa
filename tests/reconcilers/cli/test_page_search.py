"""The search, the filters and the export of the map page, in a real browser."""

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest

from tests.reconcilers.cli.commandline import make_allocation, make_pool
from tests.reconcilers.cli.saved import make_holder, make_saved_cluster
from tests.reconcilers.cli.test_page import DRAWN, MapTab, open_page

EAST, WEST, SIX = "butler-system/east", "butler-system/west", "butler-system/six"
FULL = {
    "type": "Ready",
    "status": "False",
    "reason": "PoolExhausted",
    "message": "no free block of 400 addresses",
    "lastTransitionTime": "2026-01-01T00:00:00Z",
}
OBJECTS = (
    make_pool("east", "10.0.0.0/24", reserved=["10.0.0.128/25"]),
    make_pool("west", "10.16.0.0/26"),
    make_pool("six", "fd00:10::/48"),
    make_holder("web", "10.0.0.0", "10.0.0.7", pool="east", tenant="team/red"),
    make_holder("db", "10.0.0.16", "10.0.0.31", pool="east", tenant="team/blue"),
    make_holder(
        "far", "fd00:10:0:1::", "fd00:10:0:1:ffff:ffff:ffff:ffff", pool="six", tenant="team/red"
    ),
    make_allocation("waits", 400, pool="west", tenant="team/blue", status={"conditions": [FULL]}),
    *(make_saved_cluster(name, "team", uid=f"u-{name}") for name in ("red", "blue", "idle")),
)


async def list_rows(page: MapTab, table: str) -> list[str]:
    """Return the first column of a table."""
    await page.wait_until_drawn()
    cells = f"[...document.querySelectorAll('#{table} tbody th')]"
    cell_texts: list[str] = await page.value(f"{cells}.map((cell) => cell.textContent)")
    return cell_texts


@pytest.mark.slow
async def test_the_search_finds_addresses_cidrs_and_ranges(tmp_path: Path) -> None:
    async with open_page(tmp_path, objects=OBJECTS) as page:
        # The query, and the pools and the tenants that the page shows then.
        for query, pools, tenants in (
            ("10.0.0.3", [EAST], ["team/red"]),
            ("::ffff:10.0.0.3", [EAST], ["team/red"]),
            ("10.0.0.7-10.0.0.16", [EAST], ["team/blue", "team/red"]),
            ("10.0.0.0/28", [EAST], ["team/red"]),
            ("10.0.0.200", [EAST], []),
            ("10.0.0.0/11", [EAST, WEST], ["team/blue", "team/red"]),
            ("FD00:10:0:1::/64", [SIX], ["team/red"]),
            ("fd00:10:0:1::5", [SIX], ["team/red"]),
        ):
            await page.search(query)
            assert await page.list_shown_pools() == pools, query
            assert sorted(await list_rows(page, "tenants-table")) == tenants, query
        for wrong in (
            "10.0.0.9-10.0.0.3",
            "10.060.0.8",
            "10.0.0.0/33",
            "10.0.0",
            "1.2.3.4/24/8",
            "::/129",
        ):
            assert await page.value(f"parseSpan({json.dumps(wrong)})") is None


@pytest.mark.slow
async def test_the_search_finds_names_reasons_and_waiting_requests(tmp_path: Path) -> None:
    async with open_page(tmp_path, objects=OBJECTS) as page:
        # The query, and the pools and the waiting requests that the page shows then.
        for query, pools, requests in (
            ("waiting", [WEST], ["butler-system/waits"]),
            ("free block of 400", [WEST], ["butler-system/waits"]),
            ("west waits", [WEST], ["butler-system/waits"]),
            ("team/red allocated", [EAST, SIX], []),
            ("reserved", [EAST], []),
        ):
            await page.search(query)
            assert await page.list_shown_pools() == pools, query
            assert await list_rows(page, "waiting-table") == requests, query
        await page.search("waiting")
        assert await page.read_count() == "0 of 9 ranges match"
        assert await list_rows(page, "tenants-table") == ["team/blue"]


@pytest.mark.slow
async def test_filters_are_stored_in_the_url_and_restored_from_it(tmp_path: Path) -> None:
    async with open_page(tmp_path, objects=OBJECTS) as page:
        await page.search("10.0.0.0/28")
        await page.value(
            "(() => { const box = document.getElementById('tenant'); box.value = 'team/red';"
            " box.dispatchEvent(new Event('change'));"
            " document.querySelector('input[name=free]').click(); })()"
        )
        url = await page.value("location.href")
        assert url.endswith("#find=10.0.0.0/28&tenant=team/red&hide=free")
        await page.call("Page.navigate", url="about:blank")
        await page.tab.show(url)
        await page.tab.until(DRAWN)
        assert await page.value("document.getElementById('find').value") == "10.0.0.0/28"
        assert await page.value("document.getElementById('tenant').value") == "team/red"
        assert not await page.value("document.querySelector('input[name=free]').checked")
        assert await page.list_shown_pools() == [EAST]
        await page.value("location.hash = '#family=6'")
        await page.tab.until("filters.family === '6'")
        assert await page.list_shown_pools() == [SIX]
        assert await page.value("document.getElementById('find').value") == ""


@pytest.mark.slow
async def test_a_slash_goes_to_the_search_and_enter_to_the_first_match(tmp_path: Path) -> None:
    async with open_page(tmp_path, objects=OBJECTS) as page:
        await page.press("/")
        assert await page.value("document.activeElement.id") == "find"
        await page.press(*"10.0.0.18/32")
        assert await page.value("document.getElementById('find').value") == "10.0.0.18/32"
        await page.call("Input.dispatchKeyEvent", type="keyDown", key="Enter", text="\r")
        await page.tab.until("document.activeElement.className.includes('map')")
        assert await page.read_pool_state("cursor") == 18
        assert "butler-system/db for team/blue" in await page.read_map_line()


@pytest.mark.slow
async def test_the_filters_are_evaluated_once_after_several_keys(tmp_path: Path) -> None:
    async with open_page(tmp_path, objects=OBJECTS) as page:
        await page.value(
            "(() => { window.before = filtersVersion;"
            " for (const text of ['1', '10', '10.', '10.0.0.3']) {"
            " const box = document.getElementById('find'); box.value = text;"
            " box.dispatchEvent(new Event('input')); } })()"
        )
        await page.tab.until("filters.find === '10.0.0.3'")
        assert await page.value("filtersVersion - window.before") == 1


@pytest.mark.slow
async def test_matching_ranges_are_exported_as_csv_and_json(tmp_path: Path) -> None:
    evil = make_pool("evil", "10.9.0.0/29")
    evil["spec"]["reserved"] = [{"cidr": "10.9.0.0/31", "description": '=cmd|"calc", 1'}]
    async with open_page(tmp_path, objects=(*OBJECTS, evil)) as page:
        exported: list[dict[str, Any]]
        await page.value(
            "(() => { const real = URL.createObjectURL;"
            " URL.createObjectURL = (file) => { window.saved = file; return real(file); }; })()"
        )
        await page.search("team/blue")
        await page.value("document.getElementById('as-json').click()")
        document = json.loads(await page.value("window.saved.text()"))
        assert document["filters"]["find"] == "team/blue"
        exported = document["items"]
        assert [(row["state"], row["allocation"]) for row in exported] == [
            ("allocated", "butler-system/db"),
            ("waiting", "butler-system/waits"),
        ]
        assert (exported[0]["start"], exported[0]["addresses"]) == ("10.0.0.16", "16")
        await page.search("10.9.0.0/31")
        await page.value("document.getElementById('as-csv').click()")
        saved = await page.value("window.saved.text()")
        [exported_row] = csv.DictReader(io.StringIO(saved))
        assert exported_row["note"] == '\'=cmd|"calc", 1', "no spreadsheet evaluates it"
        assert (exported_row["start"], exported_row["end"]) == ("10.9.0.0", "10.9.0.1")


@pytest.mark.slow
async def test_a_request_to_a_pool_of_two_families_is_listed_once(tmp_path: Path) -> None:
    dual = make_pool("dual", "10.9.0.0/29")
    dual["spec"]["secondary"] = {"cidr": "fd00:9::/64"}
    request = make_allocation(
        "huge", 4000, pool="dual", tenant="team/red", status={"conditions": [FULL]}
    )
    async with open_page(tmp_path, objects=(*OBJECTS, dual, request)) as page:
        await page.search("huge")
        assert await list_rows(page, "waiting-table") == ["butler-system/huge"]
        assert await page.value("select().waiting") == 2, "beside the other pool's request"


@pytest.mark.slow
async def test_the_search_text_of_a_request_uses_the_newest_state_of_its_pool(
    tmp_path: Path,
) -> None:
    async with open_page(tmp_path, objects=OBJECTS) as page:
        query = (
            "(() => { const pool = [...store.pools.values()].find((pool) => pool.waiting);"
            " [...pool.requests.values()].forEach(requestText);"
            ' take({pools: {set: {[pool.key]: {reason: "zzzreason"}}, drop: []}});'
            " const now = store.pools.get(pool.key);"
            " return requestText([...now.requests.values()][0]); })()"
        )
        assert "zzzreason" in await page.value(query)


@pytest.mark.slow
async def test_addresses_of_ipv6_are_counted_in_prefixes(tmp_path: Path) -> None:
    async with open_page(tmp_path, objects=OBJECTS) as page:
        counts = {
            256: "256",
            2**64: "/64",
            2**80: "/48",
            3 * 2**64: "3 × /64",
            2**80 - 2**64: "65,535 × /64",
            2**96 - 8: "≈65,536 × /48",
            2**64 - 1: "≈65,536 × /80",
        }
        for value, label in counts.items():
            assert await page.value(f"addressCount(6, {value}n)") == label
        assert await page.value(f"addressCount(4, {2**24}n)") == "16,777,216"
        six = "document.querySelector('[data-pool=\"butler-system/six\"] header').textContent"
        assert "65,535 × /64 of /48 free" in await page.value(six)


@pytest.mark.slow
async def test_a_page_of_many_pools_and_tenants_has_few_nodes_and_finds_the_last(
    tmp_path: Path,
) -> None:
    pools = [make_pool(f"p{at}", f"10.{at}.0.0/24") for at in range(30)]
    tenants = [
        make_saved_cluster(f"c{number:04}", "team", uid=f"u{number}") for number in range(1000)
    ]
    async with open_page(tmp_path, objects=(*pools, *tenants)) as page:
        assert await page.value("document.querySelectorAll('*').length") < 3000
        assert await page.value("document.querySelectorAll('canvas.map').length") == 0
        table = "document.getElementById('tenants-table')"
        assert await page.value(f"{table}.getAttribute('aria-rowcount')") == "1001"
        region = f"{table}.closest('.wide')"
        await page.value(f"{region}.scrollTop = {region}.scrollHeight")
        await page.tab.until(f"{table}.textContent.includes('team/c0999')")
        assert not await page.value(f"{table}.textContent.includes('team/c0000')")
        await page.search("p17")
        assert await page.value("document.querySelectorAll('canvas.map').length") == 1
        assert await page.list_shown_pools() == ["butler-system/p17"]
        await page.search("")
        await page.value(
            "document.querySelector('[aria-label=\"map: butler-system/p3\"]').click()"
        )
        opener = "document.querySelector('[aria-label=\"map: butler-system/p3\"]')"
        assert await page.value(f"{opener}.getAttribute('aria-expanded')") == "true"


@pytest.mark.slow
async def test_the_focus_stays_in_a_table_whose_rows_scroll_away(tmp_path: Path) -> None:
    tenants = [
        make_saved_cluster(f"c{number:04}", "team", uid=f"u{number}") for number in range(500)
    ]
    async with open_page(tmp_path, objects=(make_pool("lab", "10.0.0.0/24"), *tenants)) as page:
        table = "document.getElementById('tenants-table')"
        await page.value(f"{table}.querySelector('tbody a').focus()")
        await page.value(f"{table}.closest('.wide').scrollTop = 5000")
        await page.tab.until(f"!{table}.textContent.includes('team/c0000')")
        assert await page.value("document.activeElement.getAttribute('aria-label')") == (
            "Table of tenants"
        )
