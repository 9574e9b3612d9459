// Health: misplaced servers and hosts, unavailable hosts, workers, queues and claims.

import { badge, el, facts, heading, link, note, plural, section, state, table, when } from "../dom.js";
import { live } from "../live.js";
import { data } from "../net.js";

const MAX_ROWS = 200;

export function health(main, { page }) {
  const box = el("div");
  main.replaceChildren(heading("Health"), box);
  live(page, box, ["fleet", "servers", "actions"], () => data("health", page.signal), draw);
}

function draw(got) {
  const { jobs, claims, workers, misplaced_servers: servers, misplaced_hosts: scopes, disabled, down } = got;
  return [
    el(
      "div",
      { class: "tiles" },
      tile("Misplaced servers", servers.length, servers.length),
      tile("Hosts down", down.length, down.length),
      tile("Hosts disabled", disabled.length),
      tile("Jobs overdue", jobs.overdue, jobs.overdue),
      tile("Workers up", workers.filter((each) => each.up).length),
    ),
    section(
      "Misplaced servers",
      servers.length
        ? table(
            "Misplaced servers",
            [["Server"], ["Project"], ["Host"], ["Aggregates"]],
            cut(servers).map((each) => [
              link(each.name, `#/servers/${each.server}`),
              el("code", {}, each.project_id),
              hostLink(each.host),
              [each.aggregates].flat().join(", "),
            ]),
          )
        : note("good", "Every server is on a host that its aggregates and traits allow."),
    ),
    section(
      "Misplaced hosts",
      scopes.length
        ? scopes.map((each) =>
            el(
              "div",
              {},
              each.no_domain.length
                ? el("p", {}, el("strong", {}, `In no ${each.scope}: `), firstNames(each.no_domain))
                : null,
              each.ambiguous.length
                ? el(
                    "p",
                    {},
                    badge("⚠", "bad"),
                    el("strong", {}, ` In more than one ${each.scope}: `),
                    firstNames(each.ambiguous.map(({ name }) => name)),
                  )
                : null,
            ),
          )
        : note("good", "Every host is in exactly one domain of each scope in use."),
    ),
    section(
      "Unavailable hosts",
      disabled.length || down.length
        ? table(
            "Unavailable hosts",
            [["Host"], ["State"], ["Reason"]],
            cut([
              ...down.map((each) => [hostLink(each.name), state("down"), "forced down"]),
              ...disabled.map((each) => [hostLink(each.name), badge("disabled"), each.reason ?? ""]),
            ]),
          )
        : note("good", `All ${plural(got.hosts, "host")} are up and enabled.`),
    ),
    el(
      "div",
      { class: "columns" },
      section(
        "Workers",
        workers.length
          ? table(
              "Workers",
              [["Worker"], ["Host"], ["State"], ["Last heartbeat"]],
              workers.map((each) => [
                el("code", { title: each.id }, each.id.slice(0, 8)),
                each.host,
                state(each.up ? "up" : "down"),
                when(each.last_heartbeat),
              ]),
            )
          : note("bad", "No worker has sent a heartbeat. Run covey worker, or set [worker] threads above 0."),
      ),
      section(
        "Jobs and claims",
        facts([
          ["Jobs waiting", String(jobs.waiting)],
          ["Jobs overdue", String(jobs.overdue)],
          ["Oldest job due", when(jobs.oldest_due_at)],
          ["Notifications waiting", String(got.notifications_waiting)],
          ["Create requests", String(claims.requests)],
          ["p50", claims.p50_ms === null ? "unknown" : `${claims.p50_ms} ms`],
          ["p99", claims.p99_ms === null ? "unknown" : `${claims.p99_ms} ms`],
          ["Claim conflicts", String(claims.claim_conflicts)],
        ]),
      ),
    ),
  ];
}

const hostLink = (name) => link(name, `#/hosts/${encodeURIComponent(name)}`);
const cut = (rows) => rows.slice(0, MAX_ROWS);
const firstNames = (names) => [
  names.slice(0, 20).map((name, i) => [i ? ", " : "", hostLink(name)]),
  names.length > 20 ? ` and ${names.length - 20} more` : "",
];

function tile(title, number, bad = 0) {
  return el(
    "div",
    { class: `tile ${bad ? "bad" : ""}` },
    el("strong", {}, number.toLocaleString("en")),
    el("span", {}, title),
  );
}
