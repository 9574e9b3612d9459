// The fleet map: grouping, colours, search, policy violations, and a table of the same data.

import { HUES } from "../colours.js";
import { badge, button, choice, el, empty, field, heading, link, plural, say, table } from "../dom.js";
import { live } from "../live.js";
import { FleetMap } from "../map.js";
import { data } from "../net.js";
import { renamed } from "../surrogates.js";

const STATES = ["up", "disabled", "down"];
const MAX_ROWS = 200;
const MAX_MARKED_GROUPS = 20; // groups with violations whose offending members are marked
const FILLS = [
  ["fullest", "fullest resource"],
  ["vcpus", "VCPUs"],
  ["memory", "memory"],
  ["disk", "disk"],
];

let lastScope = null;

export function fleet(main, { me, page, query, go }) {
  let seen = null; // the fleet as last loaded
  let groupRows = new Map();
  let offending = new Set();
  let scope = query.get("scope") ?? lastScope;
  let chosen = query.get("group");

  const map = new FleetMap({ describe: (row) => describe(seen, row, me), open: openHost, say, signal: page.signal });
  const scopes = el("select", {
    id: "scope",
    on: {
      change: () => {
        scope = scopes.value;
        refresh();
      },
    },
  });
  const fills = choice({ on: { change: () => map.fill(fills.value) } }, FILLS, "fullest");
  const search = el("input", {
    type: "search",
    placeholder: "Host, domain, group or server id",
    on: { input: find, keydown: goToFound },
  });
  const outcome = el("span", { class: "quiet outcome", role: "status" });
  const legend = el("div", { class: "legend" });
  const summary = el("p", { class: "quiet" });
  const fleetTable = el(
    "details",
    { class: "card", id: "fleet-table", on: { toggle: drawTable } },
    el("summary", {}, "Show as a table"),
  );
  const stage = el(
    "div",
    { class: "stage" },
    map.node,
    el(
      "div",
      { class: "zoom", role: "group", "aria-label": "Zoom" },
      button("+", () => map.zoom(1.5), { "aria-label": "Zoom in" }),
      button("−", () => map.zoom(1 / 1.5), { "aria-label": "Zoom out" }),
      button("⤢", () => map.fit(), { "aria-label": "Show everything", title: "Show everything" }),
    ),
  );
  const messages = el("div"); // empty fleet, or an error
  main.replaceChildren(
    heading(me.is_admin ? "Fleet" : "Your servers", summary),
    el(
      "div",
      { class: "tools" },
      field("Group by", scopes),
      me.is_admin ? field("Color by", fills) : null,
      field("Find", search),
      outcome,
    ),
    messages,
    el("div", { class: "split" }, stage, el("aside", { class: "card", "aria-label": "Legend" }, legend)),
    fleetTable,
  );

  const refresh = live(page, messages, ["fleet", "servers", "groups"], load, draw);

  async function load() {
    const requested = scope;
    const got = await data(`fleet${requested ? `?scope=${encodeURIComponent(requested)}` : ""}`, page.signal);
    // A scope that was selected during the request is loaded next.
    if (scope === requested) showFleet(me.is_admin ? got : renamed(got));
    const rows = (await data("groups", page.signal)).groups;
    const broken = rows.filter((each) => each.hard_violations).slice(0, MAX_MARKED_GROUPS);
    const violating = await Promise.all(broken.map((each) => data(`groups/${each.id}`, page.signal).catch(() => null)));
    return { rows, members: offenders(violating.filter(Boolean)), hosts: got.hosts.name.length };
  }

  function showFleet(got) {
    seen = got;
    lastScope = scope = got.scope;
    scopes.replaceChildren(
      ...got.scopes.map((name) => el("option", { value: name, selected: name === got.scope }, name)),
    );
    offer(fills, Object.keys(got.hosts.others));
    const count = got.hosts.name.length;
    summary.textContent = `${plural(count, "host")}, ${plural(got.servers.id.length, "server")}`;
    if (count) map.show(got);
    stage.hidden = !count;
    choose(chosen);
    markWrong();
    if (search.value) find();
    drawTable();
  }

  function draw({ rows, members, hosts }) {
    groupRows = new Map(rows.map((each) => [each.id, each]));
    offending = new Set(members);
    drawLegend();
    markWrong();
    if (hosts) return null;
    return me.is_admin
      ? empty("No hosts.", "Describe them in a fleet file and run covey fleet apply FILE.")
      : empty("No servers.", link("Boot a server", "#/boot"));
  }

  function markWrong() {
    const rows = seen.servers.host.filter((_, i) => offending.has(seen.servers.id[i]));
    map.mark({ wrong: [...new Set(rows)] });
  }

  function choose(id) {
    chosen = id;
    map.choose(id ? seen.groups.findIndex((each) => each.id === id) : -1);
    drawLegend();
  }

  function drawLegend() {
    const rows = seen.groups.map((each, i) => ({
      ...each,
      hue: i % HUES,
      wrong: groupRows.get(each.id)?.hard_violations ?? 0,
    }));
    rows.sort((a, b) => (b.wrong > 0) - (a.wrong > 0) || a.name.localeCompare(b.name, "en", { numeric: true }));
    const focused = document.activeElement?.id;
    legend.replaceChildren(
      el("h2", {}, "Groups"),
      rows.length
        ? el("ul", {}, rows.slice(0, MAX_ROWS).map(legendRow))
        : el("p", { class: "quiet" }, "No groups."),
      rows.length > MAX_ROWS
        ? el("p", { class: "quiet" }, `and ${rows.length - MAX_ROWS} more: search by name`)
        : "",
      el("h2", {}, "Hosts"),
      me.is_admin ? el("p", { class: "ramp" }, el("span", {}, "empty"), el("i"), el("span", {}, "full")) : "",
      el(
        "ul",
        { class: "keys" },
        me.is_admin
          ? [
              el("li", {}, el("i", { class: "key off" }), "disabled"),
              el("li", {}, el("i", { class: "key down" }), "down"),
            ]
          : null,
        el("li", {}, el("i", { class: "key wrong" }), "violates a policy"),
        el("li", {}, el("i", { class: "key found" }), "found"),
      ),
    );
    if (focused) legend.querySelector(`#${CSS.escape(focused)}`)?.focus();
  }

  function legendRow(each) {
    const pressed = each.id === chosen;
    return el(
      "li",
      {},
      el(
        "button",
        {
          type: "button",
          id: `legend-${each.id}`,
          class: "plain row",
          "aria-pressed": String(pressed),
          on: { click: () => choose(pressed ? null : each.id) },
        },
        el("i", { class: `key hue-${each.hue}` }),
        el("span", {}, each.name),
      ),
      each.wrong
        ? link(badge(`⚠ ${plural(each.wrong, "violation")}`, "bad"), `#/rebalance/${each.id}`, {
            title: "Plan a rebalance",
          })
        : null,
      pressed ? link("open", `#/groups/${each.id}`) : null,
    );
  }

  function openHost(row) {
    if (me.is_admin) go(`#/hosts/${encodeURIComponent(seen.hosts.name[row])}`);
  }

  function find() {
    const term = search.value.trim().toLowerCase();
    const rows = term && seen ? matches(seen, term) : [];
    map.mark({ found: rows });
    outcome.textContent = term
      ? rows.length
        ? `${plural(rows.length, "host")} found; press Enter to go there`
        : "no match"
      : "";
  }

  function goToFound(event) {
    if (event.key === "Enter" && map.found.length) map.goTo(map.found[0]);
  }

  function drawTable() {
    if (!fleetTable.open || !seen) return;
    fleetTable.replaceChildren(fleetTable.querySelector("summary"), tableOf(seen, me));
  }
}

/** Returns the members of all hard violations. */
function offenders(groups) {
  return groups.flatMap((each) =>
    each.violations.filter((violation) => !violation.soft).flatMap((violation) => violation.members),
  );
}

/** Returns the lines of a host's tooltip. */
function describe(seen, row, me) {
  const { hosts, servers } = seen;
  const lines = [hosts.name[row]];
  if (hosts.domain[row] >= 0 && seen.scope !== "host") lines.push(`${seen.scope}: ${seen.domains[hosts.domain[row]]}`);
  else if (seen.scope !== "host") lines.push(`in no ${seen.scope}`);
  if (hosts.zone[row]) lines.push(`zone ${hosts.zone[row]}`);
  if (me.is_admin) {
    lines.push(
      `${hosts.vcpus_used[row]} of ${hosts.vcpus[row]} VCPUs`,
      `${gib(hosts.memory_used[row])} of ${gib(hosts.memory[row])} GiB memory`,
      `${hosts.disk_used[row]} of ${hosts.disk[row]} GB disk`,
      ...Object.entries(hosts.others)
        .filter(([, { capacity }]) => capacity[row] > 0)
        .map(([kind, { used, capacity }]) => `${used[row]} of ${capacity[row]} ${kind}`),
    );
    if (hosts.state[row]) lines.push(STATES[hosts.state[row]]);
  }
  const here = servers.host.reduce((all, at, i) => (at === row ? [...all, servers.group[i]] : all), []);
  const names = [...new Set(here.filter((group) => group >= 0))].map((group) => seen.groups[group].name);
  lines.push(
    plural(here.length, "server") +
      (names.length ? `: ${names.slice(0, 4).join(", ")}${names.length > 4 ? " …" : ""}` : ""),
  );
  return lines;
}

/** Offers to fill hosts by each resource class that the fleet has. */
function offer(fills, classes) {
  const known = new Set([...fills.options].map((option) => option.value));
  for (const kind of classes) if (!known.has(kind)) fills.append(el("option", { value: kind }, kind));
}

const drainLink = (scope, domain) =>
  link("Drain", `#/drains?scope=${encodeURIComponent(scope)}&domain=${encodeURIComponent(domain)}`);
const gib = (mb) => Math.round(mb / 1024).toLocaleString("en");

/** Returns the hosts that match a search term by name, domain, group or server id. */
function matches(seen, term) {
  const { hosts, servers, domains, groups } = seen;
  const has = (text) => text.toLowerCase().includes(term);
  const [places, named] = [domains.map(has), groups.map((each) => has(each.name))];
  const found = new Set();
  hosts.name.forEach((name, row) => {
    if (has(name) || places[hosts.domain[row]]) found.add(row);
  });
  for (const [name, row] of Object.entries(hosts.services)) if (has(name)) found.add(row);
  servers.id.forEach((id, i) => {
    if (named[servers.group[i]] || (term.length > 3 && id.includes(term))) found.add(servers.host[i]);
  });
  return [...found];
}

/** Returns the domains with their hosts and servers as a table, also for screen readers. */
function tableOf(seen, me) {
  const { hosts, servers, domains, scope } = seen;
  const others = Object.entries(hosts.others);
  const places = new Map();
  hosts.name.forEach((_, row) => {
    const place = hosts.domain[row] < 0 ? `in no ${scope}` : domains[hosts.domain[row]];
    const sums = places.get(place) ?? {
      hosts: 0,
      servers: 0,
      used: 0,
      all: 0,
      off: 0,
      row,
      others: others.map(() => [0, 0]),
    };
    sums.hosts++;
    sums.used += hosts.vcpus_used[row] ?? 0;
    sums.all += hosts.vcpus[row] ?? 0;
    others.forEach(([, { used, capacity }], i) => {
      sums.others[i][0] += used[row];
      sums.others[i][1] += capacity[row];
    });
    sums.off += hosts.state[row] > 0;
    places.set(place, sums);
  });
  const nameOf = (row) => (hosts.domain[row] < 0 ? `in no ${scope}` : domains[hosts.domain[row]]);
  for (const row of servers.host) places.get(nameOf(row)).servers++;
  const rows = [...places].sort(([a], [b]) => a.localeCompare(b, "en", { numeric: true })).slice(0, MAX_ROWS);
  const columns = [[scope], ["Hosts", "number"], ["Servers", "number"]];
  if (me.is_admin) columns.push(["VCPUs used", "number"], ["VCPUs", "number"]);
  for (const [kind] of others) columns.push([`${kind} used`, "number"], [kind, "number"]);
  if (me.is_admin) columns.push(["Disabled or down", "number"], [""]);
  return el(
    "div",
    {},
    table(
      `Hosts by ${scope}`,
      columns,
      rows.map(([name, sums]) => [
        me.is_admin && scope === "host" ? link(name, `#/hosts/${encodeURIComponent(name)}`) : name,
        String(sums.hosts),
        String(sums.servers),
        ...(me.is_admin ? [sums.used, sums.all, ...sums.others.flat(), sums.off].map(String) : []),
        ...(me.is_admin ? [hosts.domain[sums.row] < 0 ? "" : drainLink(scope, name)] : []),
      ]),
    ),
    places.size > MAX_ROWS ? el("p", { class: "quiet" }, `and ${places.size - MAX_ROWS} more`) : "",
  );
}
