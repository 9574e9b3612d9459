// Server groups with their violations; one group with its policies, members and headroom.

import {
  badge,
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
  section,
  short,
  state,
  table,
  trouble,
} from "../dom.js";
import { boxes, namer, violations } from "../domains.js";
import { live } from "../live.js";
import { compute, data } from "../net.js";
import { editor, parse } from "../policies.js";

export function groups(main, { me, page }) {
  const box = el("div");
  main.replaceChildren(heading("Groups", link("Boot a server", "#/boot", { class: "button" })), box);
  live(
    page,
    box,
    ["groups", "servers", "fleet"],
    () => data("groups", page.signal),
    ({ groups: rows, more }) => {
      if (!rows.length) {
        return empty(
          "No server groups.",
          el(
            "span",
            {},
            "Create one: ",
            el("code", {}, "openstack server group create --policy anti-affinity web"),
            ", then boot servers into it.",
          ),
        );
      }
      const columns = [["Group"], ["Policies"], ["Servers", "number"], ["Violations"]];
      if (me.is_admin) columns.splice(1, 0, ["Project"]);
      return [
        table(
          "Server groups",
          columns,
          rows.map((each) => {
            const cells = [link(each.name, `#/groups/${each.id}`), each.words, String(each.members), violationBadge(each)];
            if (me.is_admin) cells.splice(1, 0, el("code", {}, each.project_id));
            return cells;
          }),
        ),
        more ? el("p", { class: "quiet" }, "More groups exist. Search them by name on the fleet map.") : null,
      ];
    },
  );
}

function violationBadge(each) {
  if (each.hard_violations) return link(badge(`⚠ ${each.hard_violations} hard`, "bad"), `#/rebalance/${each.id}`);
  return each.violations ? badge(`${each.violations} soft`, "busy") : badge("none", "good");
}

export function group(main, { id, me, page }) {
  const [shown, form, places, headroom] = [el("div"), el("div"), el("div"), el("div")];
  let latest = null;
  main.replaceChildren(shown, form, places, headroom);
  const refresh = live(
    page,
    shown,
    ["groups", "servers", "fleet"],
    () => data(`groups/${id}`, page.signal),
    (got) => {
      const first = latest === null;
      latest = got;
      if (first) {
        closeEditor();
        drawHeadroom(headroom, id);
      }
      places.replaceChildren(drawPlaces(got));
      return drawGroup(got);
    },
  );

  function closeEditor() {
    form.replaceChildren(
      button(
        "Edit policies",
        () => {
          form.replaceChildren(
            section(
              "Edit policies",
              editor(
                latest,
                me.scopes,
                () => {
                  closeEditor();
                  refresh();
                },
                page.signal,
              ),
            ),
          );
          form.querySelector("select")?.focus();
        },
        { id: "edit" },
      ),
    );
  }
}

function drawGroup(got) {
  const names = Object.fromEntries(got.members.map((each) => [each.id, each.name]));
  const broken = got.violations.some((each) => !each.soft);
  return [
    heading(
      got.name,
      broken ? badge("⚠ violated", "bad") : badge("no violations", "good"),
      link("Show on the map", `#/fleet?group=${got.id}`),
      link("Boot a member", `#/boot?group=${got.id}`),
    ),
    section(
      "Policies",
      el("p", { class: "words" }, got.words),
      facts([
        ["Policy strings", got.policies.map((policy) => el("code", { class: "tag" }, policy))],
        ["Project", el("code", {}, got.project_id)],
      ]),
    ),
    got.violations.length
      ? section(
          "Violations",
          violations(got.violations, namer(got), names),
          broken ? link("Plan a rebalance", `#/rebalance/${got.id}`, { class: "button" }) : null,
        )
      : null,
  ];
}

function drawPlaces(got) {
  const called = namer(got);
  const scopes = [...new Set(got.policies.map((policy) => parse(policy, got.rules).scope))];
  const wrong = new Set(got.violations.filter((each) => !each.soft).flatMap((each) => each.members));
  return section(
    "Members",
    got.members.length
      ? [
          el(
            "div",
            { class: "sideways" },
            scopes.map((scope) =>
              boxes(
                `by ${scope}`,
                scope,
                got.members.map((each) => ({
                  ...each,
                  place: each.places[scope],
                  mark: wrong.has(each.id) ? "wrong" : "",
                })),
                called,
              ),
            ),
          ),
          members(got, scopes, called),
        ]
      : empty("No members.", link("Boot a member", `#/boot?group=${got.id}`)),
  );
}

function members(got, scopes, called) {
  return table(
    "Members",
    [["Server"], ["Id"], ["Status"], ...scopes.map((scope) => [scope])],
    got.members.map((each) => [
      link(each.name, `#/servers/${each.id}`),
      short(each.id),
      state(each.status),
      ...scopes.map((scope) => (each.places[scope] === null ? "none" : called(each.places[scope]))),
    ]),
  );
}

/** Shows how many further servers of a flavor fit. */
async function drawHeadroom(box, id) {
  let flavors;
  try {
    ({ flavors } = await compute("GET", "flavors"));
  } catch (error) {
    return box.replaceChildren(trouble(error, () => drawHeadroom(box, id)));
  }
  const flavor = choice(
    { name: "flavor" },
    flavors.map((each) => [each.id, each.name]),
  );
  const count = el("input", { name: "count", type: "number", min: 1, max: 1000, value: 3 });
  const outcome = el("div", { role: "status" });

  async function preview(event) {
    event?.preventDefault();
    try {
      const request = { flavor: flavor.value, count: Number(count.value) || 1 };
      const [{ preview: found }, { headroom }] = await Promise.all([
        compute("POST", `os-server-groups/${id}/action`, { preview: request }),
        compute("POST", `os-server-groups/${id}/action`, { headroom: { flavor: request.flavor } }),
      ]);
      const total = `Headroom: ${headroom.at_least ? "at least " : ""}${plural(headroom.count, "server")}.`;
      const fits = found.fits >= request.count;
      outcome.replaceChildren(
        note(
          fits ? "good" : "bad",
          el("p", {}, fits ? `All ${request.count} fit. ${total}` : `${found.fits} of ${request.count} fit. ${total}`),
          fits || !found.reason ? null : el("p", {}, found.reason),
        ),
      );
    } catch (error) {
      outcome.replaceChildren(trouble(error, preview));
    }
  }

  return box.replaceChildren(
    section(
      "Headroom",
      el(
        "form",
        { class: "line", on: { submit: preview } },
        field("Flavor", flavor),
        field("Count", count),
        el("button", {}, "Preview"),
      ),
      outcome,
    ),
  );
}
