// Rebalancing: the plan with the fewest moves, before and after it, and its execution.

import {
  badge,
  bar,
  button,
  el,
  empty,
  heading,
  link,
  note,
  plural,
  say,
  section,
  state,
  table,
  trouble,
} from "../dom.js";
import { boxes, namer, violations } from "../domains.js";
import { live } from "../live.js";
import { compute, data } from "../net.js";
import { parse } from "../policies.js";
import { friendly } from "../surrogates.js";

export function listRebalances(main, { page }) {
  const box = el("div");
  main.replaceChildren(heading("Rebalance"), box);
  live(
    page,
    box,
    ["groups", "servers", "fleet"],
    () => data("groups", page.signal),
    ({ groups }) => {
      const broken = groups.filter((each) => each.hard_violations);
      if (!broken.length)
        return empty(
          "No group violates a hard policy.",
          "A group with violations is listed here with a plan to rebalance it.",
        );
      return table(
        "Groups with violations",
        [["Group"], ["Policies"], ["Violations"], [""]],
        broken.map((each) => [
          link(each.name, `#/groups/${each.id}`),
          each.words,
          badge(`⚠ ${each.hard_violations}`, "bad"),
          link("Plan", `#/rebalance/${each.id}`, { class: "button" }),
        ]),
      );
    },
  );
}

export function rebalance(main, { id, me, page }) {
  const outcome = el("div", { role: "status" });
  const box = el("div");
  main.replaceChildren(outcome, box);
  const refresh = live(page, box, ["groups", "servers", "fleet"], load, draw);

  async function load() {
    const [{ rebalance: plan }, group] = await Promise.all([
      act({ rebalance: { dry_run: true } }),
      data(`groups/${id}`, page.signal),
    ]);
    const scopes = [...new Set(group.policies.map((policy) => parse(policy, group.rules).scope))];
    return { plan, group, places: me.is_admin ? await domainsOf(plan, scopes) : null, scopes };
  }

  /** Returns the domain of each source and destination host by scope; only operators see host names. */
  async function domainsOf(plan, scopes) {
    const named = new Set(plan.moves.flatMap((move) => [move.from, move.to]));
    const found = {};
    for (const scope of named.size ? scopes : []) {
      const { hosts, domain_ids: ids } = await data(`fleet?scope=${encodeURIComponent(scope)}`, page.signal);
      const rows = [...hosts.name.entries()].map(([row, name]) => [name, row]).concat(Object.entries(hosts.services));
      found[scope] = Object.fromEntries(
        rows.flatMap(([name, row]) => (named.has(name) ? [[name, ids[hosts.domain[row]] ?? null]] : [])),
      );
    }
    return found;
  }

  function act(body) {
    return compute("POST", `os-server-groups/${id}/action`, body);
  }

  async function run(body, announcement) {
    try {
      await act(body);
      outcome.replaceChildren();
      say(announcement);
    } catch (error) {
      outcome.replaceChildren(trouble(error));
    }
    refresh();
  }

  function draw({ plan, group, places, scopes }) {
    const running = group.rebalance?.status === "running";
    const called = namer(group);
    const names = Object.fromEntries(group.members.map((each) => [each.id, each.name]));
    const broken = plan.violations_before.filter((each) => !each.soft);
    return [
      heading(
        `Rebalance ${group.name}`,
        broken.length ? badge(`⚠ ${plural(broken.length, "violation")}`, "bad") : badge("no violations", "good"),
        link("Group", `#/groups/${id}`),
      ),
      el("p", { class: "words" }, group.words),
      group.rebalance ? progress(group.rebalance, names) : null,
      plan.violations_before.length
        ? section("Violations", violations(plan.violations_before, called, names))
        : note("good", "The group has no violations."),
      plan.moves.length
        ? section(
            `Plan: ${plural(plan.moves.length, "move")}`,
            plan.optimal
              ? el("p", { class: "quiet" }, "This is the minimum number of moves. No step adds a violation.")
              : null,
            places ? beforeAndAfter(plan, group, places, scopes, called) : null,
            moves(plan.moves, names, 0, me),
            me.is_admin
              ? el(
                  "div",
                  { class: "buttons" },
                  button("Apply", () => run({ rebalance: {} }, "Rebalance started"), {
                    class: "first",
                    id: "apply",
                    disabled: running,
                  }),
                )
              : note("", "Only an operator can apply this plan."),
          )
        : null,
      plan.left.length
        ? note(
            "bad",
            `${plural(plan.left.length, "further move")} would help, but every order of them adds a violation.`,
          )
        : null,
      broken.length && !plan.moves.length
        ? note("bad", "No moves can remove these violations: the fleet lacks capacity. Add hosts or relax the policies.")
        : null,
    ];
  }

  function progress(rebalance, names) {
    const { moves: steps, moves_done: done, status, reason } = rebalance;
    const words = `${done} of ${plural(steps.length, "move")} done`;
    return section(
      "Latest rebalance",
      el("p", {}, state(status), " ", words, reason ? `: ${reason}` : ""),
      bar(steps.length ? done / steps.length : 1, words),
      status === "running" && me.is_admin
        ? el(
            "div",
            { class: "buttons" },
            button("Cancel", () => run({ cancel_rebalance: {} }, "The rebalance ends after the current move"), {
              id: "cancel",
            }),
          )
        : null,
      el("details", { id: "steps" }, el("summary", {}, "Moves"), moves(steps, names, done, me)),
    );
  }
}

function moves(steps, names, done, me) {
  const hosts = friendly(
    "host",
    steps.flatMap((step) => [step.from, step.to]),
  );
  const shown = (name) => (me.is_admin ? link(name, `#/hosts/${encodeURIComponent(name)}`) : hosts.get(name));
  return table(
    "Moves in order",
    [["Step", "step"], ["Server"], ["From"], ["To"]],
    steps.map((step, i) => [
      i < done ? `${i + 1} ✓` : String(i + 1),
      names[step.instance_id] ?? step.instance_id,
      shown(step.from),
      shown(step.to),
    ]),
  );
}

function beforeAndAfter(plan, group, places, scopes, called) {
  const wrong = new Set(plan.violations_before.filter((each) => !each.soft).flatMap((each) => each.members));
  const goesTo = Object.fromEntries(plan.moves.map((move) => [move.instance_id, move.to]));
  return scopes.map((scope) =>
    el(
      "div",
      { class: "pair" },
      boxes(
        `Now, by ${scope}`,
        scope,
        group.members.map((each) => ({ ...each, place: each.places[scope], mark: wrong.has(each.id) ? "wrong" : "" })),
        called,
      ),
      el("span", { class: "arrow", "aria-hidden": "true" }, "→"),
      boxes(
        `After, by ${scope}`,
        scope,
        group.members.map((each) => ({
          ...each,
          place: each.id in goesTo ? (places[scope]?.[goesTo[each.id]] ?? null) : each.places[scope],
          mark: each.id in goesTo ? "moved" : "",
        })),
        called,
      ),
    ),
  );
}
