"""Chromium, driven over the DevTools protocol."""

import base64
import json
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import anyio
import pytest

from tests.polling import SECONDS

PHONE = 500
"""A window of fewer pixels is that of a phone, with a touch screen."""


class Page:
    """A tab of a browser, over the DevTools protocol.

    Args:
        socket: the connection to the tab.
        process: the id of the browser's first process.
    """

    def __init__(self, socket: aiohttp.ClientWebSocketResponse, process: int) -> None:
        self.process = process
        self._socket = socket
        self._number = 0

    async def call(self, method: str, **params: Any) -> Any:
        """Send a command of the DevTools protocol; return its result."""
        self._number += 1
        await self._socket.send_json({"id": self._number, "method": method, "params": params})
        with anyio.fail_after(SECONDS):
            while (answer := await self._socket.receive_json()).get("id") != self._number:
                pass
        assert "error" not in answer, answer
        return answer["result"]

    async def value(self, expression: str) -> Any:
        """Return the value of an expression in the page."""
        answer = await self.call(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    async def wait_until_drawn(self) -> None:
        """Wait for two frames, after which all earlier changes are drawn."""
        frame = "requestAnimationFrame(() => requestAnimationFrame(done))"
        await self.value(f"new Promise((done) => {frame}).then(() => 1)")

    async def until(self, expression: str) -> None:
        """Wait until an expression is true in the page."""
        with anyio.fail_after(SECONDS):
            while not await self.value(f"Boolean({expression})"):
                await self.wait_until_drawn()

    async def press(self, *keys: str) -> None:
        """Press and release keys, one after the other."""
        for key in keys:
            typed = {"text": key} if len(key) == 1 else {}
            await self.call("Input.dispatchKeyEvent", type="keyDown", key=key, **typed)
            await self.call("Input.dispatchKeyEvent", type="keyUp", key=key)

    async def focus(self, selector: str) -> None:
        """Wait until an element is drawn, and move the focus to it."""
        await self.until(f"document.querySelector({selector!r})")
        await self.value(f"document.querySelector({selector!r}).focus()")

    async def show(self, url: str, *, width: int = 1000, dark: bool = False) -> None:
        """Open a page in a window of `width` pixels, in light or dark mode."""
        scheme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        await self.call("Emulation.setEmulatedMedia", features=scheme)
        await self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=900,
            deviceScaleFactor=1,
            mobile=width < PHONE,
        )
        await self.call("Emulation.setTouchEmulationEnabled", enabled=width < PHONE)
        await self.call("Page.navigate", url=url)

    async def screenshot(self, path: Path) -> None:
        """Write a PNG of the whole page."""
        answer = await self.call(
            "Page.captureScreenshot", format="png", captureBeyondViewport=True
        )
        await anyio.Path(path).write_bytes(base64.b64decode(answer["data"]))


@asynccontextmanager
async def browser(folder: Path) -> AsyncIterator[Page]:
    """Run a browser; yield its only tab. Skip the test if no browser is installed."""
    program = shutil.which("chromium") or shutil.which("google-chrome")
    if program is None:
        pytest.skip("no chromium on this machine; the page is not opened")
    command = [
        *(program, "--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-port=0"),
        *(f"--user-data-dir={folder / 'profile'}", "about:blank"),
    ]
    async with await anyio.open_process(command, stdout=None) as process:
        try:
            with anyio.fail_after(SECONDS):
                assert process.stderr is not None
                printed = b""
                while b"DevTools listening on " not in printed or not printed.endswith(b"\n"):
                    printed += await process.stderr.receive()
            port = printed.partition(b"ws://127.0.0.1:")[2].partition(b"/")[0].decode()
            async with aiohttp.ClientSession() as http:
                async with http.get(f"http://127.0.0.1:{port}/json/list") as answer:
                    tabs = json.loads(await answer.text())
                [url] = [t["webSocketDebuggerUrl"] for t in tabs if t["type"] == "page"]
                async with http.ws_connect(url, max_msg_size=0) as socket:
                    yield Page(socket, process.pid)
        finally:
            process.terminate()
