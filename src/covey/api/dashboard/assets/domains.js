// A group's members in their places: a small box for each domain, a square for each server.

import { el, plural } from "./dom.js";
import { friendly } from "./surrogates.js";

/**
 * Boxes of the places; `members` are {id, name, place, mark} with a place of null for none, and mark "wrong", "moved"
 * or nothing; `called` gives a place's name.
 */
export function boxes(title, scope, members, called) {
  const places = new Map();
  for (const member of members) {
    const place = member.place ?? "";
    places.set(place, [...(places.get(place) ?? []), member]);
  }
  const name = (place) => called(place) ?? place;
  const sorted = [...places].sort(
    ([a], [b]) => (a === "") - (b === "") || name(a).localeCompare(name(b), "en", { numeric: true }),
  );
  return el(
    "figure",
    { class: "boxes" },
    el("figcaption", {}, title),
    el(
      "ul",
      {},
      sorted.map(([place, some]) =>
        el(
          "li",
          { class: some.some((each) => each.mark === "wrong") ? "wrong" : "" },
          el("span", { class: "label", title: place }, place === "" ? `in no ${scope}` : name(place)),
          el(
            "span",
            { class: "squares", role: "img", "aria-label": plural(some.length, "server") },
            some.map((each) => el("i", { class: `square ${each.mark ?? ""}`, title: each.name })),
          ),
          el("span", { class: "count" }, String(some.length)),
        ),
      ),
    ),
  );
}

/** What places of a group are called: as operators named them, or by what stands for a name with tenants. */
export function namer(group) {
  const names = new Map(Object.entries(group.domain_names));
  const scopes = new Set(group.members.flatMap((each) => Object.keys(each.places)));
  for (const scope of scopes) {
    const known = friendly(
      scope,
      group.members.map((each) => each.places[scope]),
    );
    for (const [id, name] of known) if (!names.has(id)) names.set(id, name);
  }
  return (place) => names.get(place) ?? null;
}

/** What does not hold, each in a sentence; `called` names places, `names` servers. */
export function violations(found, called, names) {
  return el(
    "ul",
    { class: "violations" },
    found.map((each) => {
      const place = each.domain === null ? null : called(each.domain);
      return el(
        "li",
        { class: each.soft ? "soft" : "hard" },
        el("strong", {}, each.soft ? "wish" : "⚠ broken"),
        " ",
        el("code", {}, each.policy),
        " ",
        each.reason,
        place ? el("span", { class: "quiet" }, ` (${place})`) : "",
        el("div", { class: "quiet small" }, each.members.map((id) => names[id] ?? id).join(", ")),
      );
    }),
  );
}
