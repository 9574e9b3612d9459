// Drains: the plan that empties a host or a domain, the servers that cannot be moved and why, progress, cancel and undo.

import {
  bar,
  button,
  choice,
  el,
  empty,
  facts,
  field,
  heading,
  link,
  note,
  plural,
  say,
  section,
  short,
  state,
  table,
  trouble,
  when,
} from "../dom.js";
import { live } from "../live.js";
import { compute, data } from "../net.js";

const MAX_ROWS = 200;

export function drains(main, { page, query, go }) {
  const [form, plan, past] = [el("div"), el("div", { role: "status" }), el("div")];
  main.replaceChildren(heading("Drains"), section("Plan a drain", form), plan, section("Drains", past));
  drawForm();
  live(page, past, ["fleet", "servers"], () => compute("GET", "os-drains"), listed);

  async function drawForm() {
    let scopes;
    try {
      ({ scopes } = await data("fleet", page.signal));
    } catch (error) {
      if (error.name !== "AbortError") form.replaceChildren(trouble(error, drawForm));
      return;
    }
    const names = el("datalist", { id: "domains" });
    const domain = el("input", { name: "domain", list: "domains", required: true, value: query.get("domain") ?? "" });
    const scope = choice(
      { name: "scope", on: { change: offer } },
      scopes.map((name) => [name, name]),
      query.get("scope") ?? "host",
    );

    async function offer() {
      const found = await data(`fleet?scope=${encodeURIComponent(scope.value)}`, page.signal).catch(() => null);
      if (found) names.replaceChildren(...found.domains.map((name) => el("option", { value: name })));
    }

    function submit(event) {
      event?.preventDefault();
      drawPlan(scope.value, domain.value.trim());
    }

    form.replaceChildren(
      el(
        "form",
        { class: "line", on: { submit } },
        field("Scope", scope),
        field("Host or domain", domain),
        names,
        el("button", {}, "Plan"),
      ),
    );
    offer();
    if (domain.value) submit();
  }

  async function drawPlan(scope, domain) {
    plan.replaceChildren(el("p", { class: "quiet waiting" }, "Planning …"));
    try {
      const { drain } = await compute("POST", "os-drains", { drain: { scope, domain, dry_run: true } });
      plan.replaceChildren(planned(drain, () => start(scope, domain)));
    } catch (error) {
      plan.replaceChildren(trouble(error));
    }
  }

  async function start(scope, domain) {
    try {
      const { drain } = await compute("POST", "os-drains", { drain: { scope, domain } });
      say("Drain started");
      go(`#/drains/${drain.id}`);
    } catch (error) {
      plan.append(trouble(error));
    }
  }
}

function planned(drain, start) {
  const { moves, left, hosts, scope, domain } = drain;
  return section(
    `Plan: ${plural(moves.length, "move")} to empty ${scope} ${domain}`,
    el("p", { class: "quiet" }, `The drain disables ${plural(hosts.length, "host")}: ${some(hosts)}.`),
    moves.length ? moved(moves) : note("good", "No server has to move."),
    left.length ? staying(left) : note("good", "All servers can be moved."),
    el("div", { class: "buttons" }, button("Start drain", start, { class: "first", id: "start-drain" })),
  );
}

function listed({ drains: found }) {
  if (!found.length) return empty("No drains.", "A drain empties a host or a rack before maintenance.");
  return table(
    "Drains",
    [["Domain"], ["Status"], ["Moves done", "number"], ["Moves planned", "number"], ["Started"]],
    found.map((each) => [
      link(`${each.scope} ${each.domain}`, `#/drains/${each.id}`),
      state(each.status),
      String(each.moves_done),
      String(each.moves_planned),
      when(each.created_at),
    ]),
  );
}

export function drain(main, { id, page }) {
  const [outcome, box] = [el("div", { role: "status" }), el("div")];
  main.replaceChildren(outcome, box);
  const path = `os-drains/${encodeURIComponent(id)}`;
  const refresh = live(page, box, ["fleet", "servers"], () => compute("GET", path), draw);

  async function act(name, announcement) {
    try {
      await compute("POST", `${path}/action`, { [name]: {} });
      outcome.replaceChildren();
      say(announcement);
    } catch (error) {
      outcome.replaceChildren(trouble(error));
    }
    refresh();
  }

  function draw({ drain: got }) {
    const total = Math.max(got.moves_planned, got.moves_done);
    const words = `${got.moves_done} of ${plural(total, "move")} done`;
    const running = got.status === "running";
    return [
      heading(`Drain of ${got.scope} ${got.domain}`, state(got.status), link("All drains", "#/drains")),
      section(
        "Progress",
        el("p", {}, words),
        bar(total ? got.moves_done / total : 1, words),
        el(
          "div",
          { class: "buttons" },
          running ? button("Cancel", () => act("cancel", "No further move begins"), { id: "cancel-drain" }) : null,
          got.status === "undone"
            ? null
            : button("Undo", () => act("undo", "The hosts are enabled again"), { id: "undo-drain" }),
        ),
        el("p", { class: "quiet" }, "Undo ends the drain and enables its hosts. Servers stay where they are."),
        facts([
          ["Hosts", some(got.hosts)],
          ["Disabled by the drain", got.disabled_hosts.length ? some(got.disabled_hosts) : "none"],
          ["Started", when(got.created_at)],
          ["Last progress", when(got.updated_at)],
        ]),
      ),
      got.left.length ? section("Servers that cannot be moved", staying(got.left)) : null,
      section("Moves", got.moves.length ? moved(got.moves) : empty("No move has begun.")),
    ];
  }
}

function moved(moves) {
  const columns = [["Server"], ["From"], ["To"]];
  const hasStatus = moves.some((each) => each.status);
  if (hasStatus) columns.push(["Status"], ["Reason"]);
  return rows(
    "Moves",
    columns,
    moves,
    (each) => [
      serverLink(each.instance_id),
      hostLink(each.from),
      hostLink(each.to),
      ...(hasStatus ? [state(each.status), each.reason ?? ""] : []),
    ],
  );
}

function staying(left) {
  return [
    note("bad", `${plural(left.length, "server")} cannot be moved.`),
    rows("Servers that cannot be moved", [["Server"], ["Host"], ["Reason"]], left, (each) => [
      serverLink(each.instance_id),
      hostLink(each.host),
      each.reason,
    ]),
  ];
}

function rows(caption, columns, all, cells) {
  return [
    table(caption, columns, all.slice(0, MAX_ROWS).map(cells)),
    all.length > MAX_ROWS ? el("p", { class: "quiet" }, `and ${all.length - MAX_ROWS} more`) : null,
  ];
}

const serverLink = (id) => link(short(id), `#/servers/${id}`);
const hostLink = (name) => link(name, `#/hosts/${encodeURIComponent(name)}`);
const some = (names) => names.slice(0, 10).join(", ") + (names.length > 10 ? ` and ${names.length - 10} more` : "");
