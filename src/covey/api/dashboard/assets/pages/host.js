// One host: its inventories, allocations, domains, aggregates and traits.

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
      link("Drain", `#/drains?scope=host&domain=${encodeURIComponent(shown.name)}`),
      link("Fleet", "#/fleet"),
    ),
    el(
      "div",
      { class: "columns" },
      section(
        "Inventory",
        Object.entries(shown.inventories).map(([kind, amounts]) => inventory(kind, amounts)),
      ),
      section(
        "Topology",
        facts([
          ["Availability zone", shown.zone ?? "default"],
          ...places.map(([scope, name]) => [scope, link(name, `#/fleet?scope=${encodeURIComponent(scope)}`)]),
          [
            "Aggregates",
            shown.aggregates.length
              ? shown.aggregates.map((each) => el("div", {}, each.name, " ", metadata(each.metadata)))
              : "none",
          ],
          ["Traits", shown.traits.length ? shown.traits.map((trait) => el("code", { class: "tag" }, trait)) : "none"],
          ...(shown.disabled ? [["Disabled reason", shown.disabled_reason ?? "none given"]] : []),
        ]),
      ),
    ),
    section(
      "Allocations",
      shown.allocations.length ? allocations(shown.allocations) : empty("No allocations."),
    ),
  ];
}

function inventory(kind, amounts) {
  const { used, capacity, total, allocation_ratio: ratio } = amounts;
  const words = `${amount(kind, used)} of ${amount(kind, capacity)}`;
  const share = capacity ? used / capacity : 0;
  const overcommit = ratio === 1 ? "" : ` (${amount(kind, total)} × ${ratio})`;
  return el(
    "div",
    { class: "stock" },
    el("span", {}, NAMES[kind] ?? kind),
    el("span", { class: "number" }, words, el("small", {}, overcommit)),
    bar(share, words, share > 0.9 ? "full" : ""),
  );
}

function allocations(held) {
  const kinds = [...new Set(held.flatMap((each) => Object.keys(each.resources)))];
  return table(
    "Allocations",
    [["Server"], ["Project"], ...kinds.map((kind) => [NAMES[kind] ?? kind, "number"])],
    held.map((each) => [
      each.name ? link(each.name, `#/servers/${each.consumer}`) : el("code", {}, each.consumer),
      el("code", {}, each.project_id),
      ...kinds.map((kind) => amount(kind, each.resources[kind] ?? 0)),
    ]),
  );
}

function metadata(values) {
  return Object.entries(values).map(([key, value]) => el("code", { class: "tag" }, `${key}=${value}`));
}
