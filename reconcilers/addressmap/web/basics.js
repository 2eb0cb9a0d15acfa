/* Elements, counts, prefixes, addresses. */
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
/* Add a name that narrow columns break after its namespace. */
const addName = (node, name) => {
  const at = name.indexOf("/") + 1;
  node.append(name.slice(0, at), make("wbr"), name.slice(at));
  return node;
};
const byId = (id) => document.getElementById(id);
/* Set a text only if it differs: equal texts are neither laid out nor read out again. */
const setText = (node, text) => { if (node.textContent !== text) node.textContent = text; };

/* Counts and places of addresses are BigInts, as a browser's numbers are exact up to 2^53 only. Of
   more than 10^12, people want the order of magnitude; the exact count is in the line of one range. */
const FEW = 1_000_000n;
const format = new Intl.NumberFormat("en");
const exactCount = (value) => format.format(value);
const count = (value) => value < 1e12 ? exactCount(value) : `≈${Number(value).toPrecision(2).replace("e+", "×10^")}`;
const bits = (value) => value.toString(2).length;
/* Return a count of IPv6 addresses in prefixes: /48, 3 × /64, ≈65,536 × /48; few are counted. */
function prefixes(value) {
  if (value < FEW) return exactCount(value);
  let zeros = 0, odd = value;
  while (odd % 2n === 0n) { odd /= 2n; zeros += 1; }
  if (odd === 1n) return `/${128 - zeros}`;
  if (odd < FEW) return `${exactCount(odd)} × /${128 - zeros}`;
  const shift = BigInt(Math.floor((bits(value) - 7) / 16) * 16), half = shift ? 1n << (shift - 1n) : 0n;
  return `≈${exactCount((value + half) >> shift)} × /${128n - shift}`;
}
const addressCount = (family, value) => family === 6 ? prefixes(value) : count(value);
/* Return the counts of each family of which there are some. */
const eachFamily = (counts) => Object.entries(counts).map(([family, value]) => addressCount(Number(family), value)).join(" + ") || "0";
const sum = (counts) => Object.values(counts).reduce((all, value) => all + value, 0n);
const bound = (low, value, high) => value < low ? low : value > high ? high : value;
const smaller = (a, b) => a < b ? a : b;
const larger = (a, b) => a < b ? b : a;
const scaled = (value, factor) => BigInt(Math.round(Number(value) * factor));

/* Return the command about an object; its name is `Kind namespace/name`, or without the kind that is given. */
const kubectl = (itsKind, text) => {
  const [key, kind] = text.split(" ").reverse(), at = key.indexOf("/");
  return `kubectl ${at < 0 ? "" : `-n ${key.slice(0, at)} `}describe ${(kind || itsKind).toLowerCase()} ${key.slice(at + 1)}`;
};

/* Return an address as [family, BigInt]; null if the text is no address. */
function parseAddress(text) {
  if (text.includes(":")) return parseAddressOfIPv6(text);
  const parts = text.split(".");
  if (parts.length !== 4 || parts.some((part) => !/^(0|[1-9]\d{0,2})$/.test(part) || +part > 255)) return null;
  return [4, parts.reduce((value, part) => value * 256n + BigInt(part), 0n)];
}
function parseAddressOfIPv6(text) {
  const dotted = /^(.*:)(\d+\.\d+\.\d+\.\d+)$/.exec(text);
  if (dotted) {
    const low = parseAddress(dotted[2]);
    if (!low) return null;
    text = `${dotted[1]}${(low[1] >> 16n).toString(16)}:${(low[1] & 65535n).toString(16)}`;
  }
  const halves = text.split("::");
  const groups = halves.map((half) => half ? half.split(":") : []);
  const given = groups.flat();
  if (halves.length > 2 || given.some((group) => !/^[0-9a-f]{1,4}$/i.test(group))) return null;
  if (halves.length === 1 ? given.length !== 8 : given.length > 7) return null;
  const whole = halves.length === 1 ? given : [...groups[0], ...Array(8 - given.length).fill("0"), ...groups[1]];
  return [6, whole.reduce((value, group) => value * 65536n + BigInt(parseInt(group, 16)), 0n)];
}
function formatAddress(family, value) {
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
/* Return an address, a CIDR or a range as {family, first, last}; null if the text is none. Host bits
   are masked, and ::ffff:10.40.0.1 is of IPv4, as `butler-ipam whois` reads it. */
const MAPPED = 0xffffn << 32n;
function parseSpan(text) {
  const [address, prefix, ...more] = text.split("/").map((part) => part.trim());
  if (more.length) return null;
  if (prefix === undefined) {
    const [start, end, ...rest] = address.split("-").map((part) => part.trim());
    const first = parseAddress(start), last = end === undefined ? first : parseAddress(end);
    if (rest.length || !first || !last || first[0] !== last[0] || first[1] > last[1]) return null;
    return unmapped({family: first[0], first: first[1], last: last[1]});
  }
  const parsed = parseAddress(address);
  const length = /^\d{1,8}$/.test(prefix) ? Number(prefix) : NaN, all = parsed?.[0] === 6 ? 128 : 32;
  if (!parsed || !(length <= all)) return null;
  const hosts = (1n << BigInt(all - length)) - 1n, first = parsed[1] - (parsed[1] & hosts);
  return unmapped({family: parsed[0], first, last: first + hosts});
}
function unmapped(span) {
  const isMapped = span.family === 6 && span.first >= MAPPED && span.last <= MAPPED + 0xffffffffn;
  return isMapped ? {family: 4, first: span.first - MAPPED, last: span.last - MAPPED} : span;
}

/* Frames: what is marked is drawn once, in the next frame. All parts are drawn before any of them
   measures what it has drawn, so a frame has one layout. */
const marked = new Set();
let isFramePlanned = false;
function mark(part) {
  marked.add(part);
  if (isFramePlanned) return;
  isFramePlanned = true;
  requestAnimationFrame(drawMarked);
}
function drawMarked() {
  isFramePlanned = false;
  const parts = [...marked];
  marked.clear();
  for (const part of parts) part.draw();
  for (const part of parts) part.measure?.();
  afterFrame();
}
