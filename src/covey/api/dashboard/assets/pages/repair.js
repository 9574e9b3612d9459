// Repair: the fewest moves that put a group right, before and after side by side; carrying them out, and stopping that.

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

export function repairs(main, { page }) {
  const box = el("div");
  main.replaceChildren(heading("Repair"), box);
  live(
    page,
    box,
    ["groups", "servers", "fleet"],
    () => data("groups", page.signal),
    ({ groups }) => {
      const broken = groups.filter((each) => each.hard_violations);
      if (!broken.length)
        return empty(
          "Every hard policy of every group holds.",
          "When one does not, the moves that mend it are planned here.",
        );
      return table(
        "Groups to repair",
        [["Group"], ["What it wants"], ["Broken"], [""]],
        broken.map((each) => [
          link(each.name, `#/groups/${each.id}`),
          each.words,
          badge(`⚠ ${each.hard_violations}`, "bad"),
          link("Plan", `#/repair/${each.id}`, { class: "button" }),
        ]),
      );
    },
  );
}

export function repair(main, { id, me, page }) {
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
    return { plan, group, places: me.is_admin ? await placesOf(plan, scopes) : null, scopes };
  }

  /** The domain of each host that somebody leaves or goes to, by scope; operators only know hosts by name. */
  async function placesOf(plan, scopes) {
    const named = new Set(plan.moves.flatMap((move) => [move.from, move.to]));
    const found = {};
    for (const scope of named.size ? scopes : []) {
      const { hosts, domain_ids: ids } = await data(`fleet?scope=${encodeURIComponent(scope)}`, page.signal);
      found[scope] = Object.fromEntries(
        hosts.name.flatMap((name, row) => (named.has(name) ? [[name, ids[hosts.domain[row]] ?? null]] : [])),
      );
    }
    return found;
  }

  function act(body) {
    return compute("POST", `os-server-groups/${id}/action`, body);
  }

  async function run(body, said) {
    try {
      await act(body);
      outcome.replaceChildren();
      say(said);
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
        `Repair ${group.name}`,
        broken.length ? badge(`⚠ ${broken.length} broken`, "bad") : badge("all hold", "good"),
        link("The group", `#/groups/${id}`),
      ),
      el("p", { class: "words" }, group.words),
      group.rebalance ? progress(group.rebalance, names) : null,
      plan.violations_before.length
        ? section("What does not hold", violations(plan.violations_before, called, names))
        : note("good", "Everything that the group wants holds. There is nothing to repair."),
      plan.moves.length
        ? section(
            `The plan: ${plural(plan.moves.length, "move")}`,
            plan.optimal
              ? el("p", { class: "quiet" }, "Fewer moves can't do it. No step breaks a policy that held.")
              : null,
            places ? beforeAndAfter(plan, group, places, scopes, called) : null,
            moves(plan.moves, names, 0, me),
            me.is_admin
              ? el(
                  "div",
                  { class: "buttons" },
                  button("Apply", () => run({ rebalance: {} }, "The repair has begun"), {
                    class: "first",
                    id: "apply",
                    disabled: running,
                  }),
                )
              : note("", "An operator can carry this out."),
          )
        : null,
      plan.left.length
        ? note(
            "bad",
            `${plural(plan.left.length, "move")} more would help, but there is no order in which they can be done.`,
          )
        : null,
      broken.length && !plan.moves.length
        ? note("bad", "No moves would mend this: the fleet has no room for it. Add hosts, or ask less of the group.")
        : null,
    ];
  }

  function progress(rebalance, names) {
    const { moves: steps, moves_done: done, status, reason } = rebalance;
    const words = `${done} of ${plural(steps.length, "move")} done`;
    return section(
      "The latest repair",
      el("p", {}, state(status), " ", words, reason ? `: ${reason}` : ""),
      bar(steps.length ? done / steps.length : 1, words),
      status === "running" && me.is_admin
        ? el(
            "div",
            { class: "buttons" },
            button("Stop", () => run({ cancel_rebalance: {} }, "The repair stops after the move under way"), {
              id: "stop",
            }),
          )
        : null,
      el("details", { id: "steps" }, el("summary", {}, "Its moves"), moves(steps, names, done, me)),
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
