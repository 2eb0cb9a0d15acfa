/* Search and filters, their place in the URL, and what matches. */
const filters = {find: "", tenant: "", family: "", hidden: new Set()};
let query = {span: null, words: []};
let filtersVersion = 0;

const isFiltered = () => Boolean(filters.find || filters.tenant || filters.family || filters.hidden.size);
const isNarrowed = () => Boolean(filters.find || filters.tenant);
/* Return a search: an address, CIDR or range, as `whois` takes them, else words. */
function parseQuery(text) {
  const typed = text.trim().toLowerCase(), span = parseSpan(typed);
  return {span, typed, words: span ? [] : typed.split(/\s+/).filter(Boolean)};
}
function setFilters(changed) {
  Object.assign(filters, changed);
  query = parseQuery(filters.find);
  filtersVersion += 1;
}
/* A tenant's name, or a part of it if no tenant has that name. */
function isWantedTenant(name) {
  if (!filters.tenant) return true;
  return store.looks.has(filters.tenant) || store.tenants.has(filters.tenant) ? name === filters.tenant : name.includes(filters.tenant);
}

const hasWords = (text) => query.words.every((word) => text.includes(word));
const isOfFamily = (pool) => !filters.family || String(pool.family) === filters.family;
const poolText = (pool) => derive(pool, "text", () => `${pool.name} ${pool.cidr} ${readyText(pool)} ${pool.fault}`.toLowerCase());
const extentTexts = (pool) => derive(pool, "texts", () => pool.extents.map((extent) => `${poolText(pool)} ${describe(pool, extent)}`.toLowerCase()));
const requestText = (request) => (request.text ??= `${poolText(request.pool)} waiting ${request.allocation} ${request.tenant} ${request.type} ${request.why}`.toLowerCase());
const tenantText = (tenant) => (tenant.text ??= `${tenant.name} ${tenant.phase || ""} ${readyText(tenant)} ${tenant.waiting ? "waiting" : ""}`.toLowerCase());

/* Return for each range of a pool whether it matches, and how many do: {flags, count}. */
function matchesIn(pool) {
  const known = pool.derived.matches;
  if (known?.version === filtersVersion) return known;
  const flags = new Uint8Array(pool.extents.length);
  let found = 0;
  const {span} = query, texts = query.words.length ? extentTexts(pool) : null;
  const low = span ? span.first - pool.firstAddress : 0n, high = span ? span.last - pool.firstAddress : 0n;
  const isPossible = isOfFamily(pool) && (!span || span.family === pool.family);
  if (isPossible) pool.extents.forEach((extent, at) => {
    if (filters.hidden.has(extent.state)) return;
    if (span && (extent.at > high || extent.at + extent.size <= low)) return;
    if (filters.tenant && !extent.holders.some(({tenant}) => isWantedTenant(tenant))) return;
    if (texts && !hasWords(texts[at])) return;
    flags[at] = 1;
    found += 1;
  });
  pool.derived.matches = {version: filtersVersion, flags, count: found};
  return pool.derived.matches;
}
const isWantedRequest = (request) => isOfFamily(request.pool) && isWantedTenant(request.tenant)
  && (query.span ? requestText(request).includes(query.typed) : hasWords(requestText(request)));
/* Return what matches: pools, requests, tenants, events, and the numbers of ranges. A request waits once, also in a pool with two families. */
function select() {
  const all = shownPools(), requests = new Map(), asked = new Set(), holders = new Set();
  let found = 0, ranges = 0;
  const pools = all.filter((pool) => {
    const {flags, count: here} = matchesIn(pool), wanted = [...pool.requests.values()].filter(isWantedRequest);
    found += here;
    ranges += pool.extents.length;
    for (const allocation of pool.requests.keys()) asked.add(`${pool.name} ${allocation}`);
    for (const request of wanted) if (!requests.has(`${pool.name} ${request.allocation}`)) requests.set(`${pool.name} ${request.allocation}`, request);
    if (here && query.span) pool.extents.forEach((extent, at) => { if (flags[at]) for (const {tenant} of extent.holders) holders.add(tenant); });
    return isOfFamily(pool) && (!isNarrowed() || here > 0 || wanted.length > 0 || (pool.fault && !filters.tenant && !query.span && hasWords(poolText(pool))));
  });
  const tenants = [...store.tenants.values()].filter((tenant) => isWantedTenant(tenant.name) && (query.span ? holders.has(tenant.name) : hasWords(tenantText(tenant))));
  const events = store.events.filter((event) => query.span ? event.note.includes(query.typed) : hasWords(eventText(event).toLowerCase()));
  return {pools, requests: [...requests.values()], tenants, events, found, ranges, waiting: asked.size};
}

/* The fragment of the URL has the filters: files can change it, and servers do not see it. */
function writeFilters() {
  const parameters = new URLSearchParams();
  for (const name of ["find", "tenant", "family"]) if (filters[name]) parameters.set(name, filters[name]);
  if (filters.hidden.size) parameters.set("hide", [...filters.hidden].sort().join(","));
  const fragment = parameters.toString().replaceAll("%2F", "/").replaceAll("%3A", ":");
  if (location.hash.includes("=") || fragment) history.replaceState(null, "", `${location.pathname}${location.search}${fragment ? `#${fragment}` : ""}`);
}
function readFilters() {
  if (!location.hash.includes("=")) return;
  const parameters = new URLSearchParams(location.hash.slice(1));
  const [find, tenant, family] = ["find", "tenant", "family"].map((name) => parameters.get(name) || "");
  setFilters({find, tenant, family: /^[46]$/.test(family) ? family : "", hidden: new Set((parameters.get("hide") || "").split(",").filter(Boolean))});
}
