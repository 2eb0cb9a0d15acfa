"""Axe finds nothing on the page of addresses: light and dark, wide and narrow, and served live."""

import json
from pathlib import Path
from typing import Any

import anyio
import pytest

from controller.clock import SystemClock
from controller.pages import Bind
from reconcilers.ui.serving import serve_local_page
from tests.browser import Page, browser
from tests.reconcilers.cli.commandline import make_pool
from tests.reconcilers.cli.saved import make_holder, make_saved_cluster
from tests.reconcilers.cli.test_page import open_page
from tests.reconcilers.ui.cluster import Cluster, make_event

AXE = Path(__file__).parent / "node_modules" / "axe-core" / "axe.min.js"
WIDTHS = (1600, 800, 400)
OBJECTS = (
    make_pool("east", "10.0.0.0/24", reserved=["10.0.0.0/31"]),
    make_pool("six", "fd00:10::/64"),
    make_pool("broken", "10.0.0.0/24", reserved=["1.0.0.0/24"]),
    make_holder("a", "10.0.0.16", "10.0.0.23", pool="east", tenant="team/red"),
    make_holder("b", "10.0.0.20", "10.0.0.31", pool="east", tenant="team/blue"),
    make_saved_cluster("red", "team"),
)
RUN = (
    "axe.run().then((found) => JSON.stringify([...found.violations, ...found.incomplete]"
    ".map(({id, nodes}) => [id, nodes.map(({html}) => html)])))"
)

pytestmark = pytest.mark.skipif(not AXE.exists(), reason="axe-core is not here: `make axe`")


async def findings(page: Page) -> Any:
    """Return the findings of axe, with every list open and a range chosen."""
    await page.value("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    await page.value("document.querySelector('canvas.map').focus()")
    await page.press("n", "n")
    await page.wait_until_drawn()
    await page.value(f"{await anyio.Path(AXE).read_text(encoding='utf-8')}; 1")
    return json.loads(await page.value(RUN))


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
async def test_nothing_is_found_on_the_page(tmp_path: Path, dark: bool) -> None:
    async with open_page(tmp_path, width=WIDTHS[0], dark=dark, objects=OBJECTS) as page:
        url, findings_by_width = (
            await page.value("location.href"),
            {WIDTHS[0]: await findings(page.tab)},
        )
        for width in WIDTHS[1:]:
            await page.tab.show(url, width=width, dark=dark)
            await page.tab.until("document.body && document.body.dataset.drawn === 'true'")
            findings_by_width[width] = await findings(page.tab)
        assert findings_by_width == {width: [] for width in WIDTHS}


async def test_nothing_is_found_on_the_live_page(tmp_path: Path) -> None:
    clock = SystemClock()
    cluster = Cluster(clock)
    await cluster.create(
        make_pool("lab", "10.0.0.0/24"), make_event("e", "Allocated", "It holds it.")
    )
    async with (
        serve_local_page(cluster, clock, Bind("127.0.0.1", 0)) as url,
        browser(tmp_path) as page,
    ):
        await page.show(url)
        await page.until("document.querySelectorAll('#events > div').length")
        assert await findings(page) == []
