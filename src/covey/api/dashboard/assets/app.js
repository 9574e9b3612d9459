// The application: the signed-in user, the open page (by the URL fragment), and the theme.

import { badge, button, el, link, say, trouble } from "./dom.js";
import { Page } from "./live.js";
import { data, isSignedIn, listen, setIdentity } from "./net.js";
import { boot } from "./pages/boot.js";
import { cluster, clusters } from "./pages/clusters.js";
import { drain, drains } from "./pages/drains.js";
import { fleet } from "./pages/fleet.js";
import { group, groups } from "./pages/groups.js";
import { health } from "./pages/health.js";
import { host } from "./pages/host.js";
import { listRebalances, rebalance } from "./pages/rebalance.js";
import { listServers, server } from "./pages/servers.js";
import { signIn } from "./pages/sign_in.js";

// name: [title in the menu, operators only, list page, detail page]
const PAGES = {
  fleet: ["Fleet", false, fleet, null],
  groups: ["Groups", false, groups, group],
  servers: ["Servers", false, listServers, server],
  rebalance: ["Rebalance", false, listRebalances, rebalance],
  drains: ["Drains", true, drains, drain],
  clusters: ["Clusters", false, clusters, cluster],
  health: ["Health", true, health, null],
  hosts: [null, true, null, host],
  boot: [null, false, boot, null],
};
const THEME = "covey.theme";
const EXPIRED = "You are signed out: the password or the token is no longer valid.";
const main = document.getElementById("main");
const root = document.documentElement;

let me = null;
let page = new Page();
let subscription = null;

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
    ([, [title, operatorsOnly]]) => title && me && (me.is_admin || !operatorsOnly),
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
      "aria-label": "Switch between dark and light theme",
      title: "Switch theme",
    }),
    me ? button("Sign out", () => signOut(), { class: "plain" }) : "",
  );
}

function showConnection(state) {
  const words = { live: ["live", "good"], polling: ["polling", "busy"], offline: ["offline", "bad"] }[state];
  document.getElementById("lamp")?.replaceChildren(badge(...words));
}

function signOut(message) {
  setIdentity(null);
  me = null;
  subscription?.abort();
  show(message);
}

async function identify() {
  me = await data("me");
  subscription = new AbortController();
  drawTop();
  listen((subject) => page.notify(subject), showConnection, subscription.signal);
}

/** Opens the page of the URL fragment. */
async function show(message = null) {
  page.close();
  page = new Page();
  const opened = page;
  if (!isSignedIn()) {
    drawTop();
    document.title = "Sign in – Covey";
    return signIn(main, message, async () => {
      await identify();
      show();
    });
  }
  try {
    if (!me) await identify();
  } catch (error) {
    if (error.status !== 401) return main.replaceChildren(trouble(error, () => show()));
    setIdentity(null);
    return show(EXPIRED);
  }
  if (opened.signal.aborted) return undefined;
  const [path, query] = location.hash.replace(/^#\/?/, "").split("?");
  const [name, ...rest] = path.split("/");
  const at = name in PAGES ? name : "fleet";
  const [title, operatorsOnly, list, detail] = PAGES[at];
  const id = rest.join("/") && decodeURIComponent(rest.join("/"));
  const draw = id ? (detail ?? list) : (list ?? detail);
  drawTop({ hosts: "fleet", boot: "servers" }[at] ?? at);
  document.title = `${title ?? (id || "Boot a server")} – Covey`;
  main.replaceChildren();
  main.removeAttribute("aria-busy");
  if (operatorsOnly && !me.is_admin) {
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

document.addEventListener("unauthorized", () => {
  if (me) signOut(EXPIRED);
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
