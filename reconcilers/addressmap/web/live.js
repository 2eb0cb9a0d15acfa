/* The page of a server: asks for updates, and shows what is new. */
const SILENT_AFTER = 45000, FIRST_WAIT = 500, LONGEST_WAIT = 30000, FRESH_FOR = 4000;
let token = "", wake = () => {};

function status(words, bad) {
  const line = byId("live");
  line.hidden = false;
  if (line.textContent !== words) line.textContent = words;
  line.className = bad ? "bad" : "";
}
function receive(message) {
  const changed = take(message);
  show(changed);
  if (changed.pools.size || changed.tenants.size) setTimeout(settle, FRESH_FOR);
  const why = store.failures.join("; ");
  status(why ? `Not everything is shown: ${why}` : "Live: changes appear by themselves.", Boolean(why));
}
/* Take the marks from what was new; objects that changed meanwhile lose theirs early. */
function settle() {
  for (const item of [...store.pools.values(), ...store.tenants.values()]) item.isNew = false;
  for (const node of document.querySelectorAll(".new")) node.classList.remove("new");
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
    for (const part of parts) if (part.startsWith("data: ")) receive(JSON.parse(part.slice(6)));
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
    writeFilters();
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
