/* One panel for each pool: a map on a canvas, a line that says what is pointed at, a list. */
const ROW = 18, ROWS = 32, LEAST_PER_ROW = 16n;
const panels = new Map();

function panelOf(pool) {
  const section = make("section", undefined, {id: poolId(pool)});
  section.dataset.pool = pool.name;
  const head = make("header"), details = make("details"), summary = make("summary");
  const panel = {pool, section, head, details, summary, cursor: null, gutter: 0, drawn: false, canvas: null};
  section.append(head);
  details.append(summary);
  details.ontoggle = () => list(panel);
  if (!pool.fault) {
    const canvas = make("canvas", "", {tabIndex: 0}), where = make("div", "", {className: "where"});
    const key = make("div", "", {className: "key", hidden: true});
    canvas.setAttribute("role", "application");
    canvas.setAttribute("aria-label", `address space of ${pool.name}; plus and minus zoom, arrows step; the list below says the same`);
    where.setAttribute("aria-live", "polite");
    section.append(canvas, key, where, details);
    const size = pool.size > 1n ? 1n << BigInt((pool.size - 1n).toString(2).length) : 1n;
    const [family, first] = parsed(pool.first);
    Object.assign(panel, {canvas, key, where, size, family, first, from: 0n, span: size});
    panel.rows = Number(bound(1n, size / LEAST_PER_ROW, BigInt(ROWS)));
    listen(panel);
  }
  refresh(panel, pool);
  return panel;
}
/* Show a pool's figures anew; where the map stands stays as it is. */
function refresh(panel, pool) {
  panel.pool = pool;
  const bad = (text, is) => make("small", text, {className: is ? "bad" : ""});
  panel.head.replaceChildren(make("h2", pool.name), make("small", pool.cidr));
  if (pool.fault) { panel.head.append(bad(`cannot be drawn: ${pool.fault}`, true)); return; }
  const outside = pool.extents.filter((one) => one.at < 0n || one.at >= pool.size).length;
  panel.head.append(
    ...(pool.notRead.length ? [bad(`what is free is not known: you may not read ${pool.notRead.join(", ")}`, true)] : [
      make("small", `${pool.percent}% used, ${count(pool.available)} of ${count(pool.total)} free`),
      make("small", `largest free block ${count(pool.largest)}, fragmentation ${pool.fragmentation}%`),
      make("small", pool.waiting ? `${pool.waiting} waiting` : "none waiting"),
    ]),
    bad(pool.ready === "True" ? "Ready" : `Ready ${pool.ready}: ${pool.reason}`, pool.ready !== "True"),
  );
  if (outside) panel.head.append(bad(`${outside} held outside the CIDR: see the list`, true));
  if (!panel.buttons) {
    panel.buttons = make("span", undefined, {className: "zoom"});
    for (const [label, act] of [["zoom in", () => zoom(panel, 0.5)], ["zoom out", () => zoom(panel, 2)], ["used part", () => usedPart(panel)], ["whole pool", () => whole(panel)]]) {
      const button = make("button", label, {type: "button", onclick: act});
      button.setAttribute("aria-label", `${label}: ${pool.name}`);
      panel.buttons.append(button);
    }
  }
  panel.head.append(panel.buttons);
  say(panel);
}

const inside = (panel) => panel.pool.extents.filter((one) => one.at >= 0n && one.at < panel.pool.size);
const find = (panel, at) => {
  const all = panel.pool.extents;
  let low = 0, high = all.length - 1;
  while (low <= high) {
    const middle = (low + high) >> 1, one = all[middle];
    if (at < one.at) high = middle - 1;
    else if (at >= one.at + one.size) low = middle + 1;
    else return one;
  }
  return null;
};
const least = (panel) => smaller(panel.size, BigInt(panel.rows * 4));
const text = (panel, at) => written(panel.family, panel.first + at);
const perRowOf = (panel) => panel.span / BigInt(panel.rows);

/* What zooming keeps in place: the cursor, else the middle of what is held in view. */
function focusOf(panel) {
  const end = panel.from + panel.span;
  if (panel.cursor !== null && panel.cursor >= panel.from && panel.cursor < end) return panel.cursor;
  const held = inside(panel).filter((one) => one.holders.length && one.at < end && one.at + one.size > panel.from);
  if (!held.length) return panel.from + panel.span / 2n;
  const last = held[held.length - 1];
  return (larger(held[0].at, panel.from) + smaller(last.at + last.size, end)) / 2n;
}
function zoom(panel, factor, at) {
  const fixed = at ?? focusOf(panel), across = Number(fixed - panel.from) / Number(panel.span);
  // Two fingers ask for small factors: each turns a small span into another one.
  const asked = scaled(panel.span, factor), step = factor < 1 ? -1n : 1n;
  const span = bound(least(panel), asked === panel.span ? asked + step : asked, panel.size);
  // What is zoomed to by a button moves to the middle: it may lie at the edge of what is seen.
  panel.from = fixed - scaled(span, at === undefined && factor < 1 ? 0.5 : across);
  panel.span = span;
  draw(panel);
}
function whole(panel) { panel.from = 0n; panel.span = panel.size; draw(panel); }
function usedPart(panel) {
  const held = inside(panel).filter((one) => one.holders.length);
  if (!held.length) { whole(panel); return; }
  const first = held[0].at, last = held[held.length - 1].at + held[held.length - 1].size;
  panel.span = panel.size;
  panel.from = 0n;
  while (panel.span / 2n >= least(panel)) {
    const span = panel.span / 2n, perRow = span / BigInt(panel.rows), from = first / perRow * perRow;
    if (last > from + span) break;
    panel.span = span;
    panel.from = from;
  }
  draw(panel);
}
/* Say what is pointed at; at rest, how the pool is divided. */
function say(panel, found) {
  const {where, pool, cursor} = panel;
  if (found) { where.textContent = told(found); return; }
  const here = cursor === null ? null : find(panel, cursor);
  if (!here) {
    const sizes = {};
    for (const one of inside(panel)) sizes[one.state] = (sizes[one.state] || 0n) + one.size;
    where.textContent = Object.keys(DATA.states).filter((state) => sizes[state]).map((state) => `${state} ${count(sizes[state])}`).join("  ·  ");
    return;
  }
  where.textContent = `${text(panel, cursor)}  in  ${told(here)}`;
  for (const {allocation, tenant, type} of here.holders) {
    const copy = make("button", "copy", {type: "button", title: "copy the command"});
    const command = kubectl("ipallocation", allocation);
    copy.onclick = () => navigator.clipboard.writeText(command).then(() => { copy.textContent = "copied"; }, () => { copy.textContent = "not allowed"; });
    const entry = make("a", "in the list", {href: `#${panel.section.id}`});
    entry.onclick = (event) => { event.preventDefault(); showInList(panel, allocation); };
    const owner = tenantLink(tenant);
    where.append(entry, owner, make("br"), make("code", command), copy);
    if (type !== "claim") where.append(make("br"), make("code", kubectl("tenantcluster", tenant)));
  }
}
function showInList(panel, allocation) {
  panel.details.open = true;
  list(panel);
  const row = [...panel.details.querySelectorAll("tbody tr")].find((one) => one.cells[4]?.textContent === allocation);
  if (!row) return;
  row.tabIndex = -1;
  row.scrollIntoView({block: "center"});
  row.focus();
}
function point(panel, at, follow) {
  panel.cursor = bound(0n, at, panel.pool.size - 1n);
  const perRow = perRowOf(panel);
  if (follow && panel.cursor < panel.from) panel.from = panel.cursor / perRow * perRow;
  if (follow && panel.cursor >= panel.from + panel.span) panel.from = (panel.cursor / perRow + 1n) * perRow - panel.span;
  say(panel);
  draw(panel);
}
function jump(panel, step) {
  const all = panel.pool.extents, here = panel.cursor ?? (step > 0 ? -1n : panel.pool.size);
  const fits = (one) => one.at >= 0n && one.at < panel.pool.size && matches(one, panel.pool);
  const next = step > 0 ? all.find((one) => one.at > here && fits(one)) : all.findLast((one) => one.at + one.size <= here && fits(one));
  if (next) point(panel, next.at, true);
}

/* As many pixels as paper is drawn wide, whatever the width of the window. */
const PAPER = 1000;
const GAP = 6, BESIDE = 190, BESIDE_FROM = 760, KEYED = 12;
function addressAt(panel, event) {
  const box = panel.canvas.getBoundingClientRect();
  const row = bound(0, Math.floor((event.clientY - box.top) / ROW), panel.rows - 1);
  const across = bound(0, (event.clientX - box.left - panel.gutter) / (box.width - panel.gutter - panel.beside), 0.999999);
  return panel.from + BigInt(Math.floor(Number(panel.span) * (row + across) / panel.rows));
}
function draw(panel) {
  const {canvas, pool, rows} = panel;
  if (!canvas) return;
  panel.from = bound(0n, panel.from, panel.size - panel.span);
  Object.assign(panel.section.dataset, {from: panel.from, span: panel.span, cursor: panel.cursor ?? ""});
  canvas.classList.toggle("near", panel.span < panel.size);
  const width = printing ? PAPER : canvas.clientWidth || 960, ratio = printing ? 2 : window.devicePixelRatio || 1;
  canvas.style.height = `${ROW * rows}px`;
  canvas.width = width * ratio;
  canvas.height = ROW * rows * ratio;
  const pen = canvas.getContext("2d"), style = getComputedStyle(document.documentElement);
  const dim = printing ? "#57606a" : style.getPropertyValue("--dim"), mark = printing ? "#1f2328" : style.getPropertyValue("--mark");
  pen.scale(ratio, ratio);
  pen.font = "11px system-ui, sans-serif";
  const {from} = panel, shownTo = from + panel.span, perRow = Number(panel.span) / rows;
  const starts = Array.from({length: rows}, (_, row) => text(panel, from + panel.span * BigInt(row) / BigInt(rows)));
  panel.gutter = Math.min(width * 0.45, Math.max(...starts.map((start) => pen.measureText(start).width)) + 20);
  panel.beside = width >= BESIDE_FROM ? BESIDE : 0;
  const scale = (width - panel.gutter - panel.beside) / perRow;
  pen.fillStyle = dim;
  starts.forEach((start, row) => pen.fillText(start, 8, row * ROW + ROW - 5, panel.gutter - 14));
  const names = Array.from({length: rows}, () => new Set()), plates = [];
  for (const one of pool.extents) {
    const first = larger(one.at, from), beyond = smaller(one.at + one.size, smaller(shownTo, pool.size));
    if (first >= beyond) continue;
    const begin = Number(first - from), end = Number(beyond - from);
    pen.fillStyle = fillFor(pen, one);
    pen.globalAlpha = !matches(one, pool) ? 0.12 : one.state === "releasing" || one.state === "promised" ? 0.6 : 1;
    let name = matches(one, pool) ? tenantOf(one) : "";
    const firstRow = Math.floor(begin / perRow);
    for (let row = firstRow; row < rows; row += 1) {
      const left = Math.max(begin, row * perRow), right = Math.min(end, (row + 1) * perRow);
      if (left >= right) break;
      const x = panel.gutter + (left - row * perRow) * scale, wide = (right - left) * scale;
      pen.fillRect(x, row * ROW, Math.max(one.holders.length ? 2 : 0.5, wide - (scale > 3 ? 1 : 0)), ROW - 2);
      if (name && pen.measureText(name).width + 2 * GAP <= wide) { plates.push([name, x, row]); name = ""; }
    }
    if (name) names[firstRow].add(name);
  }
  pen.globalAlpha = 1;
  write(pen, panel, plates, names, width, dim);
  if (panel.cursor !== null && panel.cursor >= from && panel.cursor < shownTo) {
    const at = Number(panel.cursor - from), row = Math.floor(at / perRow);
    pen.strokeStyle = mark;
    pen.lineWidth = 2;
    pen.strokeRect(panel.gutter + (at - row * perRow) * scale, row * ROW, Math.max(4, scale), ROW - 2);
  }
  panel.drawn = true;
}
/* Names in the ranges, on a ground of their own, and beside the rows. */
function write(pen, panel, plates, names, width, dim) {
  for (const [name, x, row] of plates) {
    pen.fillStyle = isDark() ? "#0d1117e6" : "#ffffffe6";
    pen.fillRect(x + 3, row * ROW + 2, pen.measureText(name).width + 6, ROW - 6);
    pen.fillStyle = isDark() ? "#e6edf3" : "#1f2328";
    pen.fillText(name, x + 6, row * ROW + ROW - 5.5);
  }
  below(panel, panel.beside ? [] : [...new Set(names.flatMap((found) => [...found]))]);
  if (!panel.beside) return;
  pen.fillStyle = dim;
  names.forEach((found, row) => {
    let line = [...found].join(", ");
    const room = panel.beside - 2 * GAP;
    if (pen.measureText(line).width > room) {
      while (line && pen.measureText(`${line}…`).width > room) line = line.slice(0, -1);
      line += "…";
    }
    pen.fillText(line, width - panel.beside + GAP, row * ROW + ROW - 5);
  });
}
/* Names that are neither in their ranges nor beside them, as a narrow window has no room there. */
function below(panel, names) {
  const {key} = panel, more = names.length - KEYED;
  key.hidden = !names.length;
  key.replaceChildren(...names.slice(0, KEYED).map((name) => {
    const entry = make("span");
    entry.append(swatch(name), name);
    return entry;
  }));
  if (more > 0) key.append(make("span", `and ${count(more)} more: zoom in`));
}
