/* What is drawn when: after messages, filters, changes of the window, for print. */
const PAUSE = 150;
let selection = null;

/* Evaluate the filters and show what matches. */
function evaluate() {
  selection = select();
  fillTables(selection);
  showPanels(selection);
  const {found, ranges, requests, waiting} = selection, parts = [];
  if (isFiltered()) {
    if (query.span && !found) parts.push(`no pool contains ${query.typed}`);
    else if (found !== ranges) parts.push(`${count(found)} of ${count(ranges)} ranges match`);
    if (waiting && requests.length !== waiting) parts.push(`${count(requests.length)} of ${count(waiting)} requests wait`);
  }
  setText(byId("count"), parts.join("; "));
}
function afterFrame() {
  const isDrawn = Boolean(store.made) && !isFramePlanned && [...panels.values()].every((panel) => panel.isDrawn);
  document.body.dataset.drawn = String(isDrawn);
}
/* Change filters: write them into the URL and the form, and show what matches. */
function apply(changed) {
  setFilters(changed);
  writeFilters();
  fillForm();
  evaluate();
}
function chooseTenant(name) { apply({tenant: filters.tenant === name ? "" : name}); }
function fillForm() {
  // Not while someone types in it: the cursor would jump, and spaces vanish.
  if (parseQuery(byId("find").value).typed !== filters.find) byId("find").value = filters.find;
  byId("tenant").value = filters.tenant;
  byId("family").value = filters.family;
  for (const box of document.querySelectorAll("#states input")) box.checked = !filters.hidden.has(box.name);
}
/* Offer a box for each state that there is. */
function offerStates() {
  const used = new Set(shownPools().flatMap((pool) => [...derive(pool, "states", () => new Set(pool.extents.map(({state}) => state)))]));
  const states = Object.entries(store.style.states).filter(([state]) => used.has(state));
  const shown = [...document.querySelectorAll("#states input")].map(({name}) => name);
  if (shown.join() === states.map(([state]) => state).join()) return;
  byId("states").replaceChildren(...states.map(([state, {words, byTenant}]) => {
    const label = make("label"), box = make("input", undefined, {type: "checkbox", checked: !filters.hidden.has(state), name: state});
    const dot = make("span", "", {className: "dot", hidden: byTenant});
    if (!byTenant) dot.style.background = stateFill(state);
    box.onchange = () => {
      const hidden = new Set(filters.hidden);
      box.checked ? hidden.delete(state) : hidden.add(state);
      apply({hidden});
    };
    label.append(box, dot, make("span", state, {title: words}));
    return label;
  }));
}
/* Offer the tenants that contain what is typed, as many as a person reads. */
const OFFERED = 30;
function offerTenants() {
  const typed = byId("tenant").value.toLowerCase(), found = [];
  for (const name of new Set([...store.tenants.values()].map((tenant) => tenant.name).concat([...store.looks.keys()]))) {
    if (found.length === OFFERED) break;
    if (name.toLowerCase().includes(typed)) found.push(make("option", undefined, {value: name}));
  }
  byId("tenant-names").replaceChildren(...found);
}
/* Show what a message changed. */
function show(changed) {
  if (changed.parts.has("made")) setText(byId("made"), store.made ? `as of ${store.made}` : "");
  if (changed.parts.has("style")) makePatterns();
  if (!["pools", "tenants", "order", "events", "looks", "style"].some((part) => changed.parts.has(part))) return;
  document.querySelector("main").hidden = !store.made;
  arrange();
  offerStates();
  evaluate();
}
/* Draw everything again in other colours or widths. */
function redraw() {
  if (!store.made) return;
  makePatterns();
  byId("states").replaceChildren();
  offerStates();
  widths.clear();
  for (const table of [poolTable, waitingTable, tenantTable]) table.forget();
  for (const panel of panels.values()) { panel.list?.forget(); panel.waitingList?.forget(); panel.change(); }
}
/* Go to the first range that matches: its map gets the focus, and points at the range. */
function goToFirst() {
  const pool = selection?.pools.find((candidate) => matchesIn(candidate).count);
  if (!pool) return;
  openPool(pool.key);
  const at = matchesIn(pool).flags.indexOf(1), panel = panels.get(pool.key), extent = pool.extents[at];
  const asked = query.span ? query.span.first - pool.firstAddress : extent.at;
  if (isInside(pool, extent)) point(panel, larger(asked, extent.at), true);
}

let pause = 0;
byId("filters").onsubmit = (event) => event.preventDefault();
byId("find").onkeydown = (event) => {
  if (event.key !== "Enter" || event.isComposing) return;
  event.preventDefault();
  clearTimeout(pause);
  apply({find: parseQuery(byId("find").value).typed});
  if (filters.find) goToFirst();
};
byId("find").oninput = () => {
  clearTimeout(pause);
  pause = setTimeout(() => apply({find: parseQuery(byId("find").value).typed}), PAUSE);
};
byId("tenant").oninput = offerTenants;
byId("tenant").onfocus = offerTenants;
byId("tenant").onchange = (event) => apply({tenant: event.target.value.trim()});
byId("family").onchange = (event) => apply({family: event.target.value});
/* A slash goes to the search, unless it is typed into a field. */
document.addEventListener("keydown", (event) => {
  if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey || event.target.closest?.("input, select, textarea")) return;
  event.preventDefault();
  byId("find").focus();
  byId("find").select();
});
let wide = window.innerWidth;
window.onresize = () => { if (window.innerWidth !== wide) { wide = window.innerWidth; redraw(); } };
window.onhashchange = () => {
  if (location.hash.includes("=")) { readFilters(); fillForm(); if (store.made) evaluate(); } else goToPanel();
};
function goToPanel() {
  const panel = [...panels.values()].find(({section}) => `#${section.id}` === location.hash);
  if (panel) openPool(panel.pool.key);
}
darkQuery.onchange = redraw;
window.onbeforeprint = () => {
  printing = true;
  for (const panel of panels.values()) {
    panel.beforePrint = panel.canvas && {isOpen: panel.isOpen, hasList: panel.details.open};
    panel.open(true);
    if (panel.canvas) { panel.details.open = true; panel.change(); }
  }
  redraw();
  drawMarked();
};
window.onafterprint = () => {
  printing = false;
  for (const panel of panels.values()) {
    if (!panel.canvas) continue;
    panel.details.open = Boolean(panel.beforePrint?.hasList);
    panel.open(Boolean(panel.beforePrint?.isOpen));
  }
  redraw();
};

const LIVE = byId("data").textContent === "null";
readFilters();
fillForm();
if (!LIVE) {
  show(take(JSON.parse(byId("data").textContent)));
  goToPanel();
}
