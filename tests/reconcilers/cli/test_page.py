"""The map page in a real browser: keys, wheel, touch, search, dark mode."""

import ipaddress
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest

from tests.browser import Page, browser
from tests.reconcilers.cli.commandline import make_pool
from tests.reconcilers.cli.saved import make_holder, run_on_files

DRAWN = "document.body && document.body.dataset.drawn === 'true'"
MARKUP = "<img src=x onerror=alert(1)>"
OBJECTS = (
    make_pool("east", "10.0.0.0/16", reserved=["10.0.0.0/31"]),
    make_pool("west", "10.16.0.0/12"),
    make_holder("a", "10.0.0.16", "10.0.0.23", pool="east", tenant="team/red"),
    make_holder("b", "10.0.128.0", "10.0.128.63", pool="east", tenant="team/blue"),
)


class MapTab:
    """A browser tab that shows the map page."""

    def __init__(self, tab: Page) -> None:
        self.tab = tab
        self.call, self.value = tab.call, tab.value
        self.press, self.wait_until_drawn = tab.press, tab.wait_until_drawn

    async def read_pool_state(self, name: str, pool: str = "east") -> Any:
        """Return a value of the state that the page keeps for a pool.

        Args:
            name: `from` for the offset of the first address that the map shows, `span` for the
                number of addresses that it shows, `cursor` for the offset of the selected one.
            pool: the name of the pool.
        """
        place = f"document.querySelector('[data-pool=\"butler-system/{pool}\"]')"
        return json.loads(await self.value(f"{place}.dataset.{name}") or "null")

    async def find_map_box(self) -> dict[str, float]:
        """Scroll to the first map; return its place in the window once the browser has drawn it.

        Only after the drawing it is known which address a pointer is on, because the width of the
        labels beside the rows decides where the addresses begin.
        """
        await self.wait_until_drawn()
        document: dict[str, float] = json.loads(
            await self.value(
                "(() => { const map = document.querySelector('canvas.map');"
                " map.scrollIntoView({block: 'center'});"
                " return JSON.stringify(map.getBoundingClientRect()); })()"
            )
        )
        return document

    async def search(self, content: str) -> None:
        """Type a text into the search, and wait until the page shows the matches."""
        await self.value(
            "(() => { const box = document.getElementById('find');"
            f" box.value = {json.dumps(content)}; box.dispatchEvent(new Event('input')); }})()"
        )
        await self.tab.until(f"filters.find === {json.dumps(content.lower())}")
        await self.tab.until(DRAWN)

    async def read_count(self) -> str:
        """Return the line that says how many ranges match."""
        return str(await self.value("document.getElementById('count').textContent"))

    async def list_shown_pools(self) -> list[str]:
        """Return the names of the pools whose panels are shown."""
        shown_sections = (
            "[...document.querySelectorAll('#pools > section')].filter((one) => !one.hidden)"
        )
        names: list[str] = await self.value(f"{shown_sections}.map((one) => one.dataset.pool)")
        return names

    async def read_map_line(self) -> str:
        """Return the line under the first map, which describes the address at the cursor."""
        return str(await self.value("document.querySelector('.where').textContent"))


@asynccontextmanager
async def open_page(
    folder: Path, *, width: int = 1000, dark: bool = False, objects: Any = OBJECTS
) -> AsyncIterator[MapTab]:
    """Write the page with `map --html`, and open it in a window.

    Args:
        folder: for the page and the browser's files.
        width: of the window, in pixels.
        dark: whether the system prefers dark colours.
        objects: the objects that `map` reads.
    """
    target = folder / "map.html"
    run_map = partial(run_on_files, folder, "map", "--html", str(target), objects=objects)
    assert (await anyio.to_thread.run_sync(run_map)).code == 0
    async with browser(folder) as tab:
        await tab.show(target.as_uri(), width=width, dark=dark)
        await tab.until(DRAWN)
        yield MapTab(tab)


async def test_a_map_is_zoomed_and_read_by_keys_alone(tmp_path: Path) -> None:
    async with open_page(tmp_path) as page:
        await page.value("document.querySelector('canvas.map').focus()")
        assert await page.read_pool_state("span") == 65536
        await page.press("n", "n")
        assert await page.read_pool_state("cursor") == 2, "the free range after the reserved one"
        await page.press("n")
        assert "butler-system/a for team/red" in await page.read_map_line()
        await page.press("+", "+", "+")
        assert await page.read_pool_state("span") == 8192
        assert await page.read_pool_state("from") <= 16 < await page.read_pool_state("from") + 8192
        await page.press("End")
        assert await page.read_pool_state("cursor") == 65535
        assert await page.read_pool_state("from") == 65536 - 8192, "the map follows"
        await page.press("p")
        assert "butler-system/b for team/blue" in await page.read_map_line()
        await page.press("ArrowDown")
        assert await page.read_pool_state("cursor") == 128 * 256 + 256
        await page.press("0")
        assert (await page.read_pool_state("from"), await page.read_pool_state("span")) == (
            0,
            65536,
        )


async def test_keys_reach_every_control_in_order(tmp_path: Path) -> None:
    async with open_page(tmp_path) as page:
        reached = []
        for _ in range(40):
            await page.press("Tab")
            reached.append(await page.value("document.activeElement.tagName"))
        assert reached[0] == "INPUT"
        assert reached.count("BUTTON") >= 3 + 10, "three buttons of a map, ten of table headings"
        assert {"CANVAS", "SUMMARY"} <= set(reached)


async def test_the_wheel_scrolls_the_page_until_a_map_has_focus(tmp_path: Path) -> None:
    async with open_page(tmp_path) as page:
        box = await page.find_map_box()
        at = {"x": box["left"] + box["width"] / 2, "y": box["top"] + 100}
        turn = {"type": "mouseWheel", **at, "deltaX": 0, "deltaY": -100}
        await page.call("Input.dispatchMouseEvent", **turn)
        assert await page.read_pool_state("span") == 65536
        for kind in ("mousePressed", "mouseReleased"):
            press = {"type": kind, **at, "button": "left", "clickCount": 1}
            await page.call("Input.dispatchMouseEvent", **press)
        await page.call("Input.dispatchMouseEvent", **turn)
        assert await page.read_pool_state("span") == 32768
        assert await page.read_pool_state("span", "west") == 1 << 20, "the others stay"


async def test_dragging_scrolls_a_zoomed_map(tmp_path: Path) -> None:
    async with open_page(tmp_path) as page:
        await page.value("document.querySelector('[aria-label^=\"zoom in\"]').click()")
        start = await page.read_pool_state("from")
        box = await page.find_map_box()
        x, y = box["left"] + box["width"] / 2, box["top"] + 200
        mouse = {"button": "left", "buttons": 1, "x": x}
        await page.call("Input.dispatchMouseEvent", type="mousePressed", y=y, **mouse)
        await page.call("Input.dispatchMouseEvent", type="mouseMoved", y=y - 36, **mouse)
        await page.call("Input.dispatchMouseEvent", type="mouseReleased", y=y - 36, **mouse)
        per_row = 32768 / 32
        assert await page.read_pool_state("from") == pytest.approx(start + 2 * per_row)


async def test_the_search_finds_tenants_pools_and_addresses(tmp_path: Path) -> None:
    async with open_page(tmp_path) as page:

        async def search_and_count(content: str) -> tuple[str, list[str]]:
            await page.search(content)
            return await page.read_count(), await page.list_shown_pools()

        count, pools = await search_and_count("team/red")
        assert (count, pools) == ("1 of 7 ranges match", ["butler-system/east"])
        assert await search_and_count("10.0.128.7") == (count, pools)
        assert (await search_and_count("WEST"))[1] == ["butler-system/west"]
        assert await search_and_count("no-such-tenant") == ("0 of 7 ranges match", [])
        assert await search_and_count("10.99.0.0/16") == ("no pool contains 10.99.0.0/16", [])
        assert (await search_and_count(""))[0] == ""
        await page.value("document.querySelector('input[name=free]').click()")
        assert await page.read_count() == "3 of 7 ranges match"


@pytest.mark.parametrize("width", [1200, 1400, 1600])
async def test_the_tables_fit_the_window_of_a_laptop(tmp_path: Path, width: int) -> None:
    async with open_page(tmp_path, width=width) as page:
        tables = "[...document.querySelectorAll('.wide')]"
        assert await page.value(f"{tables}.every((wide) => wide.scrollWidth <= wide.clientWidth)")


async def test_a_phone_shows_the_page_without_scrolling_sideways_and_pinches(
    tmp_path: Path,
) -> None:
    async with open_page(tmp_path, width=375) as page:
        assert await page.value("document.documentElement.scrollWidth") <= 375
        box = await page.find_map_box()
        x, y = box["left"] + box["width"] / 2, box["top"] + 100
        for kind, half_distance in (("touchStart", 20), ("touchMove", 40), ("touchMove", 80)):
            points = [
                {"x": x - half_distance, "y": y, "id": 0},
                {"x": x + half_distance, "y": y, "id": 1},
            ]
            await page.call("Input.dispatchTouchEvent", type=kind, touchPoints=points)
        await page.call("Input.dispatchTouchEvent", type="touchEnd", touchPoints=[])
        assert await page.read_pool_state("span") < 65536


async def test_the_map_follows_the_dark_mode_of_the_system(tmp_path: Path) -> None:
    """Free space, most of a pool, is dark then."""
    async with open_page(tmp_path, dark=True) as page:
        pen = "document.querySelector('canvas.map').getContext('2d')"
        pixel = f"[...{pen}.getImageData(600, 200, 1, 1).data]"
        assert sum((await page.value(pixel))[:3]) < 300
        light = [{"name": "prefers-color-scheme", "value": "light"}]
        await page.call("Emulation.setEmulatedMedia", features=light)
        await page.wait_until_drawn()
        assert sum((await page.value(pixel))[:3]) > 500


async def test_markup_in_descriptions_is_shown_as_text(tmp_path: Path) -> None:
    evil = make_pool("evil", "10.0.0.0/24")
    evil["spec"]["reserved"] = [{"cidr": "10.0.0.0/31", "description": MARKUP}]
    async with open_page(tmp_path, objects=(evil,)) as page:
        await page.value("document.querySelector('details').open = true")
        await page.value("document.querySelector('canvas.map').focus()")
        await page.press("Home")
        await page.tab.until("document.querySelector('.list tbody th')")
        assert MARKUP in await page.read_map_line()
        assert await page.value("document.querySelectorAll('img').length") == 0


async def test_a_list_of_thousands_of_ranges_contains_only_rows_in_view(tmp_path: Path) -> None:
    many = [
        make_holder(f"a{n}", *(f"10.0.{n * 4 // 256}.{n * 4 % 256}",) * 2, pool="big")
        for n in range(2000)
    ]
    async with open_page(tmp_path, objects=(make_pool("big", "10.0.0.0/16"), *many)) as page:
        await page.value("document.querySelector('details').open = true")
        rows = "[...document.querySelectorAll('.list tbody tr:not(.spacer)')]"
        await page.tab.until(f"{rows}.length")
        assert await page.value(f"{rows}.length") < 100
        table = "document.querySelector('.list table')"
        assert await page.value(f"{table}.getAttribute('aria-rowcount')") == "4001"
        region = "document.querySelector('.list')"
        await page.value(f"{region}.scrollTop = {region}.scrollHeight")
        await page.tab.until(f"{rows}.at(-1).cells[0].textContent === '10.0.31.61'")
        assert await page.value(f"{rows}.at(-1).getAttribute('aria-rowindex')") == "4001"
        assert await page.value(f"{rows}.length") < 100


async def test_the_page_formats_addresses_of_both_families_like_python(
    tmp_path: Path,
) -> None:
    numbers = [0, 1, 0x2001_0DB8 << 96, (0x2001_0DB8 << 96) + 1, (1 << 112) + (2 << 64) + 3]
    numbers += [0xFE80 << 112, (1 << 128) - 1, (1 << 112) + (1 << 96) + (1 << 16), 1 << 80]
    numbers += [(1 << 112) + (1 << 80) + (1 << 48) + 1, 0x10 << 64, 0x100 << 32]
    texts = [str(ipaddress.IPv6Address(number)) for number in numbers] + ["10.1.20.3"]
    async with open_page(tmp_path) as page:
        reformatted = f"{json.dumps(texts)}.map((text) => formatAddress(...parseAddress(text)))"
        assert await page.value(reformatted) == texts
        wrong = ["1.2.3", "1.2.3.256", "::1::", "1:2", "g::", "1:2:3:4:5:6:7:8:9", "", "red"]
        assert await page.value(f"{json.dumps(wrong)}.map(parseAddress)") == [None] * len(wrong)


IPV6_OBJECTS = (
    make_pool("six", "fd00::/32", reserved=["fd00::/128"]),
    make_holder("far", "fd00:0:8000::", "fd00:0:8000::7", pool="six", tenant="team/far"),
)


async def test_a_large_ipv6_pool_can_be_zoomed_to_single_addresses(tmp_path: Path) -> None:
    size, middle = 2**96, 2**95
    async with open_page(tmp_path, objects=IPV6_OBJECTS) as page:
        await page.value("document.querySelector('canvas.map').focus()")
        assert await page.read_pool_state("span", "six") == size
        await page.press("n", "n", "n")
        assert await page.read_pool_state("cursor", "six") == middle
        assert (await page.read_map_line()).startswith(
            "fd00:0:8000::  in  fd00:0:8000:: - fd00:0:8000::7"
        )
        assert "far for team/far" in await page.read_map_line()
        await page.press(*"+" * 90)
        assert await page.read_pool_state("span", "six") == 32 * 4, "the smallest span"
        await page.press("ArrowRight", "ArrowRight", "ArrowRight")
        assert await page.read_pool_state("cursor", "six") == middle + 3
        await page.press(*["ArrowRight"] * 5)
        line = await page.read_map_line()
        assert line.startswith("fd00:0:8000::8  in  fd00:0:8000::8 - fd00:0:ffff:"), line
        assert f"({middle - 8:,})" in line
        await page.press("End")
        assert await page.read_pool_state("cursor", "six") == size - 1
        await page.press("0")
        assert (
            await page.read_pool_state("from", "six"),
            await page.read_pool_state("span", "six"),
        ) == (0, size)
