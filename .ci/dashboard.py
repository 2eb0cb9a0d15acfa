"""Draws the dashboard with data in it: docs/images/dashboard.png.

Grafana is in no registry that the project's machines reach (Debian, PyPI, npm, Go), so this draws
each panel of dashboard.json itself: its place, title, unit, thresholds, legends and what it says
when it is empty, with the answers of a real Prometheus. That holds scrapes of the controllers at
work: half an hour, a minute for each scrape. Needs prometheus and chromium.
"""

import json
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from html import escape
from math import log10
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import anyio
import httpx

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

from controller import logs  # noqa: E402
from reconcilers.api.names import API_VERSION  # noqa: E402
from tests.browser import browser  # noqa: E402
from tests.manifests import test_dashboard as lab  # noqa: E402
from tests.polling import until  # noqa: E402

PICTURE = ROOT / "docs" / "images" / "dashboard.png"
BEGUN = 1_700_000_000
SCRAPES, EVERY = 30, 60
CELL, GAP = 50, 8
"""Pixels of a grid cell's width; between panels."""
ROW = 30
PEN = ("#73bf69", "#f2cc0c", "#5794f2", "#ff780a", "#e02f44", "#b877d9", "#8ab8ff", "#c0d8ff")
STYLE = """
body{margin:0;background:#111217;color:#d8d9da;font:12px sans-serif;position:relative}
.panel,.row{position:absolute;box-sizing:border-box;overflow:hidden}
.panel{background:#181b1f;border:1px solid #2c3235;padding:6px}
.row{font-size:15px;font-weight:bold;padding-top:4px}
h2{font-size:13px;margin:0}
p{margin:2px 0;color:#9a9da1;font-size:10px;line-height:1.2}
.none{color:#9a9da1;text-align:center;padding-top:60px}
.legend{font-size:10px;line-height:1.3}
svg{display:block}
"""
STEPS = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "K"))


@dataclass(frozen=True)
class Line:
    """One series of a panel.

    Args:
        name: in the legend.
        unit: of its values.
        points: seconds and values.
        right: whether its axis is the right one.
    """

    name: str
    unit: str
    points: Sequence[tuple[float, float]]
    right: bool = False


def format_value(value: float, unit: str) -> str:
    """Return a value as Grafana shows it in a unit."""
    match unit:
        case "percentunit":
            return f"{100 * value:.0f}%"
        case "percent":
            return f"{value:.0f}%"
        case "s":
            return f"{1000 * value:.3g} ms" if value < 1 else f"{value:.3g} s"
        case "bytes":
            return f"{value / 2**20:.0f} MiB"
        case _:
            size, letter = next(((s, prefix) for s, prefix in STEPS if value >= s), (1, ""))
            more = {"ops": " ops/s", "reqps": " req/s"}.get(unit, "")
            return f"{value / size:.3g}{letter}{more}"


def list_overrides(panel: Mapping[str, Any], ref: str) -> Mapping[str, Any]:
    """Return the properties of a query's series that differ from the panel's."""
    return {
        entry["id"]: entry["value"]
        for override in panel["fieldConfig"]["overrides"]
        if override["matcher"] == {"id": "byFrameRefID", "options": ref}
        for entry in override["properties"]
    }


async def read_lines(http: httpx.AsyncClient, panel: Mapping[str, Any]) -> list[Line]:
    """Return the series with which Prometheus answers a panel's queries."""
    series_lines = []
    for target in panel["targets"]:
        query = re.sub(r"\$(namespace|pool)", ".*", target["expr"])
        span = {"start": BEGUN, "end": BEGUN + (SCRAPES - 1) * EVERY, "step": EVERY}
        answer = await http.get("/api/v1/query_range", params={"query": query, **span})
        answer.raise_for_status()
        own = list_overrides(panel, target["refId"])
        for series in answer.json()["data"]["result"]:
            points = [(at, float(value)) for at, value in series["values"] if value != "NaN"]
            name = lab.format_legend(series["metric"], target["legendFormat"]).strip()
            unit = own.get("unit", panel["fieldConfig"]["defaults"]["unit"])
            series_lines.append(Line(name, unit, points, right="custom.axisPlacement" in own))
    return [line for line in series_lines if line.points]


def draw_graph(panel: Mapping[str, Any], drawn: Sequence[Line], width: int, height: int) -> str:
    """Return a graph over time, with an axis on each side that has series."""
    parts = []
    for right in (False, True):
        of_axis = [(at, line) for at, line in enumerate(drawn) if line.right == right]
        if not of_axis:
            continue
        place, back = choose_scales(
            panel, max(value for _, line in of_axis for _, value in line.points)
        )
        side = f'x="{width - 2}" text-anchor="end"' if right else 'x="2"'
        for share in (0, 0.5, 1):
            y = 12 + (height - 20) * (1 - share)
            parts.append(f'<path d="M0 {y}H{width}" stroke="#2c3235"/>')
            label = format_value(back(share), of_axis[0][1].unit)
            parts.append(f'<text {side} y="{y - 2}" fill="#9a9da1" font-size="9">{label}</text>')
        for at, line in of_axis:
            path = " ".join(
                f"{(when - BEGUN) / (SCRAPES * EVERY) * width:.1f},"
                f"{12 + (height - 20) * (1 - place(value)):.1f}"
                for when, value in line.points
            )
            dash = ' stroke-dasharray="4 3"' if right else ""
            pen = PEN[at % len(PEN)]
            parts.append(f'<polyline points="{path}" fill="none" stroke="{pen}"{dash}/>')
    return f'<svg width="{width}" height="{height}">{"".join(parts)}</svg>' + draw_legend(drawn)


def choose_scales(
    panel: Mapping[str, Any], top: float
) -> tuple[Callable[[float], float], Callable[[float], float]]:
    """Return from a value to the share of the height at which it is, and back."""
    custom = panel["fieldConfig"]["defaults"].get("custom", {})
    top = top or 1
    if custom.get("scaleDistribution", {}).get("type") == "symlog":
        most = log10(1 + top)
        return lambda value: log10(1 + value) / most, lambda share: 10 ** (share * most) - 1
    return lambda value: value / top, lambda share: share * top


def draw_legend(drawn: Sequence[Line]) -> str:
    """Return the names of the series, with their last values."""
    return (
        '<div class="legend">'
        + "".join(
            f'<span style="color:{PEN[at % len(PEN)]}">&#9644;</span> {escape(line.name)}'
            f" <b>{format_value(line.points[-1][1], line.unit)}</b> &nbsp; "
            for at, line in enumerate(drawn)
        )
        + "</div>"
    )


def draw_bars(panel: Mapping[str, Any], drawn: Sequence[Line], width: int) -> str:
    """Return a bar for each series, in the colour of the threshold that it has passed."""
    steps = panel["fieldConfig"]["defaults"]["thresholds"]["steps"]
    html = ""
    for line in drawn:
        value = line.points[-1][1]
        colour = [step["color"] for step in steps if value >= (step["value"] or 0)][-1]
        html += (
            f"<div>{escape(line.name)} <b>{format_value(value, line.unit)}</b>"
            f'<div style="height:14px;width:{value * width:.0f}px;background:{colour}"></div>'
            "</div>"
        )
    return html


def draw_panel(panel: Mapping[str, Any], drawn: Sequence[Line]) -> str:
    """Return a panel's content."""
    at = panel["gridPos"]
    width, height = at["w"] * CELL - GAP - 14, at["h"] * ROW - GAP - 100
    if not drawn:
        body = f'<div class="none">{escape(panel["fieldConfig"]["defaults"]["noValue"])}</div>'
    elif panel["type"] == "bargauge":
        body = draw_bars(panel, drawn, width)
    elif panel["type"] == "stat":
        body = f'<div style="font-size:60px">{format_value(drawn[0].points[-1][1], "short")}</div>'
    else:
        body = draw_graph(panel, drawn, width=width, height=height)
    return f"<h2>{escape(panel['title'])}</h2><p>{escape(panel['description'])}</p>{body}"


async def build_page(http: httpx.AsyncClient, panels: Sequence[Mapping[str, Any]]) -> str:
    """Return the dashboard as a page."""
    parts, bottom = [], 0
    for panel in panels:
        at = panel["gridPos"]
        place = f"left:{at['x'] * CELL}px;top:{at['y'] * ROW}px"
        size = f"width:{at['w'] * CELL - GAP}px;height:{at['h'] * ROW - GAP}px"
        is_row = panel["type"] == "row"
        body = (
            escape(panel["title"]) if is_row else draw_panel(panel, await read_lines(http, panel))
        )
        kind = "row" if is_row else "panel"
        parts.append(f'<div class="{kind}" style="{place};{size}">{body}</div>')
        bottom = max(bottom, (at["y"] + at["h"]) * ROW)
    style = f"{STYLE}body{{width:{24 * CELL}px;height:{bottom}px}}"
    return f'<!doctype html><meta charset="utf-8"><style>{style}</style>{"".join(parts)}'


def list_requests() -> Iterator[tuple[str, int]]:
    """Yield names and sizes of allocations, one for each scrape."""
    for number in range(SCRAPES):
        yield f"more-{number}", (4, 8, 2, 12, 6)[number % 5]


async def collect_scrapes(folder: Path) -> str:
    """Return scrapes of the controllers while allocations are made and deleted."""
    exposition = ""
    async with lab.run_controllers(folder) as (http, manager):
        where = f"/apis/{API_VERSION}/namespaces/{lab.HOME}/ipallocations"
        await http.delete(f"{where}/refused")
        for number, (name, size) in enumerate(list_requests()):
            await lab.create_object(http, "ipallocations", name, lab.make_allocation_spec(size))
            if number > 12 and number % 3 == 0:
                await http.delete(f"{where}/more-{number - 10}")
            await until(
                partial(read_phase, http, f"{where}/{name}"), {"Allocated", "Failed"}.__contains__
            )
            exposition += lab.stamp_lines(
                await lab.scrape_metrics(manager), BEGUN + number * EVERY
            )
    return exposition


async def read_phase(http: httpx.AsyncClient, path: str) -> str:
    """Return the phase of an allocation; empty if it has none yet."""
    return str((await http.get(path)).json().get("status", {}).get("phase", ""))


async def main() -> None:
    """Write the picture."""
    logs.configure_logs("console", "error")
    board = json.loads((lab.PROMETHEUS / "dashboard.json").read_text())
    with TemporaryDirectory() as name:
        folder = Path(name)
        exposition = await collect_scrapes(folder)
        async with lab.run_prometheus(folder, exposition) as http:
            html = await build_page(http, board["panels"])
        target = folder / "dashboard.html"
        target.write_text(html, encoding="utf-8")
        async with browser(folder) as tab:
            await tab.show(target.as_uri(), width=24 * CELL)
            await tab.until("document.querySelector('.panel')")
            await tab.screenshot(PICTURE)


if __name__ == "__main__":
    anyio.run(main)
