// Clusters: how large they are and shall be, what is being done to them, and growing and shrinking one.

import {
  bar,
  button,
  el,
  empty,
  facts,
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
import { clustering } from "../net.js";

const SUBJECTS = ["actions", "servers"];
const OVER = ["SUCCEEDED", "FAILED", "CANCELLED"];
const MOST_ACTIONS = 60;

export function clusters(main, { me, page }) {
  const box = el("div");
  main.replaceChildren(heading("Clusters"), box);
  live(
    page,
    box,
    SUBJECTS,
    () => clustering("GET", `clusters${me.is_admin ? "?global_project=true" : ""}`),
    ({ clusters: rows }) =>
      rows.length
        ? table(
            "Clusters",
            [["Cluster"], ["Size", "number"], ["Wanted", "number"], ["Bounds"], ["Policies", "number"], ["Status"]],
            rows.map((each) => [
              link(each.name, `#/clusters/${each.id}`),
              String(each.nodes.length),
              String(each.desired_capacity),
              bounds(each),
              String(each.policies.length),
              state(each.status),
            ]),
          )
        : empty(
            "There are no clusters yet.",
            el(
              "span",
              {},
              "Make a profile and a cluster of it: ",
              el("code", {}, "openstack cluster create --profile web web"),
            ),
          ),
  );
}

const bounds = ({ min_size: least, max_size: most }) => (most < 0 ? `${least} or more` : `${least} to ${most}`);

export function cluster(main, { id, page }) {
  const [outcome, shown] = [el("div", { role: "status" }), el("div")];
  main.replaceChildren(outcome, shown);
  let asked = null; // the action that the buttons started last
  const refresh = live(page, shown, SUBJECTS, load, draw);

  async function load() {
    const of = `cluster_id=${id}`;
    const [one, nodes, actions, policies] = await Promise.all([
      clustering("GET", `clusters/${id}`),
      clustering("GET", `nodes?${of}`),
      clustering("GET", `actions?${of}&sort=created_at:desc&limit=${MOST_ACTIONS}`),
      clustering("GET", `clusters/${id}/policies`),
    ]);
    return { ...one, ...nodes, ...actions, policies: policies.cluster_policies };
  }

  async function scale(verb, words) {
    outcome.replaceChildren();
    try {
      ({ action: asked } = await clustering("POST", `clusters/${id}/actions`, { [verb]: { count: 1 } }));
      say(words);
    } catch (error) {
      outcome.replaceChildren(trouble(error));
    }
    refresh();
  }

  function draw({ cluster: one, nodes, actions, policies }) {
    const last = actions.find((each) => each.id === asked);
    if (last?.status === "FAILED")
      outcome.replaceChildren(note("bad", el("p", {}, `That did not work: ${last.status_reason}`)));
    const tops = actions.filter((each) => each.cause !== "Derived Action");
    return [
      heading(one.name, state(one.status), link("All clusters", "#/clusters")),
      section(
        "Size",
        el(
          "div",
          { class: "stepper" },
          button("−", () => scale("scale_in", "One fewer was asked for"), {
            id: "shrink",
            "aria-label": "One node fewer",
            disabled: !nodes.length,
          }),
          el("output", { "aria-label": "Number of nodes" }, String(nodes.length)),
          button("+", () => scale("scale_out", "One more was asked for"), {
            id: "grow",
            "aria-label": "One node more",
          }),
          el("span", { class: "quiet" }, `${one.desired_capacity} wanted, ${bounds(one)}`),
        ),
        one.status_reason ? el("p", { class: "quiet" }, one.status_reason) : null,
        facts([
          ["Profile", one.profile_name],
          ["Id", el("code", {}, one.id)],
          [
            "Policies",
            policies.length
              ? policies.map((each) =>
                  el(
                    "span",
                    { class: "tag" },
                    `${each.policy_name} (${each.policy_type}${each.enabled ? "" : ", off"})`,
                  ),
                )
              : "none",
          ],
        ]),
      ),
      section(
        "Nodes",
        nodes.length
          ? table(
              "Nodes",
              [["Node"], ["Server"], ["Status"], ["Since"]],
              nodes.map((each) => [
                each.name,
                each.physical_id ? link(short(each.physical_id), `#/why/${each.physical_id}`) : "none yet",
                state(each.status),
                when(each.created_at ?? each.init_at),
              ]),
            )
          : empty("No nodes.", "Plus adds one."),
      ),
      section(
        "What was done to it",
        tops.length
          ? table(
              "Actions",
              [["Action"], ["Status"], ["How far"], ["Begun"], ["Said"]],
              tops.map((each) => [
                words(each.action),
                state(each.status),
                how(each, actions),
                when(each.created_at),
                each.status_reason,
              ]),
            )
          : empty("Nothing yet."),
      ),
    ];
  }
}

const words = (verb) =>
  verb
    .replace(/^CLUSTER_/, "")
    .toLowerCase()
    .replaceAll("_", " ");

/** How many of an action's own parts are over. */
function how(action, actions) {
  const parts = actions.filter((each) => action.depends_on.includes(each.id));
  if (OVER.includes(action.status)) return bar(1, "over", action.status === "SUCCEEDED" ? "" : "full");
  const done = parts.filter((each) => OVER.includes(each.status)).length;
  return bar(
    parts.length ? done / parts.length : 0.1,
    parts.length ? `${done} of ${plural(parts.length, "part")}` : "under way",
    "moving",
  );
}
