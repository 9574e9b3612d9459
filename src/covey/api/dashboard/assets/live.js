// Live regions of a page: loaded once, and reloaded when one of their subjects changes.

import { el, trouble } from "./dom.js";
import { ApiError } from "./net.js";

const DEBOUNCE_MS = 150; // changes come in bursts
const PAUSE_FACTOR = 2; // times the duration of the last load, so that large data is not loaded all the time

/** The open page: its subscribers to changes, and a signal for its end. */
export class Page {
  constructor() {
    this.ending = new AbortController();
    this.listeners = [];
  }

  get signal() {
    return this.ending.signal;
  }

  close() {
    this.ending.abort();
  }

  /** Calls back when one of the subjects has changed. */
  on(subjects, callback) {
    this.listeners.push([subjects, callback]);
  }

  notify(subject) {
    for (const [subjects, callback] of this.listeners) {
      if (subject === "hello" || subjects.includes(subject)) callback();
    }
  }
}

/**
 * Loads data with `load` and fills the box with the nodes that `draw` returns, again whenever a subject changes. `draw`
 * may also draw into nodes of its own. Returns a function that reloads at once.
 */
export function live(page, box, subjects, load, draw) {
  let shown;
  let running = null;
  let again = false;
  let timer = 0;
  let pause = DEBOUNCE_MS;

  async function once() {
    try {
      const began = performance.now();
      const loaded = await load();
      pause = Math.max(DEBOUNCE_MS, PAUSE_FACTOR * (performance.now() - began));
      if (page.signal.aborted) return;
      const text = JSON.stringify(loaded);
      if (text !== shown)
        preserveFocus(box, () => box.replaceChildren(...[draw(loaded)].flat(Infinity).filter(Boolean)));
      shown = text;
      box.querySelector(":scope > .stale")?.remove();
    } catch (error) {
      if (page.signal.aborted || error.name === "AbortError") return;
      if (!(error instanceof ApiError)) console.error(error); // a defect of the page
      showError(error);
    }
    box.removeAttribute("aria-busy");
  }

  function showError(error) {
    const message = trouble(error, refresh);
    if (shown === undefined) return box.replaceChildren(message);
    box.querySelector(":scope > .stale")?.remove();
    message.classList.add("stale");
    box.prepend(message);
  }

  function refresh() {
    if (running) again = true;
    else
      running = once().finally(() => {
        running = null;
        if (again && !page.signal.aborted) {
          again = false;
          refresh();
        }
      });
    return running;
  }

  box.setAttribute("aria-busy", "true");
  if (!box.hasChildNodes()) box.append(el("p", { class: "quiet waiting" }, "Loading …"));
  page.on(subjects, () => {
    timer ||= setTimeout(() => {
      timer = 0;
      refresh();
    }, pause);
  });
  refresh();
  return refresh;
}

/** Draws, then restores the focus and the open details by id. */
function preserveFocus(box, draw) {
  const focused = box.contains(document.activeElement) ? document.activeElement.id : "";
  const open = [...box.querySelectorAll("details[open][id]")].map((each) => each.id);
  draw();
  for (const id of open) document.getElementById(id)?.setAttribute("open", "");
  if (focused) document.getElementById(focused)?.focus({ preventScroll: true });
}
