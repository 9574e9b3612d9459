// The fleet on a canvas: a cached picture that pans and zooms, with rings drawn above it.

import { palette } from "./colours.js";
import { el } from "./dom.js";
import { bindGestures } from "./gestures.js";
import { CELL, arrange, hostAt, keyOf, neighbour } from "./layout.js";
import { STEPS, byHost, drawRings, drawScene, uses } from "./scene.js";

const MARGIN = 0.2; // of the screen, drawn on each side beyond it
const STRETCH = 2; // maximum scaling of the picture before it is drawn again
const SHARPEN_MS = 120;
const LARGEST_CELL_PX = 220;
const FIRST_CELL_PX = 64; // a small fleet does not fill the screen
const FRAME = 12; // margin in pixels
const HELP =
  "Arrow keys move between hosts, Enter opens one, plus and minus zoom, 0 fits the map, shift and arrow keys pan. " +
  "The table below has the same data.";

export class FleetMap {
  /** `describe(row)` returns the lines of a host's tooltip; `open(row)` opens it; `say` announces to screen readers. */
  constructor({ describe, open, say, signal }) {
    Object.assign(this, { describe, open, say });
    this.canvas = el("canvas", {
      tabindex: 0,
      role: "application",
      "aria-roledescription": "map",
      "aria-label": "Map of the fleet",
      "aria-describedby": "map-help",
    });
    this.tip = el("div", { class: "tip", "aria-hidden": "true", hidden: true });
    const help = el("p", { id: "map-help", class: "unseen" }, HELP);
    this.node = el("div", { class: "map" }, this.canvas, this.tip, help);
    this.picture = document.createElement("canvas");
    this.view = { scale: 1, x: 0, y: 0 };
    Object.assign(this, {
      fleet: null,
      cursor: -1,
      hovered: -1,
      found: [],
      wrong: [],
      chosen: -1,
      by: "fullest",
      drawn: null,
      frame: 0,
    });
    bindGestures(this, signal);
  }

  /** Shows a fleet; the view is kept unless the layout changes. */
  show(fleet) {
    const changed = this.plan?.key !== keyOf(fleet);
    this.fleet = fleet;
    this.placed = byHost(fleet.servers, fleet.hosts.name.length);
    this.use = uses(fleet.hosts, this.by);
    if (changed) {
      this.measure();
      this.cursor = this.hovered = -1;
      this.fit();
    }
    this.redraw();
  }

  /** Colors hosts by the usage of vcpus, memory, disk, another resource class, or the fullest of them. */
  fill(by) {
    this.by = by;
    if (this.fleet) this.use = uses(this.fleet.hosts, by);
    this.redraw();
  }

  /** Highlights one group; -1 for none. */
  choose(group) {
    this.chosen = group;
    this.redraw();
  }

  /** Sets the hosts with rings: search results, and hosts with violations. */
  mark({ found = this.found, wrong = this.wrong }) {
    Object.assign(this, { found, wrong });
    this.schedule();
  }

  /** Fits the whole fleet into the view. */
  fit() {
    const { width, height } = this.size;
    const scale = Math.min(
      (width - 2 * FRAME) / this.plan.width,
      (height - 2 * FRAME) / this.plan.height,
      FIRST_CELL_PX / CELL,
    );
    this.smallest = scale * 0.5;
    this.view = {
      scale,
      x: (width - this.plan.width * scale) / 2,
      y: Math.max(FRAME, (height - this.plan.height * scale) / 3),
    };
    this.redraw();
  }

  /** Centers a host, zoomed in to show its servers. */
  goTo(row) {
    const scale = Math.max(this.view.scale, 30 / CELL);
    this.view = {
      scale,
      x: this.size.width / 2 - (this.plan.x[row] + CELL / 2) * scale,
      y: this.size.height / 2 - (this.plan.y[row] + CELL / 2) * scale,
    };
    this.redraw();
  }

  zoom(by, at = { x: this.size.width / 2, y: this.size.height / 2 }) {
    const scale = Math.min(LARGEST_CELL_PX / CELL, Math.max(this.smallest, this.view.scale * by));
    const ratio = scale / this.view.scale;
    this.view = { scale, x: at.x - (at.x - this.view.x) * ratio, y: at.y - (at.y - this.view.y) * ratio };
    this.schedule();
  }

  pan(dx, dy) {
    this.view.x += dx;
    this.view.y += dy;
    this.schedule();
  }

  /** Reads the size of the container. */
  measure() {
    const box = this.node.getBoundingClientRect();
    this.dpr = Math.min(window.devicePixelRatio || 1, 2);
    this.size = { width: Math.max(box.width, 50), height: Math.max(box.height, 50) };
    this.canvas.width = Math.round(this.size.width * this.dpr);
    this.canvas.height = Math.round(this.size.height * this.dpr);
    this.picture.width = Math.round(this.size.width * (1 + 2 * MARGIN) * this.dpr);
    this.picture.height = Math.round(this.size.height * (1 + 2 * MARGIN) * this.dpr);
    this.plan = arrange(this.fleet, this.size);
  }

  /** Applies a changed theme. */
  recolour() {
    this.colours = null;
    this.redraw();
  }

  /** Invalidates the picture. */
  redraw() {
    this.drawn = null;
    this.schedule();
  }

  schedule() {
    if (this.fleet && !this.frame) this.frame = requestAnimationFrame(() => this.paint());
  }

  paint() {
    this.frame = 0;
    this.view.x = Math.round(this.view.x * this.dpr) / this.dpr; // fractions of a pixel blur the picture
    this.view.y = Math.round(this.view.y * this.dpr) / this.dpr;
    if (!this.covers()) this.draw();
    else if (this.drawn.scale !== this.view.scale) {
      clearTimeout(this.sharpen);
      this.sharpen = setTimeout(() => this.redraw(), SHARPEN_MS);
    }
    const { canvas, picture, view, drawn, dpr } = this;
    const ctx = canvas.getContext("2d");
    const ratio = view.scale / drawn.scale;
    ctx.setTransform(1, 0, 0, 1, 0, 0);
    ctx.clearRect(0, 0, canvas.width, canvas.height);
    ctx.drawImage(
      picture,
      (view.x - drawn.x * ratio) * dpr,
      (view.y - drawn.y * ratio) * dpr,
      picture.width * ratio,
      picture.height * ratio,
    );
    ctx.setTransform(view.scale * dpr, 0, 0, view.scale * dpr, view.x * dpr, view.y * dpr);
    const { found, bad, focus, ink } = this.colours;
    drawRings(
      ctx,
      this.plan,
      [
        { rows: this.wrong, colour: bad, width: 2.5, far: 2 },
        { rows: this.found, colour: found, width: 3, far: 4 },
        { rows: this.hovered < 0 ? [] : [this.hovered], colour: ink, width: 1.5 },
        {
          rows: this.cursor < 0 || document.activeElement !== canvas ? [] : [this.cursor],
          colour: focus,
          width: 3,
          far: 3,
        },
      ],
      view.scale,
    );
    if (!this.painted) {
      this.painted = true;
      performance.mark("fleet-drawn");
    }
  }

  /** Returns whether the picture covers the view at a similar scale. */
  covers() {
    const { view, drawn, size, picture, dpr, plan } = this;
    if (!drawn) return false;
    const ratio = view.scale / drawn.scale;
    if (ratio > STRETCH || ratio < 1 / STRETCH) return false;
    const [left, top] = [view.x - drawn.x * ratio, view.y - drawn.y * ratio];
    const [right, bottom] = [left + (picture.width / dpr) * ratio, top + (picture.height / dpr) * ratio];
    const inSight = (from, to, all) => [Math.max(from, 0), Math.min(to, all)];
    const [mapLeft, mapRight] = inSight(view.x, view.x + plan.width * view.scale, size.width);
    const [mapTop, mapBottom] = inSight(view.y, view.y + plan.height * view.scale, size.height);
    return left <= mapLeft && top <= mapTop && right >= mapRight && bottom >= mapBottom;
  }

  /** Draws the picture: the view and a margin around it. */
  draw() {
    clearTimeout(this.sharpen);
    const { size, view, dpr } = this;
    this.colours ??= palette(STEPS);
    const [wide, high] = [size.width * (1 + 2 * MARGIN), size.height * (1 + 2 * MARGIN)];
    const { picture } = this;
    const origin = { x: view.x + Math.round(size.width * MARGIN), y: view.y + Math.round(size.height * MARGIN) };
    const ctx = picture.getContext("2d");
    ctx.setTransform(1, 0, 0, 1, 0, 0);
    ctx.clearRect(0, 0, picture.width, picture.height);
    ctx.setTransform(view.scale * dpr, 0, 0, view.scale * dpr, origin.x * dpr, origin.y * dpr);
    const window = { x: -origin.x / view.scale, y: -origin.y / view.scale, w: wide / view.scale, h: high / view.scale };
    drawScene(ctx, this, window, view.scale);
    this.drawn = { scale: view.scale, ...origin };
  }

  /** Applies a changed size of the container. */
  resize() {
    const box = this.node.getBoundingClientRect();
    if (!this.fleet || (box.width === this.size.width && box.height === this.size.height)) return;
    this.measure();
    this.fit();
  }

  /** Returns the host at a point of the screen, or -1. */
  hostAt({ x, y }) {
    if (!this.fleet) return -1;
    return hostAt(this.plan, (x - this.view.x) / this.view.scale, (y - this.view.y) / this.view.scale);
  }

  /** Shows the tooltip of a host; -1 hides it. */
  hover(row, at) {
    if (row !== this.hovered) {
      this.hovered = row;
      this.canvas.classList.toggle("over", row >= 0);
      this.tip.hidden = row < 0;
      if (row >= 0) this.tip.replaceChildren(...this.describe(row).map((line) => el("p", {}, line)));
      this.schedule();
    }
    if (row < 0) return;
    const { offsetWidth: wide, offsetHeight: high } = this.tip;
    const x = at.x + 16 + wide > this.size.width ? at.x - wide - 12 : at.x + 16;
    const y = at.y + 16 + high > this.size.height ? at.y - high - 12 : at.y + 16;
    this.tip.style.transform = `translate(${Math.max(4, x)}px, ${Math.max(4, y)}px)`;
  }

  /** Moves the cursor to the next host in a direction, and announces it. */
  step(dx, dy) {
    const next = this.cursor < 0 ? (this.plan.boxes[0]?.rows[0] ?? -1) : neighbour(this.plan, this.cursor, dx, dy);
    if (next < 0) return;
    this.cursor = next;
    const [x, y] = [
      this.view.x + this.plan.x[next] * this.view.scale,
      this.view.y + this.plan.y[next] * this.view.scale,
    ];
    if (x < 0 || y < 0 || x > this.size.width - CELL || y > this.size.height - CELL) this.goTo(next);
    this.say(this.describe(next).join(", "));
    this.schedule();
  }
}
