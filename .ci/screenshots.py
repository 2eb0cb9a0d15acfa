"""Takes the pictures of the documents anew: the page of addresses, `pools` and `map`.

They are of made-up objects, the same each time. Needs chromium.
"""

import re
import subprocess
import sys
from functools import partial
from html import escape
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import anyio
import yaml

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

from tests.browser import Page, browser  # noqa: E402
from tests.reconcilers.cli.commandline import make_pool  # noqa: E402
from tests.reconcilers.cli.saved import make_holder, make_saved_cluster  # noqa: E402

IMAGES = ROOT / "docs" / "images"
TENANTS = (
    "team-a/web",
    "team-b/api",
    "payments/prod",
    "payments/test",
    "shop/prod",
    "ml/training",
)
PAGE_WIDTH = 1600
"""Pixels in which the tables of the page show all of their columns."""
COLOURS = {"31": "#ff7b72", "32": "#7ee787", "33": "#e3b341", "34": "#79c0ff", "90": "#8b949e"}


def objects() -> list[dict[str, Any]]:
    """Return two pools, six tenants, and what they hold."""
    ready = {"type": "Ready", "status": "True", "reason": "Serving", "message": "serving"}
    ready["lastTransitionTime"] = "2026-01-01T00:00:00Z"
    documents: list[dict[str, Any]] = [
        make_pool(
            "vlan40", "10.40.0.0/24", reserved=["10.40.0.0/28"], status={"conditions": [ready]}
        ),
        make_pool("vlan41", "10.41.0.0/26", status={"conditions": [ready]}),
    ]
    at = 16
    for number in range(12):
        tenant, size = TENANTS[number % len(TENANTS)], (8, 16, 4, 24, 8, 16)[number % 6]
        ends = (f"10.40.0.{at}", f"10.40.0.{at + size - 1}")
        kind = "nodes" if number % 3 == 0 else "loadbalancer"
        documents.append(
            make_holder(f"vlan40-{number}", *ends, pool="vlan40", tenant=tenant, purpose=kind)
        )
        at += size + (8 if number % 4 == 3 else 0)
    for number in range(5):
        ends = (f"10.41.0.{10 * number}", f"10.41.0.{10 * number + 7}")
        documents.append(
            make_holder(f"vlan41-{number}", *ends, pool="vlan41", tenant=TENANTS[number])
        )
    for tenant_key in TENANTS:
        namespace, _, name = tenant_key.partition("/")
        network = {**ready, "type": "NetworkReady"}
        documents.append(
            make_saved_cluster(name, namespace)
            | {"status": {"phase": "Ready", "conditions": [network]}}
        )
    return documents


def render_output(*arguments: str) -> str:
    """Return the output of a command, with colours, as HTML."""
    command = [sys.executable, "-m", "reconcilers", *arguments]
    done = subprocess.run(
        command, capture_output=True, text=True, check=True, env={"FORCE_COLOR": "1"}, cwd=ROOT
    )
    html = re.sub(
        r"\x1b\[(\d+)m",
        lambda match: (
            f'<span style="color:{COLOURS[match[1]]}">' if match[1] in COLOURS else "</span>"
        ),
        escape(f"$ butler-ipam {' '.join(arguments[:-2])}\n{done.stdout}"),
    )
    style = "margin:0;padding:16px;background:#0d1117;color:#e6edf3;font:14px/1.3 monospace"
    return f'<meta charset="utf-8"><body style="margin:0"><pre style="{style}">{html}</pre>'


async def take(page: Page, folder: Path, saved: Path) -> None:
    """Take all pictures."""
    target = folder / "map.html"
    command = [sys.executable, "-m", "reconcilers", "map", "--html", str(target), "-f", str(saved)]
    await anyio.run_process(command, cwd=ROOT)
    await page.show(target.as_uri(), width=PAGE_WIDTH)
    await page.until("document.body && document.body.dataset.drawn === 'true'")
    await page.screenshot(IMAGES / "page.png")
    for name, arguments in (("pools", ("pools",)), ("map", ("map", "vlan41"))):
        target = folder / f"{name}.html"
        html = await anyio.to_thread.run_sync(partial(render_output, *arguments, "-f", str(saved)))
        await anyio.Path(target).write_text(html, encoding="utf-8")
        await page.show(target.as_uri(), width=1200)
        await page.until("document.querySelector('pre')")
        height = await page.value("document.querySelector('pre').offsetHeight")
        size = {"width": 1200, "height": height, "deviceScaleFactor": 1, "mobile": False}
        await page.call("Emulation.setDeviceMetricsOverride", **size)
        await page.screenshot(IMAGES / f"{name}.png")


async def main() -> None:
    """Write docs/images."""
    IMAGES.mkdir(exist_ok=True)
    with TemporaryDirectory() as name:
        folder = Path(name)
        saved = folder / "saved.yaml"
        saved.write_text(yaml.safe_dump_all(objects(), sort_keys=False))
        async with browser(folder) as page:
            await take(page, folder, saved)


if __name__ == "__main__":
    anyio.run(main)
