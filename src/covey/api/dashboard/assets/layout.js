// The layout of the map: domains as boxes in rows, hosts as cells in them. Pure functions, in map units.

export const CELL = 20;
const GAP = 3;
const PAD = 7;
const SPACE = 12;
const HEAD = 16;
const WIDTHS = [1, 1.12, 1.25, 1.5, 0.9, 0.8, 2]; // row widths to try, relative to the square root of the area
const LABEL_PX = 13; // height of a label on the screen
const natural = new Intl.Collator("en", { numeric: true });

/** Returns the boxes with their hosts: the domains of the scope, or the zones for the scope `host`. */
function boxesOf(fleet) {
  const { hosts, domains, scope } = fleet;
  const byZone = scope === "host";
  const found = new Map();
  for (let row = 0; row < hosts.name.length; row++) {
    const nowhere = !byZone && hosts.domain[row] < 0;
    const name = byZone ? hosts.zone[row] || "no zone" : nowhere ? `in no ${scope}` : domains[hosts.domain[row]];
    const key = nowhere ? "\uffff" : name;
    if (!found.has(key)) found.set(key, { label: name, nowhere, rows: [] });
    found.get(key).rows.push(row);
  }
  return [...found.keys()].sort(natural.compare).map((key) => found.get(key));
}

function columnsFor(count) {
  return count <= 4 ? count : Math.ceil(Math.sqrt(count * 1.4));
}

/** Sets the sizes and positions of the boxes, in rows of the width with the largest scale at this aspect ratio. */
function place(boxes, aspect, head) {
  let [area, widest] = [0, 1];
  for (const box of boxes) {
    box.columns = columnsFor(box.rows.length);
    box.w = Math.max(box.columns * (CELL + GAP) - GAP + 2 * PAD, 62);
    box.h = Math.ceil(box.rows.length / box.columns) * (CELL + GAP) - GAP + 2 * PAD + head;
    area += (box.w + SPACE) * (box.h + SPACE);
    widest = Math.max(widest, box.w);
  }
  let best = null;
  for (const stretch of WIDTHS) {
    const wide = Math.max(Math.sqrt(area * aspect) * stretch, widest);
    const { width, height } = flow(boxes, wide);
    const scale = Math.min(aspect / width, 1 / height);
    if (!best || scale > best.scale * 1.01) best = { scale, wide };
  }
  return flow(boxes, best.wide);
}

/** Positions the boxes in rows up to this width. */
function flow(boxes, wide) {
  let [x, y, high, width] = [0, 0, 0, 0];
  for (const box of boxes) {
    if (x > 0 && x + box.w > wide) [x, y, high] = [0, y + high + SPACE, 0];
    [box.x, box.y] = [x, y];
    x += box.w + SPACE;
    high = Math.max(high, box.h);
    width = Math.max(width, x - SPACE);
  }
  return { width: Math.max(width, 1), height: Math.max(y + high, 1) };
}

/** Returns the boxes, and x and y of every host; `size` is the size of the canvas in pixels. */
export function arrange(fleet, size) {
  const boxes = boxesOf(fleet);
  const aspect = size.width / size.height;
  let head = HEAD;
  let whole = place(boxes, aspect, head);
  const scale = Math.min(size.width / whole.width, size.height / whole.height);
  const [least, most] = [LABEL_PX / scale, (2 * LABEL_PX) / scale];
  if (head < least || head > most) {
    // labels have a fixed size on the screen
    head = Math.min(Math.max(head, least), most, 2 * CELL);
    whole = place(boxes, aspect, head);
  }
  const count = fleet.hosts.name.length;
  const [x, y, boxOf] = [new Float32Array(count), new Float32Array(count), new Int32Array(count)];
  boxes.forEach((box, index) =>
    box.rows.forEach((row, i) => {
      x[row] = box.x + PAD + (i % box.columns) * (CELL + GAP);
      y[row] = box.y + head + PAD + Math.floor(i / box.columns) * (CELL + GAP);
      boxOf[row] = index;
    }),
  );
  return { boxes, x, y, boxOf, head, ...whole, key: keyOf(fleet) };
}

/** Returns a key that changes whenever the layout changes. */
export function keyOf(fleet) {
  return [fleet.scope, fleet.domains.length, fleet.hosts.name.length, fleet.hosts.domain.join()].join("|");
}

/** Returns the host at a point of the map, or -1. */
export function hostAt(plan, x, y) {
  const box = plan.boxes.find((each) => x >= each.x && x < each.x + each.w && y >= each.y && y < each.y + each.h);
  if (!box) return -1;
  const column = Math.floor((x - box.x - PAD + GAP / 2) / (CELL + GAP));
  const line = Math.floor((y - box.y - plan.head - PAD + GAP / 2) / (CELL + GAP));
  if (column < 0 || column >= box.columns || line < 0) return -1;
  return box.rows[line * box.columns + column] ?? -1;
}

/** Returns the nearest host in the direction of an arrow key, or -1. */
export function neighbour(plan, from, dx, dy) {
  let [best, shortest] = [-1, Infinity];
  for (let row = 0; row < plan.x.length; row++) {
    const [x, y] = [plan.x[row] - plan.x[from], plan.y[row] - plan.y[from]];
    const [along, aside] = [x * dx + y * dy, Math.abs(x * dy) + Math.abs(y * dx)];
    if (along <= 0 || aside > along * 2) continue;
    const far = along + aside * 3;
    if (far < shortest) [best, shortest] = [row, far];
  }
  return best;
}
