// Why a server has no place, and what would help; or why it is where it is.

import {
  badge,
  bar,
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
  when,
} from "../dom.js";
import { live } from "../live.js";
import { compute, data } from "../net.js";

const MOST = 100;

export function whys(main, { me, page, go }) {
  const [refused, placed] = [el("div"), el("div")];
  const wanted = el("input", { type: "search", name: "id", placeholder: "Id of a server", required: true });
  const form = el(
    "form",
    {
      class: "line",
      on: {
        submit: (event) => {
          event.preventDefault();
          go(`#/why/${encodeURIComponent(wanted.value.trim())}`);
        },
      },
    },
    field("Look one up", wanted),
    el("button", {}, "Why?"),
  );
  main.replaceChildren(
    heading("Why", link("Boot a server", "#/boot", { class: "button" })),
    section("Refused", refused),
    section("Servers", form, placed),
  );
  live(
    page,
    refused,
    ["servers"],
    () => data("refusals", page.signal),
    ({ refusals }) =>
      refusals.length
        ? table(
            "Refused servers",
            [["Server"], ["Flavor"], ["Asked"], ["Why"]],
            refusals.map((each) => [
              link(each.name, `#/why/${each.id}`),
              each.flavor,
              when(each.created_at),
              each.fault ?? "",
            ]),
          )
        : empty("Every server that was asked for has found a host."),
  );
  const all = me.is_admin ? "&all_tenants=1" : "";
  live(
    page,
    placed,
    ["servers", "fleet"],
    async () =>
      (await compute("GET", `servers/detail?limit=${MOST}${all}`)).servers.map(
        ({ id, name, status, flavor, created }) => ({ id, name, status, flavor: flavor.original_name, created }),
      ),
    (servers) =>
      servers.length
        ? table(
            "Servers",
            [["Server"], ["Id"], ["Flavor"], ["Status"], ["Asked"]],
            servers.map((each) => [
              link(each.name, `#/why/${each.id}`),
              short(each.id),
              each.flavor,
              state(each.status),
              when(each.created),
            ]),
          )
        : empty("There are no servers.", link("Boot one", "#/boot")),
  );
}

export function why(main, { id, page }) {
  const path = `servers/${encodeURIComponent(id)}/why`;
  live(
    page,
    main,
    ["servers", "fleet", "groups"],
    () => data(path, page.signal),
    (got) => [
      heading(got.name, state(got.status), link("All servers", "#/why")),
      got.refused ? refusal(got) : got.status === "BUILD" ? note("", "It has a host, and is being built there.") : null,
      !got.refused && got.fault ? note("bad", el("p", {}, got.fault)) : null,
      section(
        got.refused ? "What was asked for" : "Why it is where it is",
        got.refused ? null : placement(got.placement, got.group_id),
        facts([
          ["Id", el("code", {}, got.id)],
          ["Flavor", got.flavor],
          ["Asked", when(got.created_at)],
          ["Project", el("code", {}, got.project_id)],
          ["Group", got.group_id ? link("its group", `#/groups/${got.group_id}`) : "none"],
        ]),
      ),
    ],
  );
}

function refusal(got) {
  const counted = got.reasons.filter((each) => each.hosts !== null);
  return [
    note("bad", el("p", {}, got.fault)),
    got.fits_now ? note("good", "Things have changed: asked for again now, it would fit.") : null,
    section(
      "What stood against every host",
      counted.length
        ? el(
            "ol",
            { class: "reasons" },
            counted.map((each) =>
              el(
                "li",
                {},
                el("span", { class: "number" }, String(each.hosts)),
                el("span", {}, each.reason),
                bar(each.hosts / got.hosts, `${each.hosts} of ${got.hosts} hosts: ${each.reason}`, "lost"),
              ),
            ),
            el(
              "li",
              { class: "sum" },
              el("span", { class: "number" }, String(got.hosts)),
              el("span", {}, "hosts in all"),
              el("span"),
            ),
          )
        : got.reasons.length
          ? el(
              "ul",
              {},
              got.reasons.map((each) => el("li", {}, each.reason)),
            )
          : empty("The operator of this cloud does not tell reasons."),
    ),
    section(
      "The smallest change that would let it fit",
      got.smallest_changes.length
        ? el(
            "ul",
            { class: "changes" },
            got.smallest_changes.map((words) => el("li", {}, `It would fit ${words}.`)),
          )
        : empty(got.fits_now ? "None is needed any more." : "No single change would be enough."),
    ),
  ];
}

function placement({ decision, host, moving_to: next, hostId }, group) {
  const some =
    decision.hosts === undefined
      ? "Some hosts could take it"
      : `Of ${plural(decision.hosts, "host")}, ${decision.candidates} could take it`;
  return [
    el(
      "p",
      {},
      host
        ? ["It is on ", link(host, `#/hosts/${encodeURIComponent(host)}`), next ? ` and moving to ${next}` : "", "."]
        : hostId
          ? ["It is on a host that you know as ", short(hostId), "."]
          : "It has no place.",
    ),
    el("p", {}, `${some}; ${group ? "the group's wishes and " : ""}free room ranked those, and this one came first.`),
    decision.attempts > 1
      ? el(
          "p",
          { class: "quiet" },
          badge(plural(decision.attempts, "attempt"), "busy"),
          " Hosts before this one failed, or were taken meanwhile.",
        )
      : null,
  ];
}
