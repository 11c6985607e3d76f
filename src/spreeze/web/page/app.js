// The frame of the page: which view is shown, the theme, and whether the server answers.

import { setText } from "./dom.js";
import { ListView } from "./list.js";
import { RunView } from "./run.js";
import { kept, keep } from "./kept.js";

const main = document.getElementById("main"), link = document.getElementById("link"), theme = document.getElementById("theme");
const THEMES = ["auto", "dark", "light"];
let view = null, place = null;

function connection(answers, error) {
  link.className = `link ${answers ? "up" : "down"}`;
  setText(link, answers ? "live" : "no answer, trying again");
  if (!answers) link.title = String(error?.message ?? "");
  else link.removeAttribute("title");
}

function route() {
  const match = /^#\/run\/([0-9a-f]+)$/.exec(location.hash);
  const asked = match ? match[1] : "";
  if (asked === place) return;
  const first = place === null;
  place = asked;
  view?.close();
  view = asked ? new RunView(asked, connection) : new ListView(connection);
  main.replaceChildren(view.element);
  if (!first) {
    scrollTo(0, 0);
    main.focus({ preventScroll: true });
  }
}

function showTheme(name) {
  if (name === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = name;
  setText(theme, `Theme: ${name}`);
}

theme.addEventListener("click", () => {
  const next = THEMES[(THEMES.indexOf(kept("theme", "auto")) + 1) % THEMES.length];
  keep("theme", next);
  showTheme(next);
});
showTheme(THEMES.includes(kept("theme", "auto")) ? kept("theme", "auto") : "auto");
addEventListener("hashchange", route);
route();
