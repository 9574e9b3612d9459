// Health and isolation: what wants an operator's attention, and how much is waiting.

import { badge, el, facts, heading, link, note, plural, section, state, table, when } from "../dom.js";
import { live } from "../live.js";
import { data } from "../net.js";

const MOST = 200;

export function health(main, { page }) {
  const box = el("div");
  main.replaceChildren(heading("Isolation and health"), box);
  live(page, box, ["fleet", "servers", "actions"], () => data("health", page.signal), draw);
}

function draw(got) {
  const { jobs, claims, workers, strays, misplaced, disabled, down } = got;
  return [
    el(
      "div",
      { class: "tiles" },
      tile("Servers where they may not be", strays.length, strays.length),
      tile("Hosts down", down.length, down.length),
      tile("Hosts disabled", disabled.length),
      tile("Jobs overdue", jobs.overdue, jobs.overdue),
      tile("Workers up", workers.filter((each) => each.up).length),
    ),
    section(
      "Isolation",
      strays.length
        ? table(
            "Servers where they may not be",
            [["Server"], ["Project"], ["Host"], ["Aggregates"]],
            cut(strays).map((each) => [
              link(each.name, `#/why/${each.server}`),
              el("code", {}, each.project_id),
              hostLink(each.host),
              [each.aggregates].flat().join(", "),
            ]),
          )
        : note("good", "Every server is where requests like its own may go."),
    ),
    section(
      "Hosts out of place",
      misplaced.length
        ? misplaced.map((each) =>
            el(
              "div",
              {},
              each.in_none.length ? el("p", {}, el("strong", {}, `In no ${each.scope}: `), some(each.in_none)) : null,
              each.in_several.length
                ? el(
                    "p",
                    {},
                    badge("⚠", "bad"),
                    el("strong", {}, ` In several of ${each.scope}: `),
                    some(each.in_several.map(({ name }) => name)),
                  )
                : null,
            ),
          )
        : note("good", "Every host is in one domain of each scope in use."),
    ),
    section(
      "Hosts that take nothing",
      disabled.length || down.length
        ? table(
            "Hosts disabled or down",
            [["Host"], ["State"], ["Why"]],
            cut([
              ...down.map((each) => [hostLink(each.name), state("down"), "it is not heard of"]),
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
              [["Worker"], ["Where"], ["State"], ["Heard"]],
              workers.map((each) => [
                el("code", { title: each.id }, each.id.slice(0, 8)),
                each.host,
                state(each.up ? "up" : "down"),
                when(each.heard_at),
              ]),
            )
          : note("bad", "No worker has been heard of. Run covey worker, or let covey serve have threads for it."),
      ),
      section(
        "Work and claims",
        facts([
          ["Jobs waiting", String(jobs.waiting)],
          ["Overdue", String(jobs.overdue)],
          ["Oldest due", when(jobs.oldest_due_at)],
          ["Notifications waiting", String(got.notes_waiting)],
          ["Requests for servers", String(claims.requests)],
          ["Half within", claims.p50_ms === null ? "not known" : `${claims.p50_ms} ms`],
          ["99 of 100 within", claims.p99_ms === null ? "not known" : `${claims.p99_ms} ms`],
          ["Lost races", String(claims.lost_races)],
        ]),
      ),
    ),
  ];
}

const hostLink = (name) => link(name, `#/hosts/${encodeURIComponent(name)}`);
const cut = (rows) => rows.slice(0, MOST);
const some = (names) => [
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
