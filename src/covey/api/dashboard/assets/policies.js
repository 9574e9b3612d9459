// A group's policies as rows of a form, with a look at what would be broken before anything is saved.

import { button, choice, el, field, note, plural, trouble } from "./dom.js";
import { namer, violations } from "./domains.js";
import { ask, compute } from "./net.js";

const KINDS = [
  ["anti-affinity", "apart"],
  ["affinity", "together"],
  ["soft-anti-affinity", "apart if possible"],
  ["soft-affinity", "together if possible"],
];
const WAIT_MS = 250;

/** TYPE:SCOPE:IDENTIFIER taken apart; the scope is host where none is named. */
export function parse(policy, rules) {
  const [kind, scope = "host", ...rest] = policy.split(":");
  return { kind, scope, target: rest.join(":"), limit: rules[`max_server_per_${scope}`] ?? 1 };
}

/** Rows as the API takes them. */
export function compose(rows) {
  const policies = rows.map(({ kind, scope, target }) => [kind, scope, target].filter(Boolean).join(":"));
  const limits = rows.filter((row) => row.kind === "anti-affinity" && !row.target && row.limit > 1);
  return { policies, rules: Object.fromEntries(limits.map((row) => [`max_server_per_${row.scope}`, row.limit])) };
}

/** The form. `saved` is called when the group has its new policies. */
export function editor(group, scopes, saved, signal) {
  let rows = group.policies.map((policy) => parse(policy, group.rules));
  const original = JSON.stringify(compose(rows));
  const names = Object.fromEntries(group.members.map((each) => [each.id, each.name]));
  const list = el("ol", { class: "policies" });
  const preview = el("div", { class: "preview", role: "status", "aria-label": "What this would mean" });
  const save = el("button", { class: "first", disabled: true }, "Save");
  let timer = 0;
  let asked = 0;

  function change(i, part) {
    rows[i] = { ...rows[i], ...part };
    draw();
    look();
  }

  function row(each, i) {
    const id = (part) => `policy-${i}-${part}`;
    const limited = each.kind === "anti-affinity" && !each.target;
    const known = scopes.includes(each.scope) ? scopes : [...scopes, each.scope];
    return el(
      "li",
      {},
      field(
        "Keep",
        choice(
          { id: id("kind"), on: { change: (event) => change(i, { kind: event.target.value }) } },
          KINDS,
          each.kind,
        ),
      ),
      field(
        "by",
        choice(
          { id: id("scope"), on: { change: (event) => change(i, { scope: event.target.value }) } },
          known.map((name) => [name, name]),
          each.scope,
        ),
      ),
      field(
        "identifier",
        el("input", {
          id: id("target"),
          value: each.target,
          placeholder: "any",
          on: { change: (event) => change(i, { target: event.target.value.trim() }) },
        }),
      ),
      field(
        "at most in one",
        el("input", {
          id: id("limit"),
          type: "number",
          min: 1,
          value: limited ? each.limit : 1,
          disabled: !limited,
          on: {
            input: (event) => {
              rows[i].limit = Math.max(1, Math.floor(Number(event.target.value)) || 1);
              look();
            },
          },
        }),
      ),
      button(
        "×",
        () => {
          rows.splice(i, 1);
          draw();
          look();
        },
        { class: "plain", "aria-label": `Remove policy ${i + 1}`, disabled: rows.length === 1 },
      ),
    );
  }

  function draw() {
    const focused = document.activeElement?.id;
    list.replaceChildren(...rows.map(row));
    if (focused) list.querySelector(`#${CSS.escape(focused)}`)?.focus();
  }

  function look() {
    save.disabled = true;
    clearTimeout(timer);
    timer = setTimeout(ahead, WAIT_MS);
  }

  async function ahead() {
    const turn = ++asked;
    try {
      const found = await ask("POST", `data/groups/${group.id}/preview-policies`, compose(rows), {}, signal);
      if (turn !== asked) return;
      preview.replaceChildren(...told(found));
      save.disabled = JSON.stringify(compose(rows)) === original;
    } catch (error) {
      if (turn === asked && error.name !== "AbortError")
        preview.replaceChildren(trouble(error, error.status === 400 ? null : ahead));
    }
  }

  function told(found) {
    const words = el("p", {}, "In words: ", el("strong", {}, found.words));
    if (!found.violations.length) return [words, note("good", "Nothing would be broken as things are now.")];
    return [
      words,
      note(
        "bad",
        el("p", {}, `${plural(found.violations.length, "thing")} would not hold as things are now:`),
        violations(found.violations, namer(group), names),
      ),
    ];
  }

  async function submit(event) {
    event.preventDefault();
    save.disabled = true;
    try {
      await compute("PUT", `os-server-groups/${group.id}`, { server_group: compose(rows) });
      saved();
    } catch (error) {
      preview.replaceChildren(trouble(error));
    }
  }

  const add = button("Add a policy", () => {
    rows = [...rows, { kind: "soft-anti-affinity", scope: "host", target: "", limit: 1 }];
    draw();
    look();
  });
  draw();
  ahead();
  return el(
    "form",
    { class: "editor", on: { submit } },
    list,
    el("div", { class: "buttons" }, add),
    preview,
    el("div", { class: "buttons" }, save, button("Leave as it is", saved)),
  );
}
