/* Filters, and drawing everything. */
function everything() {
  let found = 0, all = 0;
  for (const panel of panels.values()) {
    const {pool} = panel, here = pool.extents.filter((one) => matches(one, pool)).length;
    found += here;
    all += pool.extents.length;
    panel.section.hidden = !poolShown(pool) || (Boolean(wanted.text || wanted.tenant) && here === 0);
    if (!panel.section.hidden) { draw(panel); list(panel); }
  }
  overview();
  byId("count").textContent = found === all ? "" : `${count(found)} of ${count(all)} ranges match`;
}
function choose(tenant) {
  wanted.tenant = wanted.tenant === tenant ? "" : tenant;
  byId("tenant").value = wanted.tenant;
  everything();
}
/* The filters offer what there is. */
function offer() {
  const tenants = [...new Set([...DATA.tenants.map(({name}) => name), ...Object.keys(DATA.looks)])].sort();
  const options = ["", ...tenants].map((name) => make("option", name || "all", {value: name}));
  byId("tenant").replaceChildren(...options);
  byId("tenant").value = tenants.includes(wanted.tenant) ? wanted.tenant : "";
  wanted.tenant = byId("tenant").value;
  const used = new Set(DATA.pools.flatMap((pool) => pool.extents.map((one) => one.state)));
  byId("states").replaceChildren(...Object.entries(DATA.states).filter(([state]) => used.has(state)).map(([state, {words}]) => {
    const label = make("label"), box = make("input", undefined, {type: "checkbox", checked: !hiddenStates.has(state), name: state});
    const dot = make("span", "", {className: "dot"});
    if (!DATA.states[state].byTenant) dot.style.background = stateFill(state);
    dot.hidden = DATA.states[state].byTenant;
    box.onchange = () => { box.checked ? hiddenStates.delete(state) : hiddenStates.add(state); everything(); };
    label.append(box, dot, make("span", state, {title: words}));
    return label;
  }));
}
/* Make panels for pools that came, take away those of pools that went, refresh the others. */
function arrange() {
  const keys = new Set(DATA.pools.map(poolKey));
  for (const [key, panel] of panels) {
    if (!keys.has(key)) { panel.section.remove(); panels.delete(key); }
  }
  for (const pool of DATA.pools) {
    const known = panels.get(poolKey(pool));
    if (known && known.pool !== pool && (known.pool.fault || pool.fault)) { known.section.remove(); panels.delete(poolKey(pool)); }
    else if (known) { if (known.pool !== pool) refresh(known, pool); continue; }
    panels.set(poolKey(pool), panelOf(pool));
  }
  const place = byId("pools");
  DATA.pools.forEach((pool, at) => {
    const {section} = panels.get(poolKey(pool));
    if (place.children[at] !== section) place.insertBefore(section, place.children[at] || null);
  });
}
function show() {
  document.querySelector("main").hidden = !DATA.made;
  byId("made").textContent = DATA.made ? `as of ${DATA.made}` : "";
  makePatterns();
  arrange();
  offer();
  everything();
  document.body.dataset.drawn = String([...panels.values()].every((panel) => panel.drawn || panel.pool.fault));
}

byId("filters").onsubmit = (event) => event.preventDefault();
byId("find").oninput = (event) => {
  wanted.text = event.target.value.trim().toLowerCase();
  wanted.address = parsed(wanted.text);
  everything();
};
byId("tenant").onchange = (event) => { wanted.tenant = event.target.value; everything(); };
byId("family").onchange = (event) => { wanted.family = event.target.value; everything(); };
window.onresize = everything;
darkQuery.onchange = show;
window.onbeforeprint = () => {
  printing = true;
  for (const panel of panels.values()) { panel.closed = !panel.details.open; panel.details.open = true; }
  show();
};
window.onafterprint = () => {
  printing = false;
  for (const panel of panels.values()) panel.details.open = !panel.closed;
  show();
};
if (!LIVE) show();
