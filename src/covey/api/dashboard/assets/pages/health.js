// Health: misplaced servers and hosts, unavailable hosts, agents, migrations, workers, queues and claims.

import { badge, el, facts, heading, link, note, plural, section, state, table, when } from "../dom.js";
import { live } from "../live.js";
import { data } from "../net.js";

const MAX_ROWS = 200;
const MAX_LAG_MS = 15 * 60 * 1000; // as for covey status

export function health(main, { page }) {
  const box = el("div");
  main.replaceChildren(heading("Health"), box);
  live(page, box, ["fleet", "servers", "actions"], () => data("health", page.signal), draw);
}

function draw(got) {
  const { jobs, claims, workers, misplaced_servers: servers, misplaced_hosts: scopes, disabled, down } = got;
  const { agents, migrations, nova } = got;
  const nodesDown = nova?.down ?? [];
  const allDown = down.length + nodesDown.length;
  return [
    el(
      "div",
      { class: "tiles" },
      tile("Misplaced servers", servers.length, servers.length),
      tile("Hosts down", allDown, allDown),
      tile("Hosts disabled", disabled.length),
      tile("Jobs overdue", jobs.overdue, jobs.overdue),
      tile("Workers up", workers.filter((each) => each.up).length),
      agents.length ? tile("Agents up", agents.filter((each) => each.state === "up").length) : null,
      migrations.length ? tile("Migrations running", migrations.length) : null,
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
      disabled.length || allDown
        ? table(
            "Unavailable hosts",
            [["Host"], ["State"], ["Reason"]],
            cut([
              ...down.map((each) => [hostLink(each.name), state("down"), each.forced ? "forced down" : "its agent does not report up"]),
              ...nodesDown.map((name) => [hostLink(name), state("down"), "its compute service in Nova is down"]),
              ...disabled.map((each) => [hostLink(each.name), badge("disabled"), each.reason ?? ""]),
            ]),
          )
        : note("good", `All ${plural(got.hosts, "host")} are up and enabled.`),
    ),
    nova ? section("Mirror of Nova", mirror(nova)) : null,
    migrations.length
      ? section(
          "Running migrations",
          table(
            "Running migrations",
            [["Server"], ["From"], ["To"], ["Kind"], ["Progress"]],
            cut(migrations).map((each) => [
              link(each.server, `#/servers/${each.server}`),
              hostLink(each.source),
              hostLink(each.destination),
              each.live ? "live" : "cold",
              each.percent === null
                ? "unknown"
                : [el("progress", { max: 100, value: each.percent }), ` ${each.percent} %`],
            ]),
          ),
        )
      : null,
    agents.length
      ? section(
          "Agents",
          table(
            "Agents",
            [["Host"], ["State"], ["Last heartbeat"], ["Hypervisor"], ["Version"]],
            cut(agents).map((each) => [
              hostLink(each.host),
              [state(each.state), each.fenced ? badge("fenced") : null],
              `${each.heartbeat_age_s} s ago`,
              each.hypervisor,
              each.version,
            ]),
          ),
        )
      : null,
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
          ["Jobs parked", String(jobs.parked)],
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

/** Returns the state of `covey sync nova`. */
function mirror({ url, read_at: readAt, error, warnings }) {
  const lagMs = readAt ? Date.now() - new Date(readAt) : Infinity;
  return [
    error ? note("bad", `Nova could not be read: ${error}`) : null,
    !error && lagMs > MAX_LAG_MS ? note("bad", "Nova was not read for long: is covey sync nova running?") : null,
    cut(warnings).map((each) => note("bad", each)),
    facts([
      ["Nova", el("code", {}, url)],
      ["Last reading", when(readAt)],
    ]),
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
