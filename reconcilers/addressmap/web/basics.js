/* Elements, numbers, addresses. */
const SVG = "http://www.w3.org/2000/svg";
const make = (tag, text, attributes) => {
  const node = document.createElement(tag);
  if (text !== undefined) node.textContent = text;
  return Object.assign(node, attributes || {});
};
const drawing = (tag, attributes) => {
  const node = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes || {})) node.setAttribute(name, value);
  return node;
};
/* A name that narrow columns break after its namespace. */
const named = (node, name) => {
  const at = name.indexOf("/") + 1;
  node.append(name.slice(0, at), make("wbr"), name.slice(at));
  return node;
};
const byId = (id) => document.getElementById(id);
/* Counts and places of addresses are BigInts, as a browser's numbers are exact up to 2^53 only. Of
   more than 10^12, people want to know the order; the exact count is where one range is told. */
const exactly = (value) => BigInt(value).toLocaleString("en");
const count = (value) => value < 1e12 ? exactly(value) : `≈${Number(value).toPrecision(2).replace("e+", "×10^")}`;
/* Counts of each family of which there are some. */
const each = (counts) => counts.map(count).join(" + ") || "0";
const sum = (counts) => counts.reduce((all, one) => all + one, 0n);
const bound = (low, value, high) => value < low ? low : value > high ? high : value;
const smaller = (one, other) => one < other ? one : other;
const larger = (one, other) => one < other ? other : one;
const scaled = (value, factor) => BigInt(Math.round(Number(value) * factor));
const told = (one) => {
  const who = one.holders.map(({allocation, tenant, type}) => `${allocation} for ${tenant} (${type})`).join("; ");
  const where = one.start === one.end ? one.start : `${one.start} - ${one.end}`;
  return [`${where}  (${exactly(one.size)})`, one.state, who, one.note].filter(Boolean).join("  ·  ");
};
/* The one tenant that holds a range; empty for none and for several. */
const tenantOf = (one) => {
  const found = new Set(one.holders.map(({tenant}) => tenant));
  return found.size === 1 ? one.holders[0].tenant : "";
};
/* What stands for a request of another kind is called namespace/kind/name. */
const kubectl = (itsKind, key) => {
  const [namespace, ...parts] = key.split("/"), name = parts.pop(), kind = parts[0] || itsKind;
  return `kubectl -n ${namespace} describe ${kind} ${name}`;
};

/* Addresses as [family, BigInt]; null for what is none. */
function parsed(text) {
  if (text.includes(":")) {
    const halves = text.split("::");
    const groups = halves.map((half) => half ? half.split(":") : []);
    const given = groups.flat();
    if (halves.length > 2 || given.some((group) => !/^[0-9a-f]{1,4}$/i.test(group))) return null;
    if (halves.length === 1 ? given.length !== 8 : given.length > 7) return null;
    const whole = halves.length === 1 ? given : [...groups[0], ...Array(8 - given.length).fill("0"), ...groups[1]];
    return [6, whole.reduce((sum, group) => sum * 65536n + BigInt(parseInt(group, 16)), 0n)];
  }
  const parts = text.split(".");
  if (parts.length !== 4 || parts.some((part) => !/^\d{1,3}$/.test(part) || +part > 255)) return null;
  return [4, parts.reduce((sum, part) => sum * 256n + BigInt(part), 0n)];
}
function written(family, value) {
  if (family === 4) return [24n, 16n, 8n, 0n].map((shift) => (value >> shift) & 255n).join(".");
  const groups = Array.from({length: 8}, (_, at) => ((value >> BigInt(112 - 16 * at)) & 65535n).toString(16));
  let best = 0, start = -1;
  for (let at = 0, run = 0; at < 8; at += 1) {
    run = groups[at] === "0" ? run + 1 : 0;
    if (run > Math.max(best, 1)) { best = run; start = at - run + 1; }
  }
  if (start < 0) return groups.join(":");
  return `${groups.slice(0, start).join(":")}::${groups.slice(start + best).join(":")}`;
}

/* What is shown, and what of it is wanted. Integers above 2^53 come as text. */
const COUNTS = ["size", "largest", "available", "allocated", "total"];
function withCounts(data) {
  for (const pool of data?.pools ?? []) {
    for (const name of COUNTS) pool[name] = BigInt(pool[name]);
    for (const one of pool.extents) Object.assign(one, {at: BigInt(one.at), size: BigInt(one.size)});
  }
  for (const one of data?.tenants ?? []) for (const kind of ["nodes", "loadbalancer"]) one[kind] = one[kind].map(BigInt);
  return data;
}
let DATA = withCounts(JSON.parse(byId("data").textContent)) || {pools: [], tenants: [], looks: {}, states: {}, patterns: {}, fills: [], darkFills: [], made: "", tile: 8};
const LIVE = byId("data").textContent === "null";
const hiddenStates = new Set();
const wanted = {text: "", address: null, tenant: "", family: ""};
const poolShown = (pool) => !wanted.family || String(pool.family) === wanted.family;
const matches = (one, pool) => {
  if (hiddenStates.has(one.state) || !poolShown(pool)) return false;
  if (wanted.tenant && !one.holders.some(({tenant}) => tenant === wanted.tenant)) return false;
  if (!wanted.text) return true;
  if (wanted.address) {
    const first = parsed(one.start), last = parsed(one.end);
    return first[0] === wanted.address[0] && first[1] <= wanted.address[1] && wanted.address[1] <= last[1];
  }
  return pool.name.toLowerCase().includes(wanted.text) || told(one).toLowerCase().includes(wanted.text);
};
