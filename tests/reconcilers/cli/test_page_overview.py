"""The overview of the map page, its filters, links and the printed page, in a real browser."""

import base64
import json
from pathlib import Path

from tests.reconcilers.cli import test_claims as claims
from tests.reconcilers.cli import test_platforms as platforms
from tests.reconcilers.cli.commandline import make_allocation, make_pool
from tests.reconcilers.cli.saved import make_holder, make_saved_cluster
from tests.reconcilers.cli.test_page import DRAWN, MapTab, open_page

OBJECTS = (
    make_pool("east", "10.0.0.0/24"),
    make_pool("west", "10.16.0.0/26"),
    make_pool("six", "fd00:10::/64"),
    make_holder("a", "10.0.0.0", "10.0.0.7", pool="east", tenant="team/red"),
    make_holder("b", "10.16.0.0", "10.16.0.31", pool="west", tenant="team/blue"),
    make_holder("c", "10.16.0.32", "10.16.0.39", pool="west", tenant="team/red"),
    make_holder("d", "fd00:10::", "fd00:10::ff", pool="six", tenant="team/red"),
    make_allocation("waits", 400, pool="west"),
    make_saved_cluster("red", "team"),
)


async def list_column(page: MapTab, table: str, at: int) -> list[str]:
    """Return the texts in the column with index `at` of a table."""
    await page.wait_until_drawn()
    cells = (
        f"[...document.querySelectorAll('#{table} tbody tr:not(.spacer)')]"
        f".map((row) => row.cells[{at}])"
    )
    cell_texts: list[str] = await page.value(f"{cells}.map((cell) => cell.textContent)")
    return cell_texts


async def select_first_range(page: MapTab) -> None:
    """Move the cursor of the first map to the pool's first range; its details are shown then."""
    await page.value("document.querySelector('canvas.map').focus()")
    await page.press("Home")


async def list_kubectl_commands(page: MapTab) -> list[str]:
    """Return the commands in the details of the selected range."""
    codes = "[...document.querySelectorAll('.where code')].map((code) => code.textContent)"
    commands: list[str] = await page.value(codes)
    return commands


async def select_option(page: MapTab, name: str, value: str) -> None:
    """Choose a value in the select box with the id `name`."""
    await page.value(
        f"(() => {{ const box = document.getElementById('{name}');"
        f" box.value = {json.dumps(value)}; box.dispatchEvent(new Event('change')); }})()"
    )


async def test_pools_are_sorted_by_use_or_by_the_column_that_is_clicked(tmp_path: Path) -> None:
    async with open_page(tmp_path, objects=OBJECTS) as page:
        west, east, six = (f"butler-system/{name}" for name in ("west", "east", "six"))
        assert await list_column(page, "pools-table", 0) == [west, east, six]
        assert await list_column(page, "pools-table", 1) == ["62%", "3%", "0%"]
        assert await list_column(page, "pools-table", 7) == ["1", "0", "0"]
        for order in ([six, east, west], [west, east, six]):
            await page.value("document.querySelector('[data-sort$=\"largest free\"]').click()")
            assert await list_column(page, "pools-table", 0) == order
        sort = "document.querySelector('#pools-table [aria-sort]')"
        assert await page.value(f"{sort}.textContent") == "largest free"
        assert await page.value(f"{sort}.getAttribute('aria-sort')") == "ascending"


async def test_the_filters_of_tenant_and_family_hide_other_pools(tmp_path: Path) -> None:
    async with open_page(tmp_path, objects=OBJECTS) as page:
        await select_option(page, "tenant", "team/blue")
        assert await page.list_shown_pools() == ["butler-system/west"]
        assert await list_column(page, "pools-table", 0) == ["butler-system/west"]
        await select_option(page, "tenant", "")
        await select_option(page, "family", "6")
        assert await page.list_shown_pools() == ["butler-system/six"]
        await select_option(page, "family", "4")
        assert await page.list_shown_pools() == ["butler-system/east", "butler-system/west"]


async def test_tenants_without_a_tenant_cluster_are_listed_too(tmp_path: Path) -> None:
    async with open_page(tmp_path, objects=OBJECTS) as page:
        assert await list_column(page, "tenants-table", 0) == [
            "others/one",
            "team/blue",
            "team/red",
        ]
        assert await list_column(page, "tenants-table", 3) == ["0", "32", "16 + 256"]
        ready = await list_column(page, "tenants-table", 6)
        assert ready[1] == "Unknown: no such TenantCluster"


async def test_counts_above_the_exact_numbers_of_a_browser_are_added_up_and_sorted(
    tmp_path: Path,
) -> None:
    huge = (
        make_pool("six", "fd00::/48"),
        make_holder("a", "fd00::", "fd00::7fff:ffff:ffff:ffff", pool="six", tenant="team/half"),
        make_holder("b", "fd00:0:0:1::", "fd00:0:0:2::", pool="six", tenant="team/whole"),
    )
    async with open_page(tmp_path, objects=huge) as page:
        for order in (["team/whole", "team/half"], ["team/half", "team/whole"]):
            await page.value("document.querySelector('[data-sort$=\"load balancers\"]').click()")
            assert await list_column(page, "tenants-table", 0) == order
        sums = (
            "`${shownPools()[0].allocated} ${sum(store.tenants.get('team/whole').loadbalancer)}`"
        )
        assert await page.value(sums) == f"{2**63 + 2**64 + 1} {2**64 + 1}"


async def test_a_range_has_kubectl_commands_for_its_allocation_and_tenant(
    tmp_path: Path,
) -> None:
    async with open_page(tmp_path, objects=OBJECTS) as page:
        await select_first_range(page)
        assert await list_kubectl_commands(page) == [
            "kubectl -n butler-system describe ipallocation a",
            "kubectl -n team describe tenantcluster red",
        ]


async def test_a_range_has_links_to_its_entry_in_the_list_and_to_the_filter_of_its_tenant(
    tmp_path: Path,
) -> None:
    async with open_page(tmp_path, objects=OBJECTS) as page:
        await select_first_range(page)
        links = "[...document.querySelector('.where').querySelectorAll('a')]"
        await page.value(f"{links}[0].click()")
        assert "butler-system/a" in await page.value("document.activeElement.textContent")
        await page.value(f"{links}[1].click()")
        assert await page.value("document.getElementById('tenant').value") == "team/red"
        count = await page.read_count()
        assert count.startswith("3 of "), "the tenant's ranges in the other pools match, too"


async def test_the_commands_for_a_range_of_another_platform_name_no_tenant_cluster(
    tmp_path: Path,
) -> None:
    objects = (
        platforms.make_ipam_pool("metallb", east=platforms.RANGE),
        platforms.make_kkp_cluster("blue", "east"),
        platforms.make_ipam_allocation("metallb", "blue", "east", addresses=["10.1.0.0-10.1.0.3"]),
    )
    async with open_page(tmp_path, objects=objects) as page:
        await select_first_range(page)
        assert await list_kubectl_commands(page) == [
            "kubectl -n cluster-blue describe ipamallocation metallb"
        ]


async def test_an_address_of_a_family_that_a_pool_lacks_is_listed(tmp_path: Path) -> None:
    objects = (claims.make_ip_pool("p", "10.0.0.10"), claims.make_address("web", "p", "fd00::5"))
    async with open_page(tmp_path, objects=objects) as page:
        described = "shownPools()[0].extents.map((one) => describe(shownPools()[0], one)).join()"
        assert "fd00::5  (1)  ·  stray" in await page.value(described)


async def test_a_map_zooms_to_its_used_addresses(tmp_path: Path) -> None:
    big = (
        make_pool("big", "10.16.0.0/12"),
        make_holder("a", "10.20.0.0", "10.20.0.63", pool="big"),
    )
    async with open_page(tmp_path, objects=big) as page:
        first = 4 << 16  # the offset of 10.20.0.0 in 10.16.0.0/12
        await page.value("document.querySelector('canvas.map').focus()")
        for _ in range(20):
            await page.press("+")
            start, span = (
                await page.read_pool_state("from", "big"),
                await page.read_pool_state("span", "big"),
            )
            assert start <= first < start + span
        await page.press("0", "u")
        assert await page.read_pool_state("span", "big") == 128, (
            "four addresses a row are the least"
        )
        assert await page.read_pool_state("from", "big") == first


async def test_ranges_of_tenants_have_different_looks_and_the_tenants_names(
    tmp_path: Path,
) -> None:
    async with open_page(tmp_path, objects=OBJECTS) as page:
        drawn_texts = (
            "(() => { const seen = [], real = CanvasRenderingContext2D.prototype.fillText;"
            " CanvasRenderingContext2D.prototype.fillText = function (text, ...rest) {"
            " seen.push(text); return real.call(this, text, ...rest); };"
            " for (const panel of panels.values()) drawMap(panel);"
            " CanvasRenderingContext2D.prototype.fillText = real; return seen; })()"
        )
        assert {"team/red", "team/blue"} <= set(await page.value(drawn_texts))
        looks = "JSON.stringify([lookOf('team/red'), lookOf('team/blue')])"
        red, blue = json.loads(await page.value(looks))
        assert red != blue


async def test_a_narrow_window_has_names_below_a_map_and_bars_in_sight(tmp_path: Path) -> None:
    """There is no room for names beside the ranges; the bars are the point of the overview."""
    async with open_page(tmp_path, width=400, objects=OBJECTS) as page:
        names = "[...document.querySelectorAll('.key')].map((one) => one.textContent)"
        for at in range(3):
            map_ = f"document.querySelectorAll('canvas.map')[{at}]"
            await page.value(f"{map_}.scrollIntoView({{block: 'center'}})")
            await page.tab.until(f"{map_}.width && {DRAWN}")
        await page.value("window.scrollTo(0, 0)")
        assert await page.value(names) == ["", "team/red", ""]
        empty = "[...document.querySelectorAll('.key')].map((one) => one.hidden)"
        assert await page.value(empty) == [True, False, True]
        bars = "[...document.querySelectorAll('#pools-table .used')]"
        ends = f"{bars}.map((one) => one.getBoundingClientRect().right)"
        assert max(await page.value(ends)) <= 400


async def test_without_a_cursor_the_line_under_a_map_sums_up_the_pool(tmp_path: Path) -> None:
    async with open_page(tmp_path, objects=OBJECTS) as page:
        assert await page.read_map_line() == "allocated 8  ·  free 248"


async def test_the_printed_page_is_light_and_has_all_lists_and_names(tmp_path: Path) -> None:
    async with open_page(tmp_path, dark=True, objects=OBJECTS) as page:
        await page.value("window.dispatchEvent(new Event('beforeprint'))")
        assert await page.value("[...document.querySelectorAll('details')].every((d) => d.open)")
        assert await page.value("document.querySelector('canvas.map').width") == 2000
        pen = "document.querySelector('canvas.map').getContext('2d')"
        pixel = f"[...{pen}.getImageData(1200, 20, 1, 1).data]"
        assert sum((await page.value(pixel))[:3]) > 500, "free space is light"
        await page.value("window.dispatchEvent(new Event('afterprint'))")
        assert not await page.value("document.querySelector('details').open")
        answer = await page.call("Page.printToPDF", printBackground=True)
        assert base64.b64decode(answer["data"]).startswith(b"%PDF-")
