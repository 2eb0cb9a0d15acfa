/* What matches, as files: CSV for spreadsheets, JSON for programs. */
const CSV_COLUMNS = ["pool", "cidr", "start", "end", "addresses", "state", "allocation", "tenant", "type", "since", "note"];

/* Return rows for the ranges and requests that match; counts above 2^53 are exact only as texts. */
function exportedRows() {
  const {pools, requests} = select();
  const ranges = pools.flatMap((pool) => {
    const {flags} = matchesIn(pool);
    return pool.extents.filter((_, at) => flags[at]).flatMap((extent) => {
      const range = {pool: pool.name, cidr: pool.cidr, start: startText(pool, extent), end: endText(pool, extent), addresses: String(extent.size), state: extent.state};
      return (extent.holders.length ? extent.holders : [{}]).map((holder) => ({...range, ...holder, note: extent.note}));
    });
  });
  const waiting = requests.map(({pool, allocation, tenant, type, since, why}) => ({pool: pool.name, cidr: pool.cidr, state: "waiting", allocation, tenant, type, since, note: why}));
  return [...ranges, ...waiting];
}
/* Return a cell. A spreadsheet would run a text that begins as a formula, so such a text gets an apostrophe. */
function csvCell(value) {
  const text = String(value ?? ""), safe = /^[=+\-@\t\r]/.test(text) ? `'${text}` : text;
  return /[",\n\r;]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}
const asCsv = (rows) => [CSV_COLUMNS, ...rows.map((row) => CSV_COLUMNS.map((name) => row[name]))].map((cells) => cells.map(csvCell).join(",")).join("\r\n") + "\r\n";
function asJson(rows) {
  const {find, tenant, family, hidden} = filters;
  return `${JSON.stringify({made: store.made, filters: {find, tenant, family, hide: [...hidden]}, items: rows}, null, 2)}\n`;
}
function save(name, type, text) {
  const url = URL.createObjectURL(new Blob([text], {type})), link = make("a", undefined, {href: url, download: name});
  link.click();
  // The download has begun by then, or never will.
  setTimeout(() => URL.revokeObjectURL(url), 60000);
}
byId("as-csv").onclick = () => save("addresses.csv", "text/csv;charset=utf-8", asCsv(exportedRows()));
byId("as-json").onclick = () => save("addresses.json", "application/json", asJson(exportedRows()));
