// Clusters: their sizes and actions, and scaling one.

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
const FINISHED = ["SUCCEEDED", "FAILED", "CANCELLED"];
const MAX_ACTIONS = 60;

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
            [["Cluster"], ["Size", "number"], ["Desired", "number"], ["Bounds"], ["Policies", "number"], ["Status"]],
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
            "No clusters.",
            el(
              "span",
              {},
              "Create a profile and a cluster: ",
              el("code", {}, "openstack cluster create --profile web web"),
            ),
          ),
  );
}

const bounds = ({ min_size: least, max_size: most }) => (most < 0 ? `${least} or more` : `${least} to ${most}`);

export function cluster(main, { id, page }) {
  const [outcome, shown] = [el("div", { role: "status" }), el("div")];
  main.replaceChildren(outcome, shown);
  let requested = null; // the action that a button has started last
  const refresh = live(page, shown, SUBJECTS, load, draw);

  async function load() {
    const of = `cluster_id=${id}`;
    const [one, nodes, actions, policies] = await Promise.all([
      clustering("GET", `clusters/${id}`),
      clustering("GET", `nodes?${of}`),
      clustering("GET", `actions?${of}&sort=created_at:desc&limit=${MAX_ACTIONS}`),
      clustering("GET", `clusters/${id}/policies`),
    ]);
    return { ...one, ...nodes, ...actions, policies: policies.cluster_policies };
  }

  async function scale(verb, words) {
    outcome.replaceChildren();
    try {
      ({ action: requested } = await clustering("POST", `clusters/${id}/actions`, { [verb]: { count: 1 } }));
      say(words);
    } catch (error) {
      outcome.replaceChildren(trouble(error));
    }
    refresh();
  }

  function draw({ cluster: one, nodes, actions, policies }) {
    const last = actions.find((each) => each.id === requested);
    if (last?.status === "FAILED")
      outcome.replaceChildren(note("bad", el("p", {}, `The action failed: ${last.status_reason}`)));
    const tops = actions.filter((each) => each.cause !== "Derived Action");
    return [
      heading(one.name, state(one.status), link("All clusters", "#/clusters")),
      section(
        "Size",
        el(
          "div",
          { class: "stepper" },
          button("−", () => scale("scale_in", "Scale-in requested"), {
            id: "shrink",
            "aria-label": "Remove a node",
            disabled: !nodes.length,
          }),
          el("output", { "aria-label": "Number of nodes" }, String(nodes.length)),
          button("+", () => scale("scale_out", "Scale-out requested"), {
            id: "grow",
            "aria-label": "Add a node",
          }),
          el("span", { class: "quiet" }, `desired ${one.desired_capacity}, bounds ${bounds(one)}`),
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
                each.physical_id ? link(short(each.physical_id), `#/servers/${each.physical_id}`) : "none yet",
                state(each.status),
                when(each.created_at ?? each.init_at),
              ]),
            )
          : empty("No nodes.", "Press + to add one."),
      ),
      section(
        "Actions",
        tops.length
          ? table(
              "Actions",
              [["Action"], ["Status"], ["Progress"], ["Started"], ["Reason"]],
              tops.map((each) => [
                words(each.action),
                state(each.status),
                progress(each, actions),
                when(each.created_at),
                each.status_reason,
              ]),
            )
          : empty("No actions."),
      ),
    ];
  }
}

const words = (verb) =>
  verb
    .replace(/^CLUSTER_/, "")
    .toLowerCase()
    .replaceAll("_", " ");

/** Returns the progress of an action: how many of its child actions have finished. */
function progress(action, actions) {
  const children = actions.filter((each) => action.depends_on.includes(each.id));
  if (FINISHED.includes(action.status)) return bar(1, "finished", action.status === "SUCCEEDED" ? "" : "full");
  const done = children.filter((each) => FINISHED.includes(each.status)).length;
  return bar(
    children.length ? done / children.length : 0.1,
    children.length ? `${done} of ${plural(children.length, "child action")}` : "in progress",
    "moving",
  );
}
