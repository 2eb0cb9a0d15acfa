"""The live page in a real browser: changes in the cluster are shown without reloading."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from controller.clock import SystemClock
from controller.pages import Bind
from reconcilers.api.resources import IP_ALLOCATION, NETWORK_POOL
from reconcilers.integrations.clusterapi import api
from reconcilers.ui.serving import serve_local_page
from tests.browser import Page, browser
from tests.reconcilers.cli import test_claims as claims
from tests.reconcilers.cli.commandline import make_pool
from tests.reconcilers.cli.saved import make_holder, make_saved_cluster
from tests.reconcilers.ui.cluster import CLUSTER_API, Cluster, make_event

LAB = "document.querySelector('[data-pool=\"butler-system/lab\"]')"
EVENTS = "[...document.querySelectorAll('#events > div')].map((one) => one.textContent)"
STATUS = "document.getElementById('live').textContent"
TENANTS = (
    "[...document.querySelectorAll('#tenants-table tbody tr')].filter((row) => row.cells[3])"
    ".map((row) => [row.cells[0].textContent, row.cells[3].textContent])"
)


@asynccontextmanager
async def open_page(
    folder: Path, fragment: str | None = None
) -> AsyncIterator[tuple[Page, Cluster]]:
    """Open the page of a cluster with the pool `lab`, 10.0.0.0/24.

    Args:
        folder: a directory for the profile of the browser.
        fragment: the fragment of the URL to open instead of the one with the valid token; the
            page is not waited for then.

    Yields:
        the page and the cluster.
    """
    clock = SystemClock()
    cluster = Cluster(clock)
    cluster.serve_platforms(*CLUSTER_API)
    await cluster.create(make_pool("lab", "10.0.0.0/24"))
    async with (
        serve_local_page(cluster, clock, Bind("127.0.0.1", 0)) as url,
        browser(folder) as page,
    ):
        await page.show(url if fragment is None else url.partition("#")[0] + fragment)
        if fragment is None:
            await page.until(f"document.body && document.body.dataset.drawn === 'true' && {LAB}")
        yield page, cluster


def make_red_holder(name: str, start: str, end: str) -> dict[str, Any]:
    """Return an allocation of the tenant team/red that holds the addresses `start` to `end`."""
    return make_holder(name, start, end, tenant="team/red")


@pytest.mark.slow
async def test_allocations_appear_and_disappear_while_map_and_focus_stay(tmp_path: Path) -> None:
    async with open_page(tmp_path) as (page, live_cluster):
        await page.value(f"{LAB}.querySelector('canvas.map').focus()")
        await page.press("+", "n")
        shown_range = await page.value(f"{LAB}.dataset.from + ' ' + {LAB}.dataset.span")
        await page.value("window.stayed = true")
        await live_cluster.create(
            make_saved_cluster("red", "team"), make_red_holder("a", "10.0.0.8", "10.0.0.23")
        )
        await page.until(f"{LAB}.textContent.includes('240 of 256 free')")
        await page.until(f"{TENANTS}.some(([name, held]) => name === 'team/red' && held === '16')")
        await live_cluster.create(make_red_holder("b", "10.0.0.24", "10.0.0.31"))
        await page.until(f"{TENANTS}.some(([name, held]) => name === 'team/red' && held === '24')")
        await live_cluster.delete(IP_ALLOCATION, "b")
        await page.until(f"{TENANTS}.some(([name, held]) => name === 'team/red' && held === '16')")
        assert await page.value(f"{LAB}.dataset.from + ' ' + {LAB}.dataset.span") == shown_range
        assert await page.value("document.activeElement.tagName") == "CANVAS"
        assert await page.value("window.stayed"), "the page was not loaded anew"


@pytest.mark.slow
async def test_pools_and_events_appear(tmp_path: Path) -> None:
    async with open_page(tmp_path) as (page, live_cluster):
        await live_cluster.create(make_pool("other", "10.9.0.0/26"))
        await page.until("document.querySelectorAll('#pools > section').length === 2")
        await live_cluster.delete(NETWORK_POOL, "other")
        await page.until("document.querySelectorAll('#pools > section').length === 1")
        await live_cluster.delete(NETWORK_POOL, "lab")
        await page.until("document.querySelector('#pools-table').textContent.includes('no pool')")
        await live_cluster.create(make_event("first", "Allocated", "It holds <b>10.0.0.8</b>."))
        await page.until(f"{EVENTS}.length === 1")
        [event_text] = await page.value(EVENTS)
        assert "Allocated IPAllocation butler-system/a: It holds <b>10.0.0.8</b>." in event_text


@pytest.mark.slow
async def test_pools_of_claims_appear_and_change(tmp_path: Path) -> None:
    async with open_page(tmp_path) as (page, live_cluster):
        machines = "document.querySelector('[data-pool=\"InClusterIPPool b/machines\"]')"
        await live_cluster.create(claims.make_ip_pool("machines", "10.0.0.10-10.0.0.12"))
        await page.until(f"{machines}?.textContent.includes('3 of 3 free')")
        await live_cluster.create(
            claims.make_claim("w", "machines"), claims.make_claim("web", "machines")
        )
        await live_cluster.create(claims.make_address("web", "machines", "10.0.0.11"))
        await page.until(f"{machines}.textContent.includes('2 of 3 free')")
        await page.until(f"{machines}.querySelector('summary').textContent.includes('1 waiting')")
        await page.value(f"{machines}.querySelector('details').open = true")
        await page.until(f"{machines}.textContent.includes('IPAddressClaim b/web')")
        await live_cluster.delete(api.IN_CLUSTER_IP_POOL, "machines", "b")
        await page.until(f"!{machines}")


@pytest.mark.slow
async def test_the_token_leaves_the_address_bar_and_survives_a_reload(tmp_path: Path) -> None:
    async with open_page(tmp_path) as (page, live_cluster):
        assert "token" not in await page.value("location.href")
        await page.call("Page.reload")
        await live_cluster.create(make_red_holder("a", "10.0.0.8", "10.0.0.23"))
        await page.until(f"{LAB} && {LAB}.textContent.includes('240 of 256 free')")


@pytest.mark.slow
async def test_a_user_with_a_wrong_token_is_asked_for_one(tmp_path: Path) -> None:
    async with open_page(tmp_path, "#token=wrong") as (page, _):
        await page.until("document.getElementById('sign-in')?.hidden === false")
        assert await page.value("document.querySelectorAll('#pools > section').length") == 0
        assert await page.value("document.querySelector('main').hidden")
        assert "printed by `butler-ipam ui`" in await page.value(STATUS)


@pytest.mark.slow
async def test_nothing_but_the_pages_own_script_runs(tmp_path: Path) -> None:
    """The browser obeys the Content-Security-Policy: an injected script does not run."""
    async with open_page(tmp_path) as (page, _):
        await page.value(
            "(() => { const one = document.createElement('script');"
            " one.textContent = 'window.ran = true'; document.body.append(one);"
            " document.body.insertAdjacentHTML('beforeend',"
            " '<img src=x onerror=\"window.ran = true\">'); })()"
        )
        await page.wait_until_drawn()
        assert await page.value("window.ran === undefined")
        refused = await page.value("fetch('https://127.0.0.2/').then(() => 0, () => 1)")
        assert refused == 1


@pytest.mark.slow
async def test_a_page_reports_that_its_server_is_gone_and_asks_for_the_token_of_a_new_server(
    tmp_path: Path,
) -> None:
    clock = SystemClock()
    cluster = Cluster(clock)
    await cluster.create(make_pool("lab", "10.0.0.0/24"))
    async with browser(tmp_path) as page:
        async with serve_local_page(cluster, clock, Bind("127.0.0.1", 0)) as url:
            await page.show(url)
            await page.until(f"document.body && document.body.dataset.drawn && {LAB}")
            port = int(url.partition("#")[0].rstrip("/").rpartition(":")[2])
        await page.until(f"{STATUS}.startsWith('Not connected')")
        async with serve_local_page(cluster, clock, Bind("127.0.0.1", port)):
            # The new server has another token, so the page asks for it.
            await page.until("document.getElementById('sign-in')?.hidden === false")
