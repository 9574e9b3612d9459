// Servers: refusals with their reasons and remedies, and the explanation of a placement.

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

const PAGE_SIZE = 100;

export function listServers(main, { me, page, go }) {
  const [refused, placed, instances] = [el("div"), el("div"), el("div", { hidden: true })];
  const serverId = el("input", { type: "search", name: "id", placeholder: "Server id", required: true });
  const form = el(
    "form",
    {
      class: "line",
      on: {
        submit: (event) => {
          event.preventDefault();
          go(`#/servers/${encodeURIComponent(serverId.value.trim())}`);
        },
      },
    },
    field("Find by id", serverId),
    el("button", {}, "Show"),
  );
  main.replaceChildren(
    heading("Servers", link("Boot a server", "#/boot", { class: "button" })),
    section("Refused servers", refused),
    section("All servers", form, placed),
    instances,
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
            [["Server"], ["Flavor"], ["Time"], ["Reason"]],
            refusals.map((each) => [
              link(each.name, `#/servers/${each.id}`),
              each.in_nova ? "in Nova" : each.flavor,
              when(each.created_at),
              each.fault ?? "",
            ]),
          )
        : empty("No server was refused."),
  );
  const all = me.is_admin ? "&all_tenants=1" : "";
  live(
    page,
    placed,
    ["servers", "fleet"],
    async () =>
      (await compute("GET", `servers/detail?limit=${PAGE_SIZE}${all}`)).servers.map(
        ({ id, name, status, flavor, created }) => ({ id, name, status, flavor: flavor.original_name, created }),
      ),
    (servers) =>
      servers.length
        ? table(
            "Servers",
            [["Server"], ["Id"], ["Flavor"], ["Status"], ["Created"]],
            servers.map((each) => [
              link(each.name, `#/servers/${each.id}`),
              short(each.id),
              each.flavor,
              state(each.status),
              when(each.created),
            ]),
          )
        : empty("No servers.", link("Boot a server", "#/boot")),
  );
  live(page, instances, ["fleet", "groups"], () => data(`instances?limit=${PAGE_SIZE}`, page.signal), (got) => {
    instances.hidden = !got.instances.length;
    return section("Servers in Nova", listInstances(got));
  });
}

function listInstances({ instances, more }) {
  return [
    table(
      "Servers in Nova",
      [["Server"], ["Id"], ["Status"], ["Project"], ["Group"]],
      instances.map((each) => [
        link(each.name, `#/servers/${each.id}`),
        short(each.id),
        state(each.status),
        el("code", {}, each.project_id),
        each.group_id ? link(short(each.group_id), `#/groups/${each.group_id}`) : "none",
      ]),
    ),
    more ? el("p", { class: "quiet" }, "More servers exist. Find them by id.") : null,
  ];
}

export function server(main, { id, page }) {
  const path = `servers/${encodeURIComponent(id)}/why`;
  live(
    page,
    main,
    ["servers", "fleet", "groups"],
    () => data(path, page.signal),
    (got) => (got.in_nova ? instance(got) : ownServer(got)),
  );
}

function ownServer(got) {
  return [
    heading(got.name, state(got.status), link("All servers", "#/servers")),
    got.refused ? refusal(got) : got.status === "BUILD" ? note("", "The server has a host and is being built.") : null,
    !got.refused && got.fault ? note("bad", el("p", {}, got.fault)) : null,
    section(
      got.refused ? "Request" : "Placement",
      got.refused ? null : placement(got.placement, got.group_id),
      facts([
        ["Id", el("code", {}, got.id)],
        ["Flavor", got.flavor],
        ["Created", when(got.created_at)],
        ["Project", el("code", {}, got.project_id)],
        ["Group", got.group_id ? link(short(got.group_id), `#/groups/${got.group_id}`) : "none"],
      ]),
    ),
  ];
}

/** Returns the page of a server that Nova runs. */
function instance(got) {
  const nodes = got.compute_nodes.map((name, i) => [i ? ", " : "", link(name, `#/hosts/${encodeURIComponent(name)}`)]);
  return [
    heading(got.name, state(got.status), badge("in Nova"), link("All servers", "#/servers")),
    got.refused ? [note("bad", el("p", {}, got.fault)), countedReasons(got)] : null,
    got.refused && got.placed ? note("good", "The server has a host: a later request succeeded.") : null,
    section(
      "Placement",
      facts([
        ["Host", nodes.length ? nodes : got.placed ? "placed" : "none"],
        ["Id", el("code", {}, got.id)],
        ["Project", el("code", {}, got.project_id)],
        ["Group", got.group_id ? link(short(got.group_id), `#/groups/${got.group_id}`) : "none"],
        ...(got.refused ? [["Refused", when(got.created_at)]] : []),
      ]),
    ),
  ];
}

function refusal(got) {
  return [
    note("bad", el("p", {}, got.fault)),
    got.fits_now ? note("good", "The fleet has changed: the same request would fit now.") : null,
    countedReasons(got),
    section(
      "Smallest changes that would make it fit",
      got.smallest_changes.length
        ? el(
            "ul",
            { class: "changes" },
            got.smallest_changes.map((words) => el("li", {}, `The server would fit ${words}.`)),
          )
        : empty(got.fits_now ? "No change is needed." : "No single change is enough."),
    ),
  ];
}

function countedReasons(got) {
  const counted = got.reasons.filter((each) => each.hosts !== null);
  return section(
    "Reasons by number of hosts",
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
            el("span", {}, "hosts in total"),
            el("span"),
          ),
        )
      : got.reasons.length
        ? el(
            "ul",
            {},
            got.reasons.map((each) => el("li", {}, each.reason)),
          )
        : empty("The operator does not disclose reasons."),
  );
}

function placement({ decision, host, moving_to: next, hostId }, group) {
  const candidates =
    decision.hosts === undefined
      ? "Several hosts were candidates"
      : `${decision.candidates} of ${plural(decision.hosts, "host")} were candidates`;
  return [
    el(
      "p",
      {},
      host
        ? ["Host: ", link(host, `#/hosts/${encodeURIComponent(host)}`), next ? `, moving to ${next}` : "", "."]
        : hostId
          ? ["Host id: ", short(hostId), "."]
          : "The server has no host.",
    ),
    el("p", {}, `${candidates}; ${group ? "soft policies and " : ""}free capacity ranked this host first.`),
    decision.attempts > 1
      ? el(
          "p",
          { class: "quiet" },
          badge(plural(decision.attempts, "attempt"), "busy"),
          " Earlier attempts failed or lost a claim conflict.",
        )
      : null,
  ];
}
