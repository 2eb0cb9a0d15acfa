/* The data of the page. Messages change it; objects that did not change stay the same objects. */
const COUNTS = ["size", "largest", "available", "allocated", "total"];
const store = {made: "", failures: [], events: [], order: [], style: {states: {}, patterns: [], fills: [], darkFills: [], tile: 8}, looks: new Map(), tenants: new Map(), pools: new Map()};

const shownPools = () => store.order.map((key) => store.pools.get(key)).filter(Boolean);
const lookOf = (tenant) => {
  const number = store.looks.get(tenant), {fills, patterns} = store.style;
  if (number === undefined) return null;
  return {colour: number % fills.length, pattern: Math.floor(number / fills.length) % patterns.length};
};

/* Take a message; return which parts changed, and the keys of the pools and tenants that did. */
function take(message) {
  const isFirst = !store.made, changed = {parts: new Set(Object.keys(message)), pools: new Set(), tenants: new Set()};
  for (const name of ["made", "failures", "events", "order", "style"]) if (name in message) store[name] = message[name];
  takeEntries(store.looks, message.looks, message.whole, (number) => number);
  takeEntries(store.tenants, message.tenants, message.whole, (tenant, key, known) => {
    if (known && message.whole && JSON.stringify(known.sent) === JSON.stringify(tenant)) return known;
    changed.tenants.add(key);
    return tenantFrom(tenant, key, known, isFirst);
  });
  takeEntries(store.pools, message.pools, message.whole, (pool, key, known) => {
    changed.pools.add(key);
    return poolFrom(pool, key, message.whole ? null : known, isFirst || Boolean(message.whole && known));
  });
  return changed;
}
function takeEntries(entries, change, isWhole, convert) {
  // A part that is empty is left out of a message, also of one that replaces everything.
  if (!change) { if (isWhole) entries.clear(); return; }
  if (isWhole) for (const key of entries.keys()) if (!(key in change.set)) entries.delete(key);
  for (const key of change.drop) entries.delete(key);
  for (const [key, sent] of Object.entries(change.set)) entries.set(key, convert(sent, key, entries.get(key)));
}
function tenantFrom(sent, key, known, isFirst) {
  const counts = (sizes) => Object.fromEntries(Object.entries(sizes).map(([family, size]) => [family, BigInt(size)]));
  return {...sent, key, sent, nodes: counts(sent.nodes), loadbalancer: counts(sent.loadbalancer), isNew: !isFirst};
}
function poolFrom(sent, key, known, isQuiet) {
  const {extents, requests, ...fields} = sent;
  for (const name of COUNTS) if (name in fields) fields[name] = BigInt(fields[name]);
  const pool = {...known, ...fields, key, isNew: !isQuiet && Boolean(extents || !known), derived: {}};
  const address = parseAddress(pool.first);
  pool.firstAddress = address ? address[1] : 0n;
  pool.extents = extents ? changedExtents(known ? known.extents : [], extents) : known ? known.extents : [];
  const requested = new Map(known?.requests);
  takeEntries(requested, requests, false, (request, allocation) => ({...request, allocation, pool, key: `${key} ${allocation}`}));
  for (const [allocation, request] of requested) if (request.pool !== pool) requested.set(allocation, {...request, pool, text: undefined});
  pool.requests = requested;
  return pool;
}
function changedExtents(before, {set, drop}) {
  const gone = new Set([...drop, ...Object.keys(set)]);
  const kept = gone.size ? before.filter((extent) => !gone.has(extent.key)) : before;
  const added = Object.entries(set).map(([key, {size, state, note, family, holders}]) => ({
    key, at: BigInt(key), size: BigInt(size), state, family, note: note || "",
    holders: (holders || []).map(([allocation, tenant, type]) => ({allocation, tenant, type})),
  }));
  return [...kept, ...added].sort((a, b) => a.at < b.at ? -1 : a.at > b.at ? 1 : 0);
}

/* Derived values of a pool, computed once for each state of it. */
function derive(pool, name, compute) {
  if (!(name in pool.derived)) pool.derived[name] = compute(pool);
  return pool.derived[name];
}
const addressText = (pool, at) => formatAddress(pool.family, pool.firstAddress + at);
/* What is held of a family that the pool lacks has its own family. */
const startText = (pool, extent) => formatAddress(extent.family || pool.family, pool.firstAddress + extent.at);
const endText = (pool, extent) => formatAddress(extent.family || pool.family, pool.firstAddress + extent.at + extent.size - 1n);
const isInside = (pool, extent) => extent.at >= 0n && extent.at < pool.size;
const inside = (pool) => derive(pool, "inside", () => pool.extents.filter((extent) => isInside(pool, extent)));
const tenantsOf = (pool) => derive(pool, "tenants", () => new Set(pool.extents.flatMap((extent) => extent.holders.map(({tenant}) => tenant))));
/* Return the one tenant that holds a range; empty for none and for several. */
const tenantOf = ({holders}) => holders.length && holders.every(({tenant}) => tenant === holders[0].tenant) ? holders[0].tenant : "";
/* Return the range that contains an offset; null if there is none. */
function extentAt(pool, at) {
  const next = firstAfter(pool, at), extent = pool.extents[next];
  return extent && extent.at <= at ? extent : null;
}
/* Return the index of the first range that ends after an offset. */
function firstAfter(pool, at) {
  let low = 0, high = pool.extents.length;
  while (low < high) {
    const middle = (low + high) >> 1, extent = pool.extents[middle];
    if (extent.at + extent.size <= at) low = middle + 1;
    else high = middle;
  }
  return low;
}
/* Return all that the page says of a range, in one line. */
function describe(pool, extent) {
  const holders = extent.holders.map(({allocation, tenant, type}) => `${allocation} for ${tenant} (${type})`).join("; ");
  const where = extent.size === 1n ? startText(pool, extent) : `${startText(pool, extent)} - ${endText(pool, extent)}`;
  return [`${where}  (${exactCount(extent.size)})`, extent.state, holders, extent.note].filter(Boolean).join("  ·  ");
}
