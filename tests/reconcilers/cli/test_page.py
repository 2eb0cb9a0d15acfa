"""The map page in a real browser, driven as people drive it: keys, wheel, fingers, filter."""

import ipaddress
import json
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import aiohttp
import anyio
import pytest

from tests.reconcilers.cli.commandline import pool
from tests.reconcilers.cli.saved import ask, held

LIMIT = 60.0
EVIL = "<img src=x onerror=alert(1)>"
OBJECTS = (
    pool("east", "10.0.0.0/16", reserved=["10.0.0.0/31"]),
    pool("west", "10.16.0.0/12"),
    held("a", "10.0.0.16", "10.0.0.23", of="east", tenant="team/red"),
    held("b", "10.0.128.0", "10.0.128.63", of="east", tenant="team/blue"),
)


class Page:
    """A tab of a browser, over the DevTools protocol."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket
        self._number = 0

    async def call(self, method: str, **params: Any) -> Any:
        """Return the answer to a command."""
        self._number += 1
        await self._socket.send_json({"id": self._number, "method": method, "params": params})
        while True:
            answer = await self._socket.receive_json()
            if answer.get("id") == self._number:
                assert "error" not in answer, answer
                return answer["result"]

    async def value(self, expression: str) -> Any:
        """Return what an expression is in the page."""
        answer = await self.call(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    async def drawn(self) -> None:
        """Wait until the browser has drawn twice: what it was told of before has been heard."""
        frame = "requestAnimationFrame(() => requestAnimationFrame(done))"
        await self.value(f"new Promise((done) => {frame}).then(() => 1)")

    async def state(self, name: str, of: str = "east") -> Any:
        """Return what the page says of a pool: `from`, `span` or `cursor`."""
        place = f"document.querySelector('[data-pool=\"butler-system/{of}\"]')"
        return json.loads(await self.value(f"{place}.dataset.{name}") or "null")

    async def press(self, *keys: str) -> None:
        """Press keys, one after the other."""
        for key in keys:
            text = {"text": key} if len(key) == 1 else {}
            await self.call("Input.dispatchKeyEvent", type="keyDown", key=key, **text)
            await self.call("Input.dispatchKeyEvent", type="keyUp", key=key)

    async def box(self) -> dict[str, float]:
        """Return where the first map is."""
        found: dict[str, float] = json.loads(
            await self.value(
                "JSON.stringify(document.querySelector('canvas').getBoundingClientRect())"
            )
        )
        return found

    async def said(self) -> str:
        """Return the line under the first map."""
        return str(await self.value("document.querySelector('.where').textContent"))


@asynccontextmanager
async def opened(
    folder: Path, *, width: int = 1000, dark: bool = False, objects: Any = OBJECTS
) -> AsyncIterator[Page]:
    """Open the page of some objects in a window."""
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    if browser is None:
        pytest.skip("no chromium on this machine; the page is not opened")
    target, profile = folder / "map.html", folder / "profile"
    written = partial(ask, folder, "map", "--html", str(target), objects=objects)
    assert (await anyio.to_thread.run_sync(written)).code == 0
    command = [
        *(browser, "--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-port=0"),
        *(f"--user-data-dir={profile}", "about:blank"),
    ]
    async with await anyio.open_process(command, stdout=None) as process:
        try:
            with anyio.fail_after(LIMIT):
                assert process.stderr is not None
                printed = b""
                while b"DevTools listening on " not in printed or not printed.endswith(b"\n"):
                    printed += await process.stderr.receive()
                port = printed.partition(b"ws://127.0.0.1:")[2].partition(b"/")[0].decode()
                async with aiohttp.ClientSession() as http:
                    async with http.get(f"http://127.0.0.1:{port}/json/list") as answer:
                        tabs = json.loads(await answer.text())
                    [url] = [t["webSocketDebuggerUrl"] for t in tabs if t["type"] == "page"]
                    async with http.ws_connect(url) as socket:
                        page = Page(socket)
                        await _show(page, target, width, dark)
                        yield page
        finally:
            process.terminate()


async def _show(page: Page, target: Path, width: int, dark: bool) -> None:
    scheme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
    await page.call("Emulation.setEmulatedMedia", features=scheme)
    await page.call(
        "Emulation.setDeviceMetricsOverride",
        width=width,
        height=900,
        deviceScaleFactor=1,
        mobile=width < 500,
    )
    await page.call("Emulation.setTouchEmulationEnabled", enabled=width < 500)
    await page.call("Page.navigate", url=target.as_uri())
    while await page.value("document.body && document.body.dataset.drawn") != "true":
        pass


async def test_a_map_is_zoomed_and_read_by_keys_alone(tmp_path: Path) -> None:
    async with opened(tmp_path) as page:
        await page.value("document.querySelector('canvas').focus()")
        assert await page.state("span") == 65536
        await page.press("n", "n")
        assert await page.state("cursor") == 2, "the free stretch after the reserved one"
        await page.press("n")
        assert "butler-system/a for team/red" in await page.said()
        await page.press("+", "+", "+")
        assert await page.state("span") == 8192
        assert await page.state("from") <= 16 < await page.state("from") + 8192
        await page.press("End")
        assert await page.state("cursor") == 65535
        assert await page.state("from") == 65536 - 8192, "the map follows"
        await page.press("p")
        assert "butler-system/b for team/blue" in await page.said()
        await page.press("ArrowDown")
        assert await page.state("cursor") == 128 * 256 + 256
        await page.press("0")
        assert (await page.state("from"), await page.state("span")) == (0, 65536)


async def test_keys_reach_every_control_in_order(tmp_path: Path) -> None:
    async with opened(tmp_path) as page:
        reached = []
        for _ in range(11):
            await page.press("Tab")
            reached.append(await page.value("document.activeElement.tagName"))
        assert reached[0] == "INPUT"
        assert reached.count("BUTTON") >= 3
        assert {"CANVAS", "SUMMARY"} <= set(reached)


async def test_the_wheel_scrolls_the_page_until_a_map_has_focus(tmp_path: Path) -> None:
    async with opened(tmp_path) as page:
        box = await page.box()
        at = {"x": box["left"] + box["width"] / 2, "y": box["top"] + 100}
        turn = {"type": "mouseWheel", **at, "deltaX": 0, "deltaY": -100}
        await page.call("Input.dispatchMouseEvent", **turn)
        assert await page.state("span") == 65536
        for kind in ("mousePressed", "mouseReleased"):
            press = {"type": kind, **at, "button": "left", "clickCount": 1}
            await page.call("Input.dispatchMouseEvent", **press)
        await page.call("Input.dispatchMouseEvent", **turn)
        assert await page.state("span") == 32768
        assert await page.state("span", "west") == 1 << 20, "the others stay"


async def test_dragging_moves_what_is_seen(tmp_path: Path) -> None:
    async with opened(tmp_path) as page:
        await page.value("document.querySelector('[aria-label^=\"zoom in\"]').click()")
        start = await page.state("from")
        box = await page.box()
        x, y = box["left"] + box["width"] / 2, box["top"] + 200
        mouse = {"button": "left", "buttons": 1, "x": x}
        await page.call("Input.dispatchMouseEvent", type="mousePressed", y=y, **mouse)
        await page.call("Input.dispatchMouseEvent", type="mouseMoved", y=y + 30, **mouse)
        await page.call("Input.dispatchMouseEvent", type="mouseReleased", y=y + 30, **mouse)
        per_row = 32768 / 32
        assert await page.state("from") == pytest.approx(start - 2 * per_row)


async def test_the_filter_finds_tenants_pools_and_addresses(tmp_path: Path) -> None:
    async with opened(tmp_path) as page:

        async def shown(text: str) -> tuple[str, list[str]]:
            await page.value(
                "(() => { const box = document.getElementById('find');"
                f" box.value = {json.dumps(text)}; box.dispatchEvent(new Event('input')); }})()"
            )
            names = "[...document.querySelectorAll('section')].filter((one) => !one.hidden)"
            pools = await page.value(f"{names}.map((one) => one.dataset.pool)")
            return await page.value("document.getElementById('count').textContent"), pools

        count, pools = await shown("team/red")
        assert (count, pools) == ("1 of 7 stretches match", ["butler-system/east"])
        assert await shown("10.0.128.7") == (count, pools)
        assert (await shown("WEST"))[1] == ["butler-system/west"]
        assert await shown("nobody") == ("0 of 7 stretches match", [])
        assert (await shown(""))[0] == ""
        await page.value("document.querySelector('input[name=free]').click()")
        assert await page.value("document.getElementById('count').textContent") == (
            "3 of 7 stretches match"
        )


async def test_a_phone_shows_the_page_without_scrolling_sideways_and_pinches(
    tmp_path: Path,
) -> None:
    async with opened(tmp_path, width=375) as page:
        assert await page.value("document.documentElement.scrollWidth") <= 375
        box = await page.box()
        x, y = box["left"] + box["width"] / 2, box["top"] + 100
        for kind, apart in (("touchStart", 20), ("touchMove", 40), ("touchMove", 80)):
            points = [{"x": x - apart, "y": y, "id": 0}, {"x": x + apart, "y": y, "id": 1}]
            await page.call("Input.dispatchTouchEvent", type=kind, touchPoints=points)
        await page.call("Input.dispatchTouchEvent", type="touchEnd", touchPoints=[])
        assert await page.state("span") < 65536


async def test_the_map_follows_the_dark_mode_of_the_system(tmp_path: Path) -> None:
    """Free space is most of a pool: it must not glare."""
    async with opened(tmp_path, dark=True) as page:
        pen = "document.querySelector('canvas').getContext('2d')"
        pixel = f"[...{pen}.getImageData(600, 200, 1, 1).data]"
        assert sum((await page.value(pixel))[:3]) < 300
        light = [{"name": "prefers-color-scheme", "value": "light"}]
        await page.call("Emulation.setEmulatedMedia", features=light)
        await page.drawn()
        assert sum((await page.value(pixel))[:3]) > 500


async def test_names_with_markup_are_shown_and_not_obeyed(tmp_path: Path) -> None:
    evil = pool("evil", "10.0.0.0/24")
    evil["spec"]["reserved"] = [{"cidr": "10.0.0.0/31", "description": EVIL}]
    async with opened(tmp_path, objects=(evil,)) as page:
        await page.value("document.querySelector('details').open = true")
        await page.value("document.querySelector('canvas').focus()")
        await page.press("Home")
        assert EVIL in await page.said()
        assert await page.value("document.querySelectorAll('img').length") == 0


async def test_thousands_of_stretches_are_drawn_and_the_list_is_kept_short(
    tmp_path: Path,
) -> None:
    many = [
        held(f"a{n}", *(f"10.0.{n * 4 // 256}.{n * 4 % 256}",) * 2, of="big") for n in range(2000)
    ]
    async with opened(tmp_path, objects=(pool("big", "10.0.0.0/16"), *many)) as page:
        await page.value("document.querySelector('details').open = true")
        rows = "document.querySelectorAll('tr').length"
        with anyio.fail_after(LIMIT):
            while await page.value(rows) == 0:
                pass
        assert await page.value(rows) == 1001
        assert "3,000 more" in await page.value("document.querySelector('.list p').textContent")


async def test_addresses_of_both_families_are_written_as_python_writes_them(
    tmp_path: Path,
) -> None:
    numbers = [0, 1, 0x2001_0DB8 << 96, (0x2001_0DB8 << 96) + 1, (1 << 112) + (2 << 64) + 3]
    numbers += [0xFE80 << 112, (1 << 128) - 1, (1 << 112) + (1 << 96) + (1 << 16), 1 << 80]
    numbers += [(1 << 112) + (1 << 80) + (1 << 48) + 1, 0x10 << 64, 0x100 << 32]
    texts = [str(ipaddress.IPv6Address(number)) for number in numbers] + ["10.1.20.3"]
    async with opened(tmp_path) as page:
        again = f"{json.dumps(texts)}.map((text) => written(...parsed(text)))"
        assert await page.value(again) == texts
        wrong = ["1.2.3", "1.2.3.256", "::1::", "1:2", "g::", "1:2:3:4:5:6:7:8:9", "", "red"]
        assert await page.value(f"{json.dumps(wrong)}.map(parsed)") == [None] * len(wrong)
