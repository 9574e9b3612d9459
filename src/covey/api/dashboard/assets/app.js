// The page: who is signed in, which part is open (by the address behind #), and which theme.

import { badge, button, el, link, say, trouble } from "./dom.js";
import { Page } from "./live.js";
import { become, data, known, listen } from "./net.js";
import { boot } from "./pages/boot.js";
import { cluster, clusters } from "./pages/clusters.js";
import { fleet } from "./pages/fleet.js";
import { group, groups } from "./pages/groups.js";
import { health } from "./pages/health.js";
import { host } from "./pages/host.js";
import { repair, repairs } from "./pages/repair.js";
import { signIn } from "./pages/sign_in.js";
import { why, whys } from "./pages/why.js";

// name: [in the menu, for operators only, the whole, one of it]
const PAGES = {
  fleet: ["Fleet", false, fleet, null],
  groups: ["Groups", false, groups, group],
  why: ["Why", false, whys, why],
  repair: ["Repair", false, repairs, repair],
  clusters: ["Clusters", false, clusters, cluster],
  health: ["Health", true, health, null],
  hosts: [null, true, null, host],
  boot: [null, false, boot, null],
};
const THEME = "covey.theme";
const OVER = "You are not signed in any more: the password or the token does not hold.";
const main = document.getElementById("main");
const root = document.documentElement;

let me = null;
let page = new Page();
let listening = null;

function theme(chosen) {
  if (chosen) root.dataset.theme = chosen;
  else delete root.dataset.theme;
  document.dispatchEvent(new CustomEvent("theme"));
}

function switchTheme() {
  const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  localStorage.setItem(THEME, dark ? "light" : "dark");
  theme(dark ? "light" : "dark");
  say(dark ? "Light theme" : "Dark theme");
}

function drawTop(open) {
  const items = Object.entries(PAGES).filter(
    ([, [title, forOperators]]) => title && me && (me.is_admin || !forOperators),
  );
  document
    .getElementById("nav")
    .replaceChildren(
      ...items.map(([name, [title]]) => link(title, `#/${name}`, name === open ? { "aria-current": "page" } : {})),
    );
  const lamp = document.getElementById("lamp") ?? el("span", { id: "lamp" });
  document.getElementById("who").replaceChildren(
    me ? lamp : "",
    me
      ? el(
          "span",
          { class: "me", title: `project ${me.project}` },
          me.user,
          el("small", {}, me.is_admin ? "operator" : me.project),
        )
      : "",
    button("◐", switchTheme, {
      class: "plain",
      "aria-label": "Switch between the dark and the light theme",
      title: "Dark or light",
    }),
    me ? button("Sign out", () => signOut(), { class: "plain" }) : "",
  );
}

function showListening(how) {
  const words = { live: ["live", "good"], asking: ["every few seconds", "busy"], away: ["no connection", "bad"] }[how];
  document.getElementById("lamp")?.replaceChildren(badge(...words));
}

function signOut(said) {
  become(null);
  me = null;
  listening?.abort();
  show(said);
}

async function identify() {
  me = await data("me");
  listening = new AbortController();
  drawTop();
  listen((subject) => page.tell(subject), showListening, listening.signal);
}

/** Opens what the address says. */
async function show(said = null) {
  page.leave();
  page = new Page();
  const opened = page;
  if (!known()) {
    drawTop();
    document.title = "Sign in – Covey";
    return signIn(main, said, async () => {
      await identify();
      show();
    });
  }
  try {
    if (!me) await identify();
  } catch (error) {
    if (error.status !== 401) return main.replaceChildren(trouble(error, () => show()));
    become(null);
    return show(OVER);
  }
  if (opened.signal.aborted) return undefined;
  const [path, query] = location.hash.replace(/^#\/?/, "").split("?");
  const [name, ...rest] = path.split("/");
  const at = name in PAGES ? name : "fleet";
  const [title, forOperators, whole, one] = PAGES[at];
  const id = rest.join("/") && decodeURIComponent(rest.join("/"));
  const draw = id ? (one ?? whole) : (whole ?? one);
  drawTop({ hosts: "fleet", boot: "why" }[at] ?? at);
  document.title = `${title ?? (id || "Boot a server")} – Covey`;
  main.replaceChildren();
  main.removeAttribute("aria-busy");
  if (forOperators && !me.is_admin) {
    return main.replaceChildren(trouble(new Error("This page is for operators.")));
  }
  return draw(main, {
    id,
    me,
    page,
    query: new URLSearchParams(query),
    go: (to) => {
      location.hash = to;
    },
  });
}

document.addEventListener("unknown", () => {
  if (me) signOut(OVER);
});
document.getElementById("skip").addEventListener("click", (event) => {
  event.preventDefault();
  main.focus();
});
window.addEventListener("hashchange", () => {
  show();
  main.focus({ preventScroll: true });
  window.scrollTo(0, 0);
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () =>
  document.dispatchEvent(new CustomEvent("theme")),
);
theme(localStorage.getItem(THEME));
show();
