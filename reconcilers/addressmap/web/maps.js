/* One panel for each pool: a map on a canvas, a line that says what is pointed at, a list. */
const ROW = 18, ROWS = 32, LEAST_PER_ROW = 16n;
const OPEN_AT_MOST = 8, NEAR = "400px";
const panels = new Map();

/* Only maps in view have pixels: forty of them would take 100 MB. */
const observer = new IntersectionObserver((entries) => {
  for (const {target, isIntersecting} of entries) {
    const {panel} = target;
    panel.isVisible = isIntersecting;
    if (isIntersecting) mark(panel);
    else if (!printing) { target.width = 0; panel.isStale = true; }
  }
  afterFrame();
}, {rootMargin: NEAR});

class Panel {
  constructor(pool) {
    this.section = make("section", undefined, {id: poolId(pool)});
    this.section.dataset.pool = pool.name;
    this.head = make("header");
    this.section.append(this.head);
    Object.assign(this, {choice: undefined, isOpen: false, isVisible: undefined, isStale: true, cursor: null, gutter: 0, canvas: null, body: null});
    this.refresh(pool);
  }
  /* Show a pool's figures; where the map stands stays as it is. */
  refresh(pool) {
    this.pool = pool;
    const bad = (text, is) => make("small", text, {className: is ? "bad" : ""});
    const line = [make("h2", pool.name), make("small", pool.cidr)];
    if (pool.fault) { this.head.replaceChildren(...line, bad(`cannot be drawn: ${pool.fault}`, true)); return; }
    const counted = (value) => addressCount(pool.family, value), outside = pool.extents.length - inside(pool).length;
    line.push(
      ...(pool.notRead.length ? [bad(`what is free is not known; not read: ${pool.notRead.join(", ")}`, true)] : [
        make("small", `${pool.percent}% used, ${counted(pool.available)} of ${counted(pool.total)} free`),
        make("small", `largest free block ${counted(pool.largest)}, fragmentation ${pool.fragmentation}%`),
        make("small", pool.waiting ? `${count(pool.waiting)} waiting` : "none waiting"),
      ]),
      bad(pool.ready === "True" ? "Ready" : `Ready ${pool.ready}: ${pool.reason}`, isNotReady(pool)),
    );
    if (outside) line.push(bad(`${outside} held outside the CIDR: see the list`, true));
    this.buttons ??= this.makeButtons();
    const focused = this.buttons.contains(document.activeElement) ? document.activeElement : null;
    // The buttons stay where they are: moving them would take the focus from them.
    if (this.buttons.parentNode !== this.head) this.head.replaceChildren(...line, this.buttons);
    else {
      while (this.buttons.previousSibling) this.buttons.previousSibling.remove();
      this.buttons.before(...line);
    }
    focused?.focus({preventScroll: true});
    if (this.canvas) say(this);
  }
  makeButtons() {
    const box = make("span", undefined, {className: "zoom"}), {name} = this.pool;
    this.zooms = [["zoom in", () => zoom(this, 0.5)], ["zoom out", () => zoom(this, 2)], ["used part", () => usedPart(this)], ["whole pool", () => whole(this)]].map(([label, act]) => {
      const button = make("button", label, {type: "button", onclick: act});
      button.setAttribute("aria-label", `${label}: ${name}`);
      return button;
    });
    this.opener = make("button", "map", {type: "button", onclick: () => { this.choice = !this.isOpen; this.open(this.choice); }});
    this.opener.setAttribute("aria-label", `map: ${name}`);
    this.opener.setAttribute("aria-expanded", "false");
    box.append(...this.zooms, this.opener);
    for (const button of this.zooms) button.hidden = true;
    return box;
  }
  /* Show the map and the list, or hide them; they are made when they are first shown. */
  open(isOpen) {
    if (this.pool.fault || this.isOpen === isOpen) return;
    this.isOpen = isOpen;
    if (isOpen && !this.body) this.makeBody();
    this.body.hidden = !isOpen;
    for (const button of this.zooms) button.hidden = !isOpen;
    this.opener.setAttribute("aria-expanded", String(isOpen));
    this.change();
  }
  makeBody() {
    const {pool} = this;
    this.canvas = make("canvas", "", {className: "map", tabIndex: 0, panel: this});
    this.where = make("div", "", {className: "where"});
    this.key = make("div", "", {className: "key", hidden: true});
    this.details = make("details", undefined, {ontoggle: () => this.change()});
    this.summary = make("summary");
    this.details.append(this.summary);
    this.canvas.setAttribute("role", "application");
    this.canvas.setAttribute("aria-label", `address space of ${pool.name}; plus and minus zoom, arrows step; the list below says the same`);
    this.where.setAttribute("aria-live", "polite");
    this.size = pool.size > 1n ? 1n << BigInt(bits(pool.size - 1n)) : 1n;
    this.from = 0n;
    this.span = this.size;
    this.rows = Number(bound(1n, this.size / LEAST_PER_ROW, BigInt(ROWS)));
    this.canvas.style.height = `${ROW * this.rows}px`;
    this.body = make("div");
    this.body.append(this.canvas, this.key, this.where, this.details);
    this.section.append(this.body);
    listen(this);
    observer.observe(this.canvas);
    say(this);
  }
  /* Draw again what shows the pool or the place in it. */
  change() {
    if (!this.canvas) return;
    this.from = bound(0n, this.from, this.size - this.span);
    Object.assign(this.section.dataset, {from: this.from, span: this.span, cursor: this.cursor ?? ""});
    this.isStale = true;
    mark(this);
  }
  /* Whether everything that should be seen of the map was drawn. */
  get isDrawn() { return !this.isOpen || this.section.hidden || this.isVisible === false || (this.isVisible && !this.isStale); }
  draw() {
    if (!this.isOpen || this.section.hidden) return;
    fillList(this);
    if (this.isStale && (this.isVisible || printing)) drawMap(this);
  }
  measure() { this.list?.measure(); this.waitingList?.measure(); }
  remove() {
    if (this.canvas) observer.unobserve(this.canvas);
    this.section.remove();
  }
}
/* Make panels for pools that came, remove those of pools that went, refresh the others. */
function arrange() {
  const pools = shownPools(), place = byId("pools");
  for (const [key, panel] of panels) {
    const pool = store.pools.get(key);
    if (pool && (pool === panel.pool || !(panel.pool.fault || pool.fault || panel.pool.cidr !== pool.cidr))) continue;
    panel.remove();
    panels.delete(key);
  }
  pools.forEach((pool, at) => {
    let panel = panels.get(pool.key);
    if (!panel) panels.set(pool.key, panel = new Panel(pool));
    else if (panel.pool !== pool) { panel.refresh(pool); panel.change(); }
    panel.section.classList.toggle("new", pool.isNew);
    if (place.children[at] !== panel.section) place.insertBefore(panel.section, place.children[at] || null);
  });
}
function showPanels({pools}) {
  const shown = new Set(pools.map(({key}) => key));
  for (const [key, panel] of panels) {
    panel.section.hidden = !shown.has(key);
    if (panel.section.hidden) continue;
    panel.open(panel.choice ?? pools.length <= OPEN_AT_MOST);
    const matches = matchesIn(panel.pool);
    if (panel.matched === matches) continue;
    panel.matched = matches;
    panel.change();
  }
}
function openPool(key) {
  const panel = panels.get(key);
  if (!panel) return;
  panel.choice = true;
  panel.open(true);
  panel.section.scrollIntoView();
  panel.canvas?.focus({preventScroll: true});
}

const leastSpan = (panel) => smaller(panel.size, BigInt(panel.rows * 4));
const perRowOf = (panel) => panel.span / BigInt(panel.rows);
const held = (pool) => derive(pool, "held", () => inside(pool).filter(({holders}) => holders.length));

/* Return what zooming keeps in place: the cursor, else the middle of what is held in view. */
function focusOf(panel) {
  const end = panel.from + panel.span;
  if (panel.cursor !== null && panel.cursor >= panel.from && panel.cursor < end) return panel.cursor;
  const found = held(panel.pool).filter((extent) => extent.at < end && extent.at + extent.size > panel.from);
  if (!found.length) return panel.from + panel.span / 2n;
  const last = found[found.length - 1];
  return (larger(found[0].at, panel.from) + smaller(last.at + last.size, end)) / 2n;
}
function zoom(panel, factor, at) {
  const fixed = at ?? focusOf(panel), across = Number(fixed - panel.from) / Number(panel.span);
  // Two fingers ask for small factors: each turns a small span into another one.
  const asked = scaled(panel.span, factor), step = factor < 1 ? -1n : 1n;
  const span = bound(leastSpan(panel), asked === panel.span ? asked + step : asked, panel.size);
  // What is zoomed to by a button moves to the middle: it may lie at the edge of what is seen.
  panel.from = fixed - scaled(span, at === undefined && factor < 1 ? 0.5 : across);
  panel.span = span;
  panel.change();
}
function whole(panel) { panel.from = 0n; panel.span = panel.size; panel.change(); }
function usedPart(panel) {
  const found = held(panel.pool);
  if (!found.length) { whole(panel); return; }
  const first = found[0].at, last = found[found.length - 1].at + found[found.length - 1].size;
  panel.span = panel.size;
  panel.from = 0n;
  while (panel.span / 2n >= leastSpan(panel)) {
    const span = panel.span / 2n, perRow = span / BigInt(panel.rows), from = first / perRow * perRow;
    if (last > from + span) break;
    panel.span = span;
    panel.from = from;
  }
  panel.change();
}
/* Say what is pointed at; at rest, how the pool is divided. */
function say(panel, extent) {
  const {where, pool, cursor} = panel;
  if (extent) { where.textContent = describe(pool, extent); return; }
  const here = cursor === null ? null : extentAt(pool, cursor);
  if (!here) { setText(where, derive(pool, "division", divisionOf)); return; }
  where.textContent = `${addressText(pool, cursor)}  in  ${describe(pool, here)}`;
  // Only an IPAllocation, which is named without its kind, is held for a TenantCluster.
  for (const {allocation, tenant} of here.holders) {
    const copy = make("button", "copy", {type: "button", title: "copy the command"});
    const command = kubectl("ipallocation", allocation);
    copy.onclick = () => navigator.clipboard.writeText(command).then(() => { copy.textContent = "copied"; }, () => { copy.textContent = "not allowed"; });
    const entry = make("a", "in the list", {href: `#${panel.section.id}`});
    entry.onclick = (event) => { event.preventDefault(); showInList(panel, allocation); };
    where.append(entry, tenantLink(tenant), make("br"), make("code", command), copy);
    if (!allocation.includes(" ")) where.append(make("br"), make("code", kubectl("tenantcluster", tenant)));
  }
}
function divisionOf(pool) {
  const sizes = {};
  for (const {state, size} of inside(pool)) sizes[state] = (sizes[state] || 0n) + size;
  return Object.keys(store.style.states).filter((state) => sizes[state]).map((state) => `${state} ${addressCount(pool.family, sizes[state])}`).join("  ·  ");
}
function point(panel, at, follow) {
  panel.cursor = bound(0n, at, panel.pool.size - 1n);
  const perRow = perRowOf(panel);
  if (follow && panel.cursor < panel.from) panel.from = panel.cursor / perRow * perRow;
  if (follow && panel.cursor >= panel.from + panel.span) panel.from = (panel.cursor / perRow + 1n) * perRow - panel.span;
  say(panel);
  panel.change();
}
function jump(panel, step) {
  const {pool} = panel, {extents} = pool, {flags} = matchesIn(pool), here = panel.cursor ?? (step > 0 ? -1n : pool.size);
  const fits = (extent, at) => flags[at] && isInside(pool, extent);
  const next = step > 0 ? extents.find((extent, at) => extent.at > here && fits(extent, at)) : extents.findLast((extent, at) => extent.at + extent.size <= here && fits(extent, at));
  if (next) point(panel, next.at, true);
}

/* The list under a map: ranges that match, and requests that wait. */
const listColumns = (pool) => [
  {title: "start", name: "address", show: ({extent}) => startText(pool(), extent)},
  {title: "end", name: "address", show: ({extent}) => endText(pool(), extent)},
  {title: "size", name: "count", isNumber: true, show: ({extent}) => addressCount(pool().family, extent.size)},
  {title: "state", name: "type", show: ({extent}) => extent.state},
  {title: "allocation", name: "name", show: ({holder}) => holder ? holder.allocation : ""},
  {title: "tenant", name: "name", show: ({holder}) => holder ? tenantLabel(holder.tenant) : ""},
  {title: "type", name: "type", show: ({holder}) => holder ? holder.type : ""},
  {title: "note", name: "why", show: ({extent}) => extent.note},
];
const WAITING_COLUMNS = waitingTable.columns.filter(({title}) => title !== "pool").map(({by, ...column}) => column);
function makeLists(panel) {
  const {key} = panel.pool, empty = noneOf("range");
  panel.list = new RowTable({label: `ranges of ${key}`, columns: listColumns(() => panel.pool), empty});
  panel.list.region.classList.add("list");
  panel.waitingTitle = make("h3", "Waiting");
  panel.waitingList = new RowTable({label: `requests that wait for ${key}`, columns: WAITING_COLUMNS, empty: noneOf("request")});
  panel.more = make("p");
  panel.details.append(panel.list.region, panel.waitingTitle, panel.waitingList.region, panel.more);
}
function fillList(panel) {
  const {details, pool} = panel;
  setText(panel.summary, `${count(pool.extents.length)} ranges${pool.waiting ? `, ${count(pool.waiting)} waiting` : ""}`);
  if (!details.open) return;
  if (!panel.list) makeLists(panel);
  const matches = matchesIn(pool);
  if (panel.listed !== matches) {
    panel.listed = matches;
    panel.list.show(rowsOf(pool, matches.flags));
    panel.waitingList.show([...pool.requests.values()]);
    const hasRequests = pool.requests.size > 0, more = pool.waiting - pool.requests.size;
    panel.waitingTitle.hidden = panel.waitingList.region.hidden = !hasRequests;
    panel.more.hidden = more <= 0;
    setText(panel.more, `and ${count(more)} more that wait`);
  }
  panel.list.draw();
  panel.waitingList.draw();
}
/* Return a row for each holder of a range, or one if there is none. */
function rowsOf(pool, flags) {
  const rows = [];
  pool.extents.forEach((extent, at) => {
    if (!flags[at]) return;
    extent.rows ??= (extent.holders.length ? extent.holders : [null]).map((holder, number) => ({key: `${extent.key} ${number}`, extent, holder}));
    rows.push(...extent.rows);
  });
  return rows;
}
function showInList(panel, allocation) {
  panel.details.open = true;
  fillList(panel);
  const row = panel.list.items.find(({holder}) => holder?.allocation === allocation);
  if (row) panel.list.reveal(row.key);
}

/* As many pixels as paper is drawn wide, whatever the width of the window. */
const PAPER = 1000;
const GAP = 6, BESIDE = 190, BESIDE_FROM = 760, KEYED = 12;
const widths = new Map();
/* Return how wide a text is on a map; measuring costs more than looking up. */
function widthOf(pen, text) {
  if (!widths.has(text)) widths.set(text, pen.measureText(text).width);
  return widths.get(text);
}
function addressAt(panel, event) {
  const box = panel.canvas.getBoundingClientRect();
  const row = bound(0, Math.floor((event.clientY - box.top) / ROW), panel.rows - 1);
  const across = bound(0, (event.clientX - box.left - panel.gutter) / (box.width - panel.gutter - panel.beside), 0.999999);
  return panel.from + BigInt(Math.floor(Number(panel.span) * (row + across) / panel.rows));
}
function drawMap(panel) {
  const {canvas, pool, rows} = panel;
  canvas.classList.toggle("near", panel.span < panel.size);
  const width = printing ? PAPER : canvas.clientWidth || 960, ratio = printing ? 2 : window.devicePixelRatio || 1;
  canvas.width = width * ratio;
  canvas.height = ROW * rows * ratio;
  const pen = canvas.getContext("2d"), style = getComputedStyle(document.documentElement);
  const dim = printing ? "#57606a" : style.getPropertyValue("--dim"), ink = printing ? "#1f2328" : style.getPropertyValue("--mark");
  pen.scale(ratio, ratio);
  pen.font = "11px system-ui, sans-serif";
  const {from} = panel, shownTo = from + panel.span, perRow = Number(panel.span) / rows;
  const starts = Array.from({length: rows}, (_, row) => addressText(pool, from + panel.span * BigInt(row) / BigInt(rows)));
  panel.gutter = Math.min(width * 0.45, Math.max(...starts.map((start) => pen.measureText(start).width)) + 20);
  panel.beside = width >= BESIDE_FROM ? BESIDE : 0;
  const scale = (width - panel.gutter - panel.beside) / perRow;
  pen.fillStyle = dim;
  starts.forEach((start, row) => pen.fillText(start, 8, row * ROW + ROW - 5, panel.gutter - 14));
  const names = Array.from({length: rows}, () => new Set()), plates = [], {flags} = matchesIn(pool), end = smaller(shownTo, pool.size);
  for (let at = firstAfter(pool, from); at < pool.extents.length && pool.extents[at].at < end; at += 1) {
    const extent = pool.extents[at];
    const begin = Number(larger(extent.at, from) - from), beyond = Number(smaller(extent.at + extent.size, end) - from);
    pen.fillStyle = fillFor(pen, extent);
    pen.globalAlpha = !flags[at] ? 0.12 : extent.state === "releasing" || extent.state === "promised" ? 0.6 : 1;
    let name = flags[at] ? tenantOf(extent) : "";
    const firstRow = Math.floor(begin / perRow);
    for (let row = firstRow; row < rows; row += 1) {
      const left = Math.max(begin, row * perRow), right = Math.min(beyond, (row + 1) * perRow);
      if (left >= right) break;
      const x = panel.gutter + (left - row * perRow) * scale, wide = (right - left) * scale;
      pen.fillRect(x, row * ROW, Math.max(extent.holders.length ? 2 : 0.5, wide - (scale > 3 ? 1 : 0)), ROW - 2);
      if (name && widthOf(pen, name) + 2 * GAP <= wide) { plates.push([name, x, row]); name = ""; }
    }
    if (name) names[firstRow].add(name);
  }
  pen.globalAlpha = 1;
  writeNames(pen, panel, plates, names, width, dim);
  if (panel.cursor !== null && panel.cursor >= from && panel.cursor < shownTo) {
    const at = Number(panel.cursor - from), row = Math.floor(at / perRow);
    pen.strokeStyle = ink;
    pen.lineWidth = 2;
    pen.strokeRect(panel.gutter + (at - row * perRow) * scale, row * ROW, Math.max(4, scale), ROW - 2);
  }
  panel.isStale = false;
}
/* Write names in the ranges, on a ground of their own, and beside the rows. */
function writeNames(pen, panel, plates, names, width, dim) {
  for (const [name, x, row] of plates) {
    pen.fillStyle = isDark() ? "#0d1117e6" : "#ffffffe6";
    pen.fillRect(x + 3, row * ROW + 2, widthOf(pen, name) + 6, ROW - 6);
    pen.fillStyle = isDark() ? "#e6edf3" : "#1f2328";
    pen.fillText(name, x + 6, row * ROW + ROW - 5.5);
  }
  writeBelow(panel, panel.beside ? [] : [...new Set(names.flatMap((found) => [...found]))]);
  if (!panel.beside) return;
  pen.fillStyle = dim;
  names.forEach((found, row) => pen.fillText(fitted(pen, [...found], panel.beside - 2 * GAP), width - panel.beside + GAP, row * ROW + ROW - 5));
}
/* Return as many names as there is room for; an ellipsis stands for the others. */
function fitted(pen, names, room) {
  const all = names.slice(0, 20).join(", ");
  if (names.length <= 20 && pen.measureText(all).width <= room) return all;
  let low = 0, high = all.length;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (pen.measureText(`${all.slice(0, middle)}…`).width <= room) low = middle;
    else high = middle - 1;
  }
  return `${all.slice(0, low)}…`;
}
/* Names that are neither in their ranges nor beside them, as a narrow window has no room there. */
function writeBelow({key}, names) {
  const more = names.length - KEYED;
  key.hidden = !names.length;
  key.replaceChildren(...names.slice(0, KEYED).map((name) => {
    const entry = make("span");
    entry.append(swatch(name), name);
    return entry;
  }));
  if (more > 0) key.append(make("span", `and ${count(more)} more: zoom in`));
}
