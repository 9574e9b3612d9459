// Groups: all of them with what is broken; and one: what it wants, where its members are, what more of them would meet.

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
          "There are no server groups yet.",
          el(
            "span",
            {},
            "Make one: ",
            el("code", {}, "openstack server group create --policy anti-affinity web"),
            ", then boot servers into it.",
          ),
        );
      }
      const columns = [["Group"], ["What it wants"], ["Servers", "number"], ["Violations"]];
      if (me.is_admin) columns.splice(1, 0, ["Project"]);
      return [
        table(
          "Server groups",
          columns,
          rows.map((each) => {
            const cells = [link(each.name, `#/groups/${each.id}`), each.words, String(each.members), verdict(each)];
            if (me.is_admin) cells.splice(1, 0, el("code", {}, each.project_id));
            return cells;
          }),
        ),
        more ? el("p", { class: "quiet" }, "There are more. Find others by name on the fleet's map.") : null,
      ];
    },
  );
}

function verdict(each) {
  if (each.hard_violations) return link(badge(`⚠ ${each.hard_violations} broken`, "bad"), `#/repair/${each.id}`);
  return each.violations ? badge(plural(each.violations, "wish", "wishes"), "busy") : badge("all hold", "good");
}

export function group(main, { id, me, page }) {
  const [shown, form, places, room] = [el("div"), el("div"), el("div"), el("div")];
  let latest = null;
  main.replaceChildren(shown, form, places, room);
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
        drawRoom(room, id);
      }
      places.replaceChildren(drawPlaces(got));
      return drawGroup(got);
    },
  );

  function closeEditor() {
    form.replaceChildren(
      button(
        "Edit the policies",
        () => {
          form.replaceChildren(
            section(
              "Policies",
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
      broken ? badge("⚠ broken", "bad") : badge("all hold", "good"),
      link("On the map", `#/fleet?group=${got.id}`),
      link("Boot one more", `#/boot?group=${got.id}`),
    ),
    section(
      "What it wants",
      el("p", { class: "words" }, got.words),
      facts([
        ["Policies", got.policies.map((policy) => el("code", { class: "tag" }, policy))],
        ["Project", el("code", {}, got.project_id)],
      ]),
    ),
    got.violations.length
      ? section(
          "What does not hold",
          violations(got.violations, namer(got), names),
          broken ? link("See how to repair it", `#/repair/${got.id}`, { class: "button" }) : null,
        )
      : null,
  ];
}

function drawPlaces(got) {
  const called = namer(got);
  const scopes = [...new Set(got.policies.map((policy) => parse(policy, got.rules).scope))];
  const wrong = new Set(got.violations.filter((each) => !each.soft).flatMap((each) => each.members));
  return section(
    "Where its servers are",
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
      : empty("No server is in this group.", link("Boot one into it", `#/boot?group=${got.id}`)),
  );
}

function members(got, scopes, called) {
  return table(
    "Members",
    [["Server"], ["Id"], ["Status"], ...scopes.map((scope) => [scope])],
    got.members.map((each) => [
      link(each.name, `#/why/${each.id}`),
      short(each.id),
      state(each.status),
      ...scopes.map((scope) => (each.places[scope] === null ? "none" : called(each.places[scope]))),
    ]),
  );
}

/** How many more servers of a flavor fit, and where some would go. */
async function drawRoom(box, id) {
  let flavors;
  try {
    ({ flavors } = await compute("GET", "flavors"));
  } catch (error) {
    return box.replaceChildren(trouble(error, () => drawRoom(box, id)));
  }
  const flavor = choice(
    { name: "flavor" },
    flavors.map((each) => [each.id, each.name]),
  );
  const count = el("input", { name: "count", type: "number", min: 1, max: 1000, value: 3 });
  const outcome = el("div", { role: "status" });

  async function look(event) {
    event?.preventDefault();
    try {
      const asked = { flavor: flavor.value, count: Number(count.value) || 1 };
      const [{ preview }, { headroom }] = await Promise.all([
        compute("POST", `os-server-groups/${id}/action`, { preview: asked }),
        compute("POST", `os-server-groups/${id}/action`, { headroom: { flavor: asked.flavor } }),
      ]);
      const all = `${headroom.at_least ? "At least " : ""}${plural(headroom.count, "more")} would fit in all.`.replace(
        "mores",
        "more",
      );
      const fits = preview.fits >= asked.count;
      outcome.replaceChildren(
        note(
          fits ? "good" : "bad",
          el("p", {}, fits ? `All ${asked.count} fit. ${all}` : `${preview.fits} of ${asked.count} fit. ${all}`),
          fits || !preview.reason ? null : el("p", {}, preview.reason),
        ),
      );
    } catch (error) {
      outcome.replaceChildren(trouble(error, look));
    }
  }

  return box.replaceChildren(
    section(
      "Room for more",
      el(
        "form",
        { class: "line", on: { submit: look } },
        field("Flavor", flavor),
        field("How many", count),
        el("button", {}, "Look"),
      ),
      outcome,
    ),
  );
}
