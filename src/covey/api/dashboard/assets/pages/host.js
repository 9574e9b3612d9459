// One host: how full it is, who is on it, where it stands and what it can do.

import { amount, badge, bar, el, empty, facts, heading, link, section, state, table } from "../dom.js";
import { live } from "../live.js";
import { data } from "../net.js";

const NAMES = { VCPU: "VCPUs", MEMORY_MB: "Memory", DISK_GB: "Disk" };

export function host(main, { id, page }) {
  live(page, main, ["fleet", "servers"], () => data(`hosts/${encodeURIComponent(id)}`, page.signal), draw);
}

function draw(shown) {
  const places = Object.entries(shown.domains);
  return [
    heading(
      shown.name,
      state(shown.up ? "up" : "down"),
      shown.disabled ? badge("disabled", "bad") : null,
      link("Back to the map", "#/fleet"),
    ),
    el(
      "div",
      { class: "columns" },
      section(
        "How full it is",
        Object.entries(shown.inventories).map(([kind, stock]) => inventory(kind, stock)),
      ),
      section(
        "Where it is",
        facts([
          ["Zone", shown.zone ?? "none of its own"],
          ...places.map(([scope, name]) => [scope, link(name, `#/fleet?scope=${encodeURIComponent(scope)}`)]),
          [
            "Aggregates",
            shown.aggregates.length
              ? shown.aggregates.map((each) => el("div", {}, each.name, " ", metadata(each.metadata)))
              : "none",
          ],
          ["Traits", shown.traits.length ? shown.traits.map((trait) => el("code", { class: "tag" }, trait)) : "none"],
          ...(shown.disabled ? [["Disabled because", shown.disabled_reason ?? "nobody said why"]] : []),
        ]),
      ),
    ),
    section(
      "What is on it",
      shown.allocations.length ? allocations(shown.allocations) : empty("Nothing is on this host."),
    ),
  ];
}

function inventory(kind, stock) {
  const words = `${amount(kind, stock.used)} of ${amount(kind, stock.capacity)}`;
  const share = stock.capacity ? stock.used / stock.capacity : 0;
  const more = stock.allocation_ratio === 1 ? "" : ` (${amount(kind, stock.total)} × ${stock.allocation_ratio})`;
  return el(
    "div",
    { class: "stock" },
    el("span", {}, NAMES[kind] ?? kind),
    el("span", { class: "number" }, words, el("small", {}, more)),
    bar(share, words, share > 0.9 ? "full" : ""),
  );
}

function allocations(held) {
  const kinds = [...new Set(held.flatMap((each) => Object.keys(each.resources)))];
  return table(
    "Allocations",
    [["Server"], ["Project"], ...kinds.map((kind) => [NAMES[kind] ?? kind, "number"])],
    held.map((each) => [
      each.name ? link(each.name, `#/why/${each.consumer}`) : el("code", {}, each.consumer),
      el("code", {}, each.project_id),
      ...kinds.map((kind) => amount(kind, each.resources[kind] ?? 0)),
    ]),
  );
}

function metadata(values) {
  return Object.entries(values).map(([key, value]) => el("code", { class: "tag" }, `${key}=${value}`));
}
