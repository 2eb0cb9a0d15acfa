/* The page of a server: asks for updates, and shows what is new. */
const SILENT_AFTER = 45000, FIRST_WAIT = 500, LONGEST_WAIT = 30000, FRESH_FOR = 4000;
let token = "", wake = () => {};

function status(words, bad) {
  const line = byId("live");
  line.hidden = false;
  if (line.textContent !== words) line.textContent = words;
  line.className = bad ? "bad" : "";
}
const contents = (pool) => pool.extents.map((one) => [one.at, one.size, one.state, ...one.holders.map(({allocation}) => allocation)].join()).join(";");
function take(news) {
  const before = new Map(DATA.pools.map((pool) => [poolKey(pool), pool]));
  const {pools, order, ...parts} = news;
  withCounts({pools: Object.values(pools), tenants: parts.tenants});
  for (const [key, pool] of Object.entries(pools)) {
    const old = before.get(key);
    pool.fresh = DATA.made !== "" && (!old || contents(old) !== contents(pool));
    before.set(key, pool);
  }
  const keys = order || DATA.pools.map(poolKey), grown = new Map(DATA.tenants.map((one) => [one.name, one]));
  const first = DATA.made === "";
  if (parts.tenants) for (const one of parts.tenants) {
    const old = grown.get(one.name);
    one.fresh = !first && (!old || `${old.nodes}` !== `${one.nodes}` || `${old.loadbalancer}` !== `${one.loadbalancer}` || old.phase !== one.phase);
  }
  DATA = {...DATA, ...parts, pools: keys.map((key) => before.get(key))};
  show();
  happened();
  for (const panel of panels.values()) panel.section.classList.toggle("new", Boolean(panel.pool.fresh));
  setTimeout(settle, FRESH_FOR);
  const why = (DATA.failures || []).join("; ");
  status(why ? `Not everything is shown: ${why}` : "Live: changes appear by themselves.", Boolean(why));
}
function settle() {
  for (const one of [...DATA.pools, ...DATA.tenants]) one.fresh = false;
  for (const row of document.querySelectorAll(".new")) row.classList.remove("new");
}
/* Events are added where they are new: a reader of the screen hears only those. */
function happened() {
  const box = byId("events"), found = DATA.events || [];
  byId("happened").hidden = !found.length;
  const shown = new Map([...box.children].map((row) => [row.dataset.id, row]));
  const rows = found.map((one) => {
    const id = `${one.id} ${one.count}`, known = shown.get(id);
    if (known) return known;
    const row = make("div", undefined, {className: one.type});
    row.dataset.id = id;
    row.append(make("time", one.at), make("b", one.reason), ` ${one.about}: ${one.note}${one.count > 1 ? ` (${count(one.count)} times)` : ""}`);
    return row;
  });
  rows.forEach((row, at) => { if (box.children[at] !== row) box.insertBefore(row, box.children[at] || null); });
  while (box.children.length > rows.length) box.lastChild.remove();
}

async function read(answer, stop) {
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "", timer;
  for (;;) {
    clearTimeout(timer);
    timer = setTimeout(() => stop.abort(), SILENT_AFTER);
    const {value, done} = await reader.read();
    if (done) { clearTimeout(timer); return; }
    rest += value;
    const parts = rest.split("\n\n");
    rest = parts.pop();
    for (const part of parts) if (part.startsWith("data: ")) take(JSON.parse(part.slice(6)));
  }
}
function askForToken(words) {
  status(words, true);
  byId("sign-in").hidden = false;
  return new Promise((done) => { wake = done; });
}
async function follow() {
  let wait = FIRST_WAIT;
  for (;;) {
    try {
      const stop = new AbortController();
      const headers = token ? {Authorization: `Bearer ${token}`} : {};
      const answer = await fetch("ui/updates", {headers, cache: "no-store", signal: stop.signal});
      if (answer.status === 401 || answer.status === 403) {
        const said = await answer.text();
        await askForToken(said !== "Unauthorized" ? said : token ? "This token is not, or no longer, known to the API server." : "Sign in: the API server says whose token this is, and RBAC what it may see.");
        continue;
      }
      if (!answer.ok) throw new Error(await answer.text());
      wait = FIRST_WAIT;
      await read(answer, stop);
    } catch (error) {
      status(`Not connected, trying again: ${error.message}`, true);
    }
    await new Promise((done) => setTimeout(done, wait));
    wait = Math.min(2 * wait, LONGEST_WAIT);
  }
}
if (LIVE) {
  const given = new URLSearchParams(location.hash.slice(1)).get("token");
  if (given) {
    // Out of the address bar, where it would be seen and bookmarked; a reload still has it.
    sessionStorage.setItem("token", given);
    history.replaceState(null, "", location.pathname + location.search);
  }
  token = given || sessionStorage.getItem("token") || "";
  byId("sign-in").onsubmit = (event) => {
    event.preventDefault();
    token = byId("token").value.trim();
    sessionStorage.setItem("token", token);
    byId("token").value = "";
    byId("sign-in").hidden = true;
    wake();
  };
  status("Connecting ...");
  follow();
}
