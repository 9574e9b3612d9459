// A group's members by domain: a box for each domain, a square for each server.

import { el, plural } from "./dom.js";
import { friendly } from "./surrogates.js";

/**
 * Returns the boxes; `members` are {id, name, place, mark}: place is the domain or null, mark is "wrong", "moved" or
 * empty; `called` returns the name of a domain.
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
      sorted.map(([place, servers]) =>
        el(
          "li",
          { class: servers.some((each) => each.mark === "wrong") ? "wrong" : "" },
          el("span", { class: "label", title: place }, place === "" ? `in no ${scope}` : name(place)),
          el(
            "span",
            { class: "squares", role: "img", "aria-label": plural(servers.length, "server") },
            servers.map((each) => el("i", { class: `square ${each.mark ?? ""}`, title: each.name })),
          ),
          el("span", { class: "count" }, String(servers.length)),
        ),
      ),
    ),
  );
}

/** Returns a function that names the domains of a group: real names for operators, display names for tenants. */
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

/** Returns a list of violations; `called` names domains, `names` servers. */
export function violations(found, called, names) {
  return el(
    "ul",
    { class: "violations" },
    found.map((each) => {
      const place = each.domain === null ? null : called(each.domain);
      return el(
        "li",
        { class: each.soft ? "soft" : "hard" },
        el("strong", {}, each.soft ? "soft" : "⚠ hard"),
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
