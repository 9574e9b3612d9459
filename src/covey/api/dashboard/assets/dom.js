// Builders of DOM nodes. Text is always inserted as text, never as HTML.

/** Returns an element. `props` are attributes; `on` holds handlers by event, and booleans are set as properties. */
export function el(tag, props = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(props)) {
    if (name === "on") for (const [event, handler] of Object.entries(value)) node.addEventListener(event, handler);
    else if (typeof value === "boolean" && name in node) node[name] = value;
    else if (value !== null && value !== undefined && value !== false) node.setAttribute(name, value);
  }
  node.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return node;
}

/** Returns a section with a heading. */
export function section(title, ...children) {
  return el("section", { class: "card" }, el("h2", {}, title), ...children);
}

/** Returns the heading of a page, with nodes beside it. */
export function heading(title, ...beside) {
  return el("div", { class: "heading" }, el("h1", {}, title), el("div", { class: "beside" }, ...beside));
}

/** Returns a table: columns as [title, "number" or undefined], rows as lists of nodes or texts. */
export function table(caption, columns, rows) {
  const kind = (i) => (columns[i][1] ? { class: columns[i][1] } : {});
  return el(
    "div",
    { class: "scrolls", tabindex: 0, role: "region", "aria-label": caption },
    el(
      "table",
      {},
      el("caption", { class: "unseen" }, caption),
      el(
        "thead",
        {},
        el(
          "tr",
          {},
          columns.map(([title], i) => el("th", { scope: "col", ...kind(i) }, title)),
        ),
      ),
      el(
        "tbody",
        {},
        rows.map((cells) =>
          el(
            "tr",
            {},
            cells.map((cell, i) => el("td", { ...kind(i), "data-title": columns[i][0] }, cell)),
          ),
        ),
      ),
    ),
  );
}

/** Returns a list of names and values. */
export function facts(pairs) {
  return el(
    "dl",
    { class: "facts" },
    pairs.map(([name, value]) => [el("dt", {}, name), el("dd", {}, value)]),
  );
}

/** Returns the placeholder of an empty list, with a hint what to do next. */
export function empty(what, next) {
  return el("div", { class: "empty" }, el("p", {}, what), next ? el("p", { class: "quiet" }, next) : null);
}

/** Returns an error message with a retry button. */
export function trouble(error, retry) {
  return el(
    "div",
    { class: "note bad", role: "alert" },
    el("p", {}, error.message),
    retry ? el("button", { type: "button", on: { click: retry } }, "Try again") : null,
  );
}

/** Returns a note of a kind: good, bad or plain. */
export function note(kind, ...children) {
  return el("div", { class: `note ${kind}` }, ...children);
}

/** Returns a progress bar with a label for screen readers. */
export function bar(share, words, kind = "") {
  const filled = el("i");
  filled.style.width = `${Math.max(0, Math.min(1, share || 0)) * 100}%`;
  return el("div", { class: `bar ${kind}`, role: "img", "aria-label": words }, filled);
}

/** Returns a coloured badge. */
export function badge(text, kind = "") {
  return el("span", { class: `badge ${kind}` }, text);
}

/** Returns the badge of the status of a server, cluster, node or action. */
export function state(text) {
  const good = ["ACTIVE", "SUCCEEDED", "done", "up"];
  const bad = ["ERROR", "FAILED", "CRITICAL", "failed", "down"];
  const idle = ["CANCELLED", "cancelled", "undone", "DELETED", "SHUTOFF", "UNKNOWN"];
  return badge(text, good.includes(text) ? "good" : bad.includes(text) ? "bad" : idle.includes(text) ? "" : "busy");
}

/** Returns a form field with its label. */
export function field(label, input, hint) {
  return el("label", { class: "field" }, el("span", {}, label), input, hint ? el("small", {}, hint) : null);
}

/** Returns a select: options as [value, text]. */
export function choice(props, options, chosen) {
  return el(
    "select",
    props,
    options.map(([value, text]) => el("option", { value, selected: value === chosen }, text)),
  );
}

export const button = (text, click, props = {}) => el("button", { type: "button", ...props, on: { click } }, text);
export const link = (text, href, props = {}) => el("a", { href, ...props }, text);
export const short = (id) => el("code", { title: id }, `…${id.slice(-8)}`); // ids of the same time share their prefix
export const plural = (count, one, many = `${one}s`) => `${count.toLocaleString("en")} ${count === 1 ? one : many}`;

/** Announces a text to screen readers. */
export function say(text) {
  document.getElementById("said").textContent = text;
}

/** Returns a time in the local format. */
export function when(text) {
  if (!text) return "never";
  const time = new Date(/[Z+]/.test(text.slice(10)) ? text : `${text}Z`);
  return el(
    "time",
    { datetime: text, title: text },
    time.toLocaleString([], { dateStyle: "medium", timeStyle: "short" }),
  );
}

/** Returns an amount of a resource class with its unit. */
export function amount(kind, number) {
  if (kind === "MEMORY_MB") return `${(number / 1024).toLocaleString("en", { maximumFractionDigits: 1 })} GiB`;
  return `${number.toLocaleString("en")}${kind === "DISK_GB" ? " GB" : ""}`;
}
