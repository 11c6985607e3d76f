// Talking to the server: the token, questions, and following what grows.

import { h } from "./dom.js";

const KEPT = "spreeze-token"; // in this tab alone

/** From the link that the command printed; the address line forgets it at once. */
function tokenOfLink() {
  const found = new URLSearchParams(location.search).get("token") ?? new URLSearchParams(location.hash.slice(1)).get("token");
  if (found === null) return null;
  history.replaceState(null, "", location.pathname + (location.hash.startsWith("#/") ? location.hash : ""));
  return found;
}

let token = tokenOfLink();
if (token !== null) sessionStorage.setItem(KEPT, token);
else token = sessionStorage.getItem(KEPT);

export class Refused extends Error {
  constructor(status, why) {
    super(why);
    this.status = status;
  }
}

export async function ask(path, options = {}) {
  const headers = { ...options.headers, ...(token ? { authorization: `Bearer ${token}` } : {}) };
  const answer = await fetch(path, { ...options, headers, cache: "no-store", credentials: "omit" });
  if (answer.ok) return answer;
  if (answer.status === 401 || answer.status === 403) forget();
  throw new Refused(answer.status, await answer.text());
}

export const read = async (path, options) => (await ask(path, options)).json();

/** Asks for the token where it is not known, or was refused. False: the user would rather not. */
export async function act(path, body) {
  for (;;) {
    if (!token && !(await askForToken())) return false;
    try {
      await ask(path, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) });
      return true;
    } catch (error) {
      if (!(error instanceof Refused) || (error.status !== 401 && error.status !== 403)) throw error;
      if (!(await askForToken(error.message))) return false;
    }
  }
}

function forget() {
  token = null;
  sessionStorage.removeItem(KEPT);
}

let asking = null;

/** One dialog at a time, whoever asks. */
export function askForToken(why = "") {
  asking ??= showTokenDialog(why).finally(() => (asking = null));
  return asking;
}

async function showTokenDialog(why) {
  const input = h("input", { type: "password", autocomplete: "off", spellcheck: "false", id: "token", required: true });
  const said = h("p", { class: "warn", role: "alert" }, why);
  return dialog("This needs the token", [
    h("p", {}, "Paste the token that ", h("code", {}, "spreeze dashboard"), " printed at its start."),
    h("label", { for: "token" }, "Token"), input, said,
  ], "Go on", async () => {
    token = input.value.trim();
    try {
      await ask("/api/token");
    } catch (error) {
      said.textContent = error.message;
      return false;
    }
    sessionStorage.setItem(KEPT, token);
    return true;
  });
}

/** A question with two answers. `check` may hold the dialog open by giving false. */
export function dialog(title, content, yes, check = async () => true) {
  return new Promise((resolve) => {
    const shown = h("dialog", { "aria-labelledby": "dialog-title" },
      h("h2", { id: "dialog-title" }, title), ...content,
      h("div", { class: "buttons" },
        h("button", { type: "button", class: "quiet", onclick: () => shown.close("no") }, "Cancel"),
        h("button", { type: "button", class: "main", onclick: go }, yes)));
    async function go() {
      if (await check()) shown.close("yes");
    }
    shown.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && event.target.tagName === "INPUT") go();
    });
    shown.addEventListener("close", () => {
      shown.remove();
      resolve(shown.returnValue === "yes");
    });
    document.body.append(shown);
    shown.showModal();
  });
}

/** Calls `step` again and again: at once while it gives true ("there is more"), else every `everyMs`; not while the
 * page is hidden. `state` is told whether the server answers. Returns what ends it. */
export function follow(step, everyMs, state) {
  const ending = new AbortController();
  let timer = 0, busy = false;
  async function turn() {
    busy = true;
    const begun = performance.now();
    let again = false;
    try {
      again = document.hidden ? false : await step(ending.signal);
      if (!ending.signal.aborted) state(true);
    } catch (error) {
      if (ending.signal.aborted) return;
      if (error instanceof Refused && (error.status === 401 || error.status === 403)) await askForToken(error.message);
      else state(false, error);
    }
    busy = false;
    if (!ending.signal.aborted) timer = setTimeout(turn, again ? 0 : Math.max(50, everyMs - (performance.now() - begun)));
  }
  function wake() {
    if (document.hidden || busy) return;
    clearTimeout(timer);
    turn();
  }
  document.addEventListener("visibilitychange", wake);
  turn();
  return () => {
    ending.abort();
    clearTimeout(timer);
    document.removeEventListener("visibilitychange", wake);
  };
}

/** A line at the foot of the page, for a while. */
export function say(text, kind = "") {
  const note = h("p", { class: kind }, text);
  document.getElementById("notes").append(note);
  setTimeout(() => note.remove(), 8000);
}
