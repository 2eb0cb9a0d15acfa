"""What the live page costs in Chromium: 40 pools, a /16 with 2,000 allocations, 2,300 tenants.

The CPU time is that of all processes of the browser: script, layout, painting. The server runs in
the process of the benchmark, on a cluster in memory, and its CPU time at rest is printed beside.
The time to the first paint begins before the request for the page. It ends when the browser has
painted the pools that the server has read; those were read before.
"""

import tempfile
import time
import zlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import aiohttp
import anyio
import click

from controller.clock import SystemClock
from controller.pages import Bind
from reconcilers.ui.serving import serve_local_page
from tests.bench.page_objects import make_objects
from tests.bench.processes import read_cpu_seconds
from tests.browser import Page, browser
from tests.reconcilers.cli.saved import make_holder
from tests.reconcilers.ui.cluster import Cluster

REST_SECONDS = 30.0
SETTLE_SECONDS = 6.0
"""What the first paint left to do is over by then: marks of what is new vanish after four."""
KEY_SECONDS = 1.0
"""Between two keys: longer than the page waits for the next one."""
TYPED = ("10.0.9.24", "cluster-1234", "waiting")
_NOTE_PAINTED = """
window.painted = new Promise((done) => new MutationObserver((_, observer) => {
  if (document.body?.dataset.drawn !== "true") return;
  observer.disconnect();
  requestAnimationFrame(() => requestAnimationFrame(() => done(performance.now())));
}).observe(document, {attributes: true, childList: true, subtree: true}));
"""
"""The page is not polled: each question would cost it a frame."""
_NOTE_CHANGED = """
window.changed = new Promise((done) => new MutationObserver(() => done(1)).observe(
  document.querySelector('[data-pool="butler-system/large"] header'),
  {childList: true, subtree: true},
)); 1
"""


@dataclass(frozen=True, slots=True)
class PageCosts:
    """The costs of the page. CPU times are those of all processes of the browser, in seconds.

    Args:
        first: seconds from the request for the page to the first paint of the pools.
        rest: CPU time of the browser in each second at rest.
        rest_of_server: CPU time of the server in each second at rest.
        key: CPU time for each key that is typed into the search.
        change: CPU time for one allocation that appears.
        nodes: the number of elements and texts of the page.
        high: the height of the page in pixels.
        received: bytes over the wire of everything that the page shows.
        decoded: these bytes before compression.
    """

    first: float
    rest: float
    rest_of_server: float
    key: float
    change: float
    nodes: int
    high: int
    received: int
    decoded: int


def list_process_family(process: int) -> list[int]:
    """Return a process and all its descendants."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").glob("[0-9]*/stat"):
        try:
            content = entry.read_text()
        except (FileNotFoundError, ProcessLookupError):
            continue  # it has ended meanwhile
        parent = int(content.rpartition(")")[2].split()[1])
        children.setdefault(parent, []).append(int(entry.parent.name))
    members = [process]
    for member in members:
        members += children.get(member, [])
    return members


def read_browser_cpu_seconds(page: Page) -> float:
    """Return the seconds of CPU time of all processes of the browser."""
    return sum(read_cpu_seconds(process) for process in list_process_family(page.process))


async def measure(share: int = 1, rest_seconds: float = REST_SECONDS) -> PageCosts:
    """Measure the cost of the page.

    Args:
        share: the divisor of the numbers of tenants and allocations; 1 is the full size.
        rest_seconds: for how many seconds the page is measured at rest.
    """
    with tempfile.TemporaryDirectory() as folder:
        async with _serve_page(share) as (cluster, url), browser(Path(folder)) as page:
            await page.call("Page.enable")
            await page.call("Page.addScriptToEvaluateOnNewDocument", source=_NOTE_PAINTED)
            await page.show(url)
            await page.until("window.painted && document.body")
            first = await page.value("window.painted") / 1000
            received, decoded = await _measure_first_message(url)
            await anyio.sleep(SETTLE_SECONDS)
            browser_before, server_before = read_browser_cpu_seconds(page), time.process_time()
            await anyio.sleep(rest_seconds)
            rest = (read_browser_cpu_seconds(page) - browser_before) / rest_seconds
            rest_of_server = (time.process_time() - server_before) / rest_seconds
            await page.value(_NOTE_CHANGED)
            before = read_browser_cpu_seconds(page)
            await cluster.create(make_holder("new", "10.0.0.64", "10.0.0.71", pool="large"))
            await page.value("window.changed")
            await anyio.sleep(KEY_SECONDS)
            change = read_browser_cpu_seconds(page) - before
            key = await _measure_typing(page)
            nodes = await page.value(
                "(() => { const walk = document.createNodeIterator(document); let found = 0;"
                " while (walk.nextNode()) found += 1; return found; })()"
            )
            high = await page.value("document.documentElement.scrollHeight")
    return PageCosts(
        first,
        rest,
        rest_of_server=rest_of_server,
        key=key,
        change=change,
        nodes=nodes,
        high=high,
        received=received,
        decoded=decoded,
    )


async def _measure_first_message(url: str) -> tuple[int, int]:
    """Return the bytes of the first message with all objects: over the wire, and decoded."""
    base, _, token = url.partition("#token=")
    headers = {"Authorization": f"Bearer {token}", "Accept-Encoding": "gzip"}
    async with (
        aiohttp.ClientSession(auto_decompress=False) as http,
        http.get(f"{base}ui/updates", headers=headers) as answer,
    ):
        packed = answer.headers.get("Content-Encoding") == "gzip"
        unpack = zlib.decompressobj(wbits=31)
        received, body = 0, b""
        async for chunk in answer.content.iter_any():
            received += len(chunk)
            body += unpack.decompress(chunk) if packed else chunk
            if b"data: " in body and body.endswith(b"\n\n"):
                break
    return received, len(body)


async def _measure_typing(page: Page) -> float:
    """Return the seconds of CPU time for each key of the most expensive search in TYPED."""
    worst = 0.0
    for query in TYPED:
        await page.value("document.getElementById('find').focus()")
        before = read_browser_cpu_seconds(page)
        for character in query:
            await page.press(character)
            await anyio.sleep(KEY_SECONDS)
        worst = max(worst, (read_browser_cpu_seconds(page) - before) / len(query))
        await page.value(
            "(() => { const box = document.getElementById('find'); box.value = '';"
            " box.dispatchEvent(new Event('input')); })()"
        )
        await anyio.sleep(KEY_SECONDS)
    return worst


@asynccontextmanager
async def _serve_page(share: int) -> AsyncIterator[tuple[Cluster, str]]:
    clock = SystemClock()
    cluster = Cluster(clock)
    await cluster.create(*make_objects(share))
    async with serve_local_page(cluster, clock, Bind("127.0.0.1", 0)) as url:
        yield cluster, url


def run() -> None:
    """Print what the page costs, with the goals beside it."""
    costs = anyio.run(measure)
    for label, value, goal in (
        ("first paint of the pools, s", f"{costs.first:.2f}", "<= 1.5"),
        ("CPU of the browser at rest, % of a core", f"{100 * costs.rest:.1f}", "<= 2"),
        ("CPU of the server at rest, % of a core", f"{100 * costs.rest_of_server:.1f}", ""),
        ("CPU for each key typed, ms", f"{1000 * costs.key:.0f}", "<= 100"),
        ("CPU for an allocation that appears, ms", f"{1000 * costs.change:.0f}", ""),
        ("nodes", f"{costs.nodes:,}", "<= 5,000"),
        ("height of the page, px", f"{costs.high:,}", ""),
        ("data at first, KiB over the wire", f"{costs.received / 1024:.0f}", ""),
        ("data at first, KiB", f"{costs.decoded / 1024:.0f}", ""),
    ):
        click.echo(f"  {label:42}{value:>10}  {'goal: ' + goal if goal else ''}".rstrip())
