/* The overview: all pools, requests that wait, tenants, events. */
const BAR = 160, BAR_HIGH = 14;
const poolId = (pool) => `pool-${pool.key.replace(/[^a-z0-9]+/gi, "-")}`;

/* Return a figure of a pool or tenant, unless something that it counts may not be read. */
const ifKnown = ({notRead}, text) => notRead.length ? "unknown" : text;
const readyText = ({ready, reason}) => ready === "True" ? "Ready" : `${ready}: ${reason}`;
const isNotReady = ({ready}) => ready !== "True";

/* Draw the used part of a pool, by tenant. */
function bar(pool) {
  const box = make("canvas", "", {className: "bar", width: 2 * BAR, height: 2 * BAR_HIGH}), pen = box.getContext("2d");
  const sizes = derive(pool, "sizes", () => {
    const found = new Map();
    for (const extent of inside(pool)) if (extent.holders.length) found.set(tenantOf(extent), (found.get(tenantOf(extent)) || 0n) + extent.size);
    return [...found].sort(([a], [b]) => a < b ? -1 : 1);
  });
  box.setAttribute("role", "img");
  box.setAttribute("aria-label", ifKnown(pool, `${pool.percent}% used`));
  pen.scale(2, 2);
  let x = 0;
  for (const [name, size] of sizes) {
    const width = pool.total ? BAR * Number(size) / Number(pool.total) : 0, look = lookOf(name);
    pen.fillStyle = look ? tileOf(pen, look) : stateFill("overlap");
    pen.fillRect(x, 0, Math.max(width, 0.5), BAR_HIGH);
    x += width;
  }
  box.title = sizes.slice(0, 5).map(([name, size]) => `${name || "several tenants"}: ${addressCount(pool.family, size)}`).join("\n");
  return box;
}
const usedCell = (pool) => { const box = make("span", undefined, {className: "used"}); box.append(bar(pool), ifKnown(pool, `${pool.percent}%`)); return box; };
function poolLink(pool) {
  const link = addName(make("a", undefined, {href: `#${poolId(pool)}`}), pool.name);
  link.onclick = (event) => { event.preventDefault(); openPool(pool.key); };
  return link;
}
const amount = (title, field) => ({title, name: "count", isNumber: true, show: (pool) => ifKnown(pool, addressCount(pool.family, pool[field])), by: (pool) => pool[field]});
const number = (title, value) => ({title, name: "number", isNumber: true, show: (item) => ifKnown(item, count(value(item))), by: value});
const sizeColumn = (title, field) => ({title, name: "sizes", isNumber: true, show: (tenant) => ifKnown(tenant, eachFamily(tenant[field])), by: (tenant) => sum(tenant[field])});
const noneOf = (kind) => () => `no ${kind} ${isFiltered() ? "matches the filters" : "yet"}`;

const poolTable = new RowTable({
  id: "pools-table", label: "Table of pools", sorted: ["used", -1], empty: noneOf("pool"),
  columns: [
    {title: "pool", name: "name", show: poolLink, by: (pool) => pool.name},
    {title: "used", name: "used", isDescending: true, show: usedCell, by: (pool) => pool.total ? Number(pool.allocated) / Number(pool.total) : 0},
    {title: "CIDR", name: "cidr", show: (pool) => pool.cidr, by: (pool) => pool.cidr},
    amount("held", "allocated"),
    amount("free", "available"),
    {...amount("total", "total"), show: (pool) => addressCount(pool.family, pool.total)},
    amount("largest free", "largest"),
    number("waiting", (pool) => pool.waiting),
    number("tenants", (pool) => tenantsOf(pool).size),
    {title: "ready", name: "why", show: readyText, by: readyText, isBad: isNotReady},
  ],
});
const waitingTable = new RowTable({
  id: "waiting-table", label: "Table of waiting requests", sorted: ["since", 1], empty: noneOf("request"),
  columns: [
    {title: "request", name: "name", show: (request) => addName(make("span"), request.allocation), by: (request) => request.allocation},
    {title: "pool", name: "name", show: (request) => poolLink(request.pool), by: (request) => request.pool.name},
    {title: "tenant", name: "name", show: (request) => tenantLabel(request.tenant), by: (request) => request.tenant},
    {title: "type", name: "type", show: (request) => request.type, by: (request) => request.type},
    {title: "since", name: "since", show: (request) => request.since, by: (request) => request.since},
    {title: "why", name: "why", show: (request) => request.why, by: (request) => request.why},
  ],
});
const tenantTable = new RowTable({
  id: "tenants-table", label: "Table of tenants", sorted: ["tenant", 1], empty: noneOf("tenant"),
  columns: [
    {title: "tenant", name: "name", show: (tenant) => tenantLabel(tenant.name), by: (tenant) => tenant.name},
    {title: "phase", name: "type", show: (tenant) => tenant.phase || "-", by: (tenant) => tenant.phase || ""},
    sizeColumn("nodes", "nodes"),
    sizeColumn("load balancers", "loadbalancer"),
    number("grown", (tenant) => tenant.grown),
    number("waiting", (tenant) => tenant.waiting),
    {title: "network ready", name: "why", show: (tenant) => tenant.ready === "True" ? "True" : readyText(tenant), by: (tenant) => tenant.ready, isBad: isNotReady},
  ],
});
for (const [section, table] of [["overview", poolTable], ["waiting", waitingTable], ["tenants", tenantTable]]) byId(section).append(table.region);

/* Events are added where they are new: a screen reader reads only those. */
const eventText = ({reason, about, note}) => `${reason} ${about}: ${note}`;
function fillEvents(events) {
  const box = byId("events"), shown = new Map([...box.children].map((row) => [row.dataset.id, row]));
  byId("happened").hidden = !store.events.length;
  const rows = events.map((event) => {
    const id = `${event.id} ${event.count}`, known = shown.get(id);
    if (known) return known;
    const row = make("div", undefined, {className: event.type});
    row.dataset.id = id;
    row.append(make("time", event.at), make("b", event.reason), ` ${event.about}: ${event.note}${event.count > 1 ? ` (${count(event.count)} times)` : ""}`);
    return row;
  });
  const kept = new Set(rows);
  for (const row of [...box.children]) if (!kept.has(row)) row.remove();
  rows.forEach((row, at) => { if (box.children[at] !== row) box.insertBefore(row, box.children[at] || null); });
}
function fillTables(selection) {
  byId("waiting").hidden = !selection.waiting;
  byId("tenants").hidden = !store.tenants.size;
  poolTable.show(selection.pools);
  waitingTable.show(selection.requests);
  tenantTable.show(selection.tenants);
  fillEvents(selection.events);
}
