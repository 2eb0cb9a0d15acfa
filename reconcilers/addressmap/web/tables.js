/* The overview: all pools, all tenants, the list of one pool. */
const BAR = 160, BAR_HIGH = 14, LISTED = 1000;
const poolKey = (pool) => `${pool.name} ${pool.cidr}`;
const poolId = (pool) => `pool-${poolKey(pool).replace(/[^a-z0-9]+/gi, "-")}`;

/* A figure of a pool or tenant, unless something that it counts may not be read. */
const ifKnown = ({notRead}, text) => notRead.length ? "unknown" : text;

/* The used part of a pool, by tenant. */
function bar(pool) {
  const box = drawing("svg", {class: "bar", width: BAR, height: BAR_HIGH, viewBox: `0 0 ${BAR} ${BAR_HIGH}`, preserveAspectRatio: "none", role: "img", "aria-label": ifKnown(pool, `${pool.percent}% used`)});
  const sizes = new Map();
  for (const one of pool.extents) {
    if (one.at < 0n || one.at >= pool.size || !one.holders.length) continue;
    const name = tenantOf(one);
    sizes.set(name, (sizes.get(name) || 0n) + one.size);
  }
  let x = 0;
  for (const [name, size] of [...sizes].sort(([one], [other]) => one < other ? -1 : 1)) {
    const width = pool.total ? BAR * Number(size) / Number(pool.total) : 0, look = DATA.looks[name];
    const part = drawing("rect", {x, width: Math.max(width, 0.5), height: BAR_HIGH, fill: look ? `url(#${lookName(look)})` : stateFill("overlap")});
    const title = drawing("title");
    title.textContent = `${name || "several tenants"}: ${count(size)}`;
    part.append(title);
    box.append(part);
    x += width;
  }
  return box;
}
const usedCell = (pool) => { const box = make("span", undefined, {className: "used"}); box.append(bar(pool), ifKnown(pool, `${pool.percent}%`)); return box; };
const poolLink = (pool) => named(make("a", undefined, {href: `#${poolId(pool)}`}), pool.name);
const readyText = (pool) => pool.ready === "True" ? "Ready" : `${pool.ready}: ${pool.reason}`;
const tenantsOf = (pool) => new Set(pool.extents.flatMap((one) => one.holders.map(({tenant}) => tenant)));

/* [title, what is shown, what it is sorted by, whether it is a number] */
const POOL_COLUMNS = [
  ["pool", poolLink, (pool) => pool.name],
  ["used", usedCell, (pool) => pool.total ? Number(pool.allocated) / Number(pool.total) : 0],
  ["CIDR", (pool) => pool.cidr, (pool) => pool.cidr],
  ["held", (pool) => ifKnown(pool, count(pool.allocated)), (pool) => pool.allocated, true],
  ["free", (pool) => ifKnown(pool, count(pool.available)), (pool) => pool.available, true],
  ["total", (pool) => count(pool.total), (pool) => pool.total, true],
  ["largest free", (pool) => ifKnown(pool, count(pool.largest)), (pool) => pool.largest, true],
  ["waiting", (pool) => ifKnown(pool, count(pool.waiting)), (pool) => pool.waiting, true],
  ["tenants", (pool) => ifKnown(pool, count(tenantsOf(pool).size)), (pool) => tenantsOf(pool).size, true],
  ["ready", readyText, readyText],
];
const TENANT_COLUMNS = [
  ["tenant", (one) => tenantLabel(one.name), (one) => one.name],
  ["phase", (one) => one.phase || "-", (one) => one.phase || ""],
  ["nodes", (one) => ifKnown(one, each(one.nodes)), (one) => sum(one.nodes), true],
  ["load balancers", (one) => ifKnown(one, each(one.loadbalancer)), (one) => sum(one.loadbalancer), true],
  ["grown", (one) => ifKnown(one, count(one.grown)), (one) => one.grown, true],
  ["waiting", (one) => ifKnown(one, count(one.waiting)), (one) => one.waiting, true],
  ["network ready", (one) => one.ready === "True" ? "True" : `${one.ready}: ${one.reason}`, (one) => one.ready],
];
const sorting = {"pools-table": ["used", -1], "tenants-table": ["tenant", 1]};

function fillTable(id, columns, rows) {
  const table = byId(id), [sorted, direction] = sorting[id];
  const by = columns.find(([title]) => title === sorted)[2];
  const head = make("tr"), focused = document.activeElement?.dataset?.sort;
  for (const [title, , , number] of columns) {
    const cell = make("th", undefined, {scope: "col", className: number ? "n" : ""});
    const button = make("button", title, {type: "button", title: `sort by ${title}`});
    button.dataset.sort = `${id} ${title}`;
    button.onclick = () => {
      const [before, way] = sorting[id];
      sorting[id] = [title, before === title ? -way : number || title === "used" ? -1 : 1];
      fillTable(id, columns, rows);
    };
    if (title === sorted) cell.setAttribute("aria-sort", direction > 0 ? "ascending" : "descending");
    cell.append(button);
    head.append(cell);
  }
  const compare = (one, other) => { const [a, b] = [by(one), by(other)]; return a < b ? -1 : a > b ? 1 : 0; };
  const lines = [...rows].sort((one, other) => direction * compare(one, other)).map((one) => {
    const line = make("tr", undefined, {className: one.fresh ? "new" : ""});
    line.append(...columns.map(([title, show, , number], at) => {
      const cell = make(at ? "td" : "th", undefined, {className: number ? "n" : title.endsWith("ready") ? (one.ready === "True" ? "why" : "why bad") : ""});
      if (!at) cell.scope = "row";
      cell.append(show(one));
      return cell;
    }));
    return line;
  });
  if (!lines.length) {
    const line = make("tr");
    line.append(make("td", `no ${columns[0][0]} ${wanted.text || wanted.tenant || wanted.family ? "matches the filters" : "yet"}`, {colSpan: columns.length}));
    lines.push(line);
  }
  const top = make("thead"), body = make("tbody");
  top.append(head);
  body.append(...lines);
  table.replaceChildren(top, body);
  if (focused) table.querySelector(`[data-sort="${CSS.escape(focused)}"]`)?.focus();
}
function overview() {
  const some = DATA.pools.filter((pool) => poolShown(pool) && (!(wanted.text || wanted.tenant) || pool.extents.some((one) => matches(one, pool))));
  fillTable("pools-table", POOL_COLUMNS, some);
  const tenants = DATA.tenants.filter((one) => (!wanted.tenant || one.name === wanted.tenant) && (!wanted.text || wanted.address || one.name.toLowerCase().includes(wanted.text)));
  byId("tenants").hidden = !DATA.tenants.length;
  fillTable("tenants-table", TENANT_COLUMNS, tenants);
}

/* The list under a map: ranges that match, and requests that wait. */
function listRow(cells) {
  const row = make("tr");
  for (const [text, className] of cells) {
    const cell = make("td", undefined, {className: className || ""});
    cell.append(text);
    row.append(cell);
  }
  return row;
}
function listTable(titles, rows) {
  const table = make("table"), head = make("tr"), top = make("thead"), body = make("tbody");
  for (const [title, number] of titles) head.append(make("th", title, {scope: "col", className: number ? "n" : ""}));
  top.append(head);
  body.append(...rows);
  table.append(top, body);
  return table;
}
function list(panel) {
  const {details, pool} = panel;
  panel.summary.textContent = `${count(pool.extents.length)} ranges${pool.waiting ? `, ${count(pool.waiting)} waiting` : ""}`;
  details.querySelector(".list")?.remove();
  if (!details.open) return;
  const box = make("div", undefined, {className: "list", tabIndex: 0});
  box.setAttribute("role", "region");
  box.setAttribute("aria-label", `ranges of ${poolKey(pool)}`);
  const found = pool.extents.filter((one) => matches(one, pool)), rows = [];
  for (const one of found.slice(0, LISTED)) {
    for (const {allocation, tenant, type} of one.holders.length ? one.holders : [{allocation: "", tenant: "", type: ""}]) {
      rows.push(listRow([[one.start], [one.end], [count(one.size), "n"], [one.state], [allocation], [tenant ? tenantLabel(tenant) : ""], [type], [one.note]]));
    }
  }
  box.append(listTable([["start"], ["end"], ["size", true], ["state"], ["allocation"], ["tenant"], ["type"], ["note"]], rows));
  if (found.length > LISTED) box.append(make("p", `and ${count(found.length - LISTED)} more: filter for what you look for`));
  if (pool.requests.length) {
    const waiting = pool.requests.map((one) => listRow([[one.allocation], [tenantLabel(one.tenant)], [one.type], [one.since], [one.why]]));
    box.append(make("h3", "Waiting"), listTable([["allocation"], ["tenant"], ["type"], ["since"], ["why"]], waiting));
    if (pool.waiting > pool.requests.length) box.append(make("p", `and ${count(pool.waiting - pool.requests.length)} more that wait`));
  }
  details.append(box);
}
