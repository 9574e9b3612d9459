// The form of a group's policies, with a preview of violations before it is saved.

import { button, choice, el, field, note, plural, trouble } from "./dom.js";
import { namer, violations } from "./domains.js";
import { ask, compute } from "./net.js";

const KINDS = ["anti-affinity", "affinity", "soft-anti-affinity", "soft-affinity"].map((kind) => [kind, kind]);
const DEBOUNCE_MS = 250;

/** Parses TYPE:SCOPE:IDENTIFIER; the scope defaults to host. */
export function parse(policy, rules) {
  const [kind, scope = "host", ...rest] = policy.split(":");
  return { kind, scope, target: rest.join(":"), limit: rules[`max_server_per_${scope}`] ?? 1 };
}

/** Returns the policies and rules of the form's rows, as the API expects them. */
function compose(rows) {
  const policies = rows.map(({ kind, scope, target }) => [kind, scope, target].filter(Boolean).join(":"));
  const limits = rows.filter((row) => row.kind === "anti-affinity" && !row.target && row.limit > 1);
  return { policies, rules: Object.fromEntries(limits.map((row) => [`max_server_per_${row.scope}`, row.limit])) };
}

/** Returns the form. It calls `saved` after a save, and when it is closed. */
export function editor(group, scopes, saved, signal) {
  let rows = group.policies.map((policy) => parse(policy, group.rules));
  const original = JSON.stringify(compose(rows));
  const names = Object.fromEntries(group.members.map((each) => [each.id, each.name]));
  const list = el("ol", { class: "policies" });
  const preview = el("div", { class: "preview", role: "status", "aria-label": "Preview" });
  const save = el("button", { class: "first", disabled: true }, "Save");
  let timer = 0;
  let previews = 0;

  function change(i, part) {
    rows[i] = { ...rows[i], ...part };
    draw();
    schedulePreview();
  }

  function row(each, i) {
    const id = (part) => `policy-${i}-${part}`;
    const limited = each.kind === "anti-affinity" && !each.target;
    const known = scopes.includes(each.scope) ? scopes : [...scopes, each.scope];
    return el(
      "li",
      {},
      field(
        "Type",
        choice(
          { id: id("kind"), on: { change: (event) => change(i, { kind: event.target.value }) } },
          KINDS,
          each.kind,
        ),
      ),
      field(
        "Scope",
        choice(
          { id: id("scope"), on: { change: (event) => change(i, { scope: event.target.value }) } },
          known.map((name) => [name, name]),
          each.scope,
        ),
      ),
      field(
        "Identifier",
        el("input", {
          id: id("target"),
          value: each.target,
          placeholder: "any",
          on: { change: (event) => change(i, { target: event.target.value.trim() }) },
        }),
      ),
      field(
        "Limit",
        el("input", {
          id: id("limit"),
          type: "number",
          min: 1,
          value: limited ? each.limit : 1,
          disabled: !limited,
          on: {
            input: (event) => {
              rows[i].limit = Math.max(1, Math.floor(Number(event.target.value)) || 1);
              schedulePreview();
            },
          },
        }),
      ),
      button(
        "×",
        () => {
          rows.splice(i, 1);
          draw();
          schedulePreview();
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

  function schedulePreview() {
    save.disabled = true;
    clearTimeout(timer);
    timer = setTimeout(showPreview, DEBOUNCE_MS);
  }

  async function showPreview() {
    const number = ++previews;
    try {
      const found = await ask("POST", `data/groups/${group.id}/preview-policies`, compose(rows), {}, signal);
      if (number !== previews) return;
      preview.replaceChildren(...drawPreview(found));
      save.disabled = JSON.stringify(compose(rows)) === original;
    } catch (error) {
      if (number === previews && error.name !== "AbortError")
        preview.replaceChildren(trouble(error, error.status === 400 ? null : showPreview));
    }
  }

  function drawPreview(found) {
    const words = el("p", {}, "In words: ", el("strong", {}, found.words));
    if (!found.violations.length) return [words, note("good", "The current members would not violate these policies.")];
    return [
      words,
      note(
        "bad",
        el("p", {}, `The current members would cause ${plural(found.violations.length, "violation")}:`),
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
    schedulePreview();
  });
  draw();
  showPreview();
  return el(
    "form",
    { class: "editor", on: { submit } },
    list,
    el("div", { class: "buttons" }, add),
    preview,
    el("div", { class: "buttons" }, save, button("Cancel", saved)),
  );
}
