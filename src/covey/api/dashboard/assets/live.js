// A box on a page that shows something and stays true: loaded at first, and anew whenever a subject of it changes.

import { el, trouble } from "./dom.js";
import { Refused } from "./net.js";

const SETTLE_MS = 150; // changes come in bunches
const REST = 2; // times as long as loading took: what is large is not asked for all the time

/** What is open now: who wants to hear of changes, and a signal for its end. */
export class Page {
  constructor() {
    this.ending = new AbortController();
    this.listeners = [];
  }

  get signal() {
    return this.ending.signal;
  }

  leave() {
    this.ending.abort();
  }

  /** Calls back when one of the subjects changed. */
  on(subjects, callback) {
    this.listeners.push([subjects, callback]);
  }

  tell(subject) {
    for (const [subjects, callback] of this.listeners) {
      if (subject === "hello" || subjects.includes(subject)) callback();
    }
  }
}

/**
 * Fills the box with what `draw` makes of what `load` got, and does so again when a subject changes; `draw` may keep
 * what it made before by drawing into nodes of its own. Returns a function that loads anew at once.
 */
export function live(page, box, subjects, load, draw) {
  let shown;
  let running = null;
  let again = false;
  let timer = 0;
  let pause = SETTLE_MS;

  async function once() {
    try {
      const began = performance.now();
      const loaded = await load();
      pause = Math.max(SETTLE_MS, REST * (performance.now() - began));
      if (page.signal.aborted) return;
      const text = JSON.stringify(loaded);
      if (text !== shown)
        keepingFocus(box, () => box.replaceChildren(...[draw(loaded)].flat(Infinity).filter(Boolean)));
      shown = text;
      box.querySelector(":scope > .stale")?.remove();
    } catch (error) {
      if (page.signal.aborted || error.name === "AbortError") return;
      if (!(error instanceof Refused)) console.error(error); // a mistake of ours
      tellTrouble(error);
    }
    box.removeAttribute("aria-busy");
  }

  function tellTrouble(error) {
    const said = trouble(error, refresh);
    if (shown === undefined) return box.replaceChildren(said);
    box.querySelector(":scope > .stale")?.remove();
    said.classList.add("stale");
    box.prepend(said);
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

/** Draws, and puts the focus back on the thing of the same id, and opens what was open. */
function keepingFocus(box, draw) {
  const focused = box.contains(document.activeElement) ? document.activeElement.id : "";
  const open = [...box.querySelectorAll("details[open][id]")].map((each) => each.id);
  draw();
  for (const id of open) document.getElementById(id)?.setAttribute("open", "");
  if (focused) document.getElementById(focused)?.focus({ preventScroll: true });
}
