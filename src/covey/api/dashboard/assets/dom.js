// Building what a page shows. Text is only ever put in as text.

/** An element. `props` are attributes, but `class`, `on` (handlers by event) and properties given as booleans. */
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

/** A part of a page with a heading. */
export function section(title, ...children) {
  return el("section", { class: "card" }, el("h2", {}, title), ...children);
}

/** The heading of a page, with what stands beside it. */
export function heading(title, ...beside) {
  return el("div", { class: "heading" }, el("h1", {}, title), el("div", { class: "beside" }, ...beside));
}

/** A table: columns as [title, "number" or undefined], rows as lists of nodes or texts. */
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

/** Names and values, one below the other. */
export function facts(pairs) {
  return el(
    "dl",
    { class: "facts" },
    pairs.map(([name, value]) => [el("dt", {}, name), el("dd", {}, value)]),
  );
}

/** What stands where there is nothing yet: what that means, and what to do next. */
export function empty(what, next) {
  return el("div", { class: "empty" }, el("p", {}, what), next ? el("p", { class: "quiet" }, next) : null);
}

/** What went wrong, with a way to try again. */
export function trouble(error, retry) {
  return el(
    "div",
    { class: "note bad", role: "alert" },
    el("p", {}, error.message),
    retry ? el("button", { type: "button", on: { click: retry } }, "Try again") : null,
  );
}

/** A note of a kind: good, bad or plain. */
export function note(kind, ...children) {
  return el("div", { class: `note ${kind}` }, ...children);
}

/** A bar that is so full, with the words for those who do not see it. */
export function bar(share, words, kind = "") {
  const filled = el("i");
  filled.style.width = `${Math.max(0, Math.min(1, share || 0)) * 100}%`;
  return el("div", { class: `bar ${kind}`, role: "img", "aria-label": words }, filled);
}

/** A state in a word, coloured and marked by what it means. */
export function badge(text, kind = "") {
  return el("span", { class: `badge ${kind}` }, text);
}

/** How a state of a server, cluster, node or action looks. */
export function state(text) {
  const good = ["ACTIVE", "SUCCEEDED", "done", "up"];
  const bad = ["ERROR", "FAILED", "CRITICAL", "failed", "down"];
  const idle = ["CANCELLED", "cancelled", "DELETED", "SHUTOFF"];
  return badge(text, good.includes(text) ? "good" : bad.includes(text) ? "bad" : idle.includes(text) ? "" : "busy");
}

/** A field of a form with its label. */
export function field(label, input, hint) {
  return el("label", { class: "field" }, el("span", {}, label), input, hint ? el("small", {}, hint) : null);
}

/** A choice: options as [value, text]. */
export function choice(props, options, chosen) {
  return el(
    "select",
    props,
    options.map(([value, text]) => el("option", { value, selected: value === chosen }, text)),
  );
}

export const button = (text, click, props = {}) => el("button", { type: "button", ...props, on: { click } }, text);
export const link = (text, href, props = {}) => el("a", { href, ...props }, text);
export const short = (id) => el("code", { title: id }, `…${id.slice(-8)}`); // ids of one day begin alike
export const plural = (count, one, many = `${one}s`) => `${count.toLocaleString("en")} ${count === 1 ? one : many}`;

/** Tells something to people who do not see the page change. */
export function say(text) {
  document.getElementById("said").textContent = text;
}

/** A time as people read it. */
export function when(text) {
  if (!text) return "never";
  const time = new Date(/[Z+]/.test(text.slice(10)) ? text : `${text}Z`);
  return el(
    "time",
    { datetime: text, title: text },
    time.toLocaleString([], { dateStyle: "medium", timeStyle: "short" }),
  );
}

/** An amount of a resource class with its unit. */
export function amount(kind, number) {
  if (kind === "MEMORY_MB") return `${(number / 1024).toLocaleString("en", { maximumFractionDigits: 1 })} GiB`;
  return `${number.toLocaleString("en")}${kind === "DISK_GB" ? " GB" : ""}`;
}
