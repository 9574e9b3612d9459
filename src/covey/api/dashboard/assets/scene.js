// Drawing of the map: boxes, hosts and servers by zoom level, sorted by colour. Single rectangles are much cheaper than
// one path of many.

import { CELL } from "./layout.js";

export const STEPS = 8; // shades of a host's usage
const MARKS_FROM = 11; // minimum cell size in pixels to draw single servers
const MAX_MARKS = 20000; // servers that one frame can draw
const NAMES_FROM = 54;
const DOWN = 2;

/** Returns servers by host: `order` lists them, those of a host from `start[host]` to `start[host + 1]`. */
export function byHost(servers, hosts) {
  const start = new Uint32Array(hosts + 1);
  for (const row of servers.host) start[row + 1]++;
  for (let row = 0; row < hosts; row++) start[row + 1] += start[row];
  const next = start.slice();
  const order = new Uint32Array(servers.host.length);
  servers.host.forEach((row, server) => {
    order[next[row]++] = server;
  });
  return { start, order };
}

/** Returns the usage of each host, from 0 to 1, by one resource or by the fullest of all. */
export function uses(hosts, by) {
  const share = (used, all) => (row) => (all[row] > 0 ? Math.min(1, used[row] / all[row]) : 0);
  const of = {
    vcpus: share(hosts.vcpus_used, hosts.vcpus),
    memory: share(hosts.memory_used, hosts.memory),
    disk: share(hosts.disk_used, hosts.disk),
    ...Object.fromEntries(
      Object.entries(hosts.others).map(([kind, { used, capacity }]) => [kind, share(used, capacity)]),
    ),
  };
  const parts = of[by] ? [of[by]] : Object.values(of);
  return Float32Array.from(hosts.name, (_, row) => Math.max(...parts.map((part) => part(row))));
}

/** Draws the window (in map units) at a scale; the context is already transformed. */
export function drawScene(ctx, scene, window, scale) {
  const { plan } = scene;
  const seen = [];
  for (const box of plan.boxes) {
    if (box.x + box.w < window.x || box.x > window.x + window.w) continue;
    if (box.y + box.h < window.y || box.y > window.y + window.h) continue;
    seen.push(box);
  }
  drawBoxes(ctx, scene, seen, scale);
  const rows = seen.flatMap((box) =>
    box.rows.filter((row) => plan.y[row] + CELL >= window.y && plan.y[row] <= window.y + window.h),
  );
  drawCells(ctx, scene, rows, scale);
  if (CELL * scale >= MARKS_FROM && servers(scene, rows) <= MAX_MARKS) drawMarks(ctx, scene, rows, scale);
  else drawChosenCells(ctx, scene, rows);
  if (CELL * scale >= NAMES_FROM) drawNames(ctx, scene, rows, scale);
}

/** Returns the number of servers on these hosts. */
function servers({ placed }, rows) {
  return rows.reduce((sum, row) => sum + placed.start[row + 1] - placed.start[row], 0);
}

function drawBoxes(ctx, { plan, colours }, boxes, scale) {
  ctx.lineWidth = 1 / scale;
  for (const dashed of [false, true]) {
    ctx.fillStyle = colours.box;
    ctx.strokeStyle = colours.edge;
    ctx.setLineDash(dashed ? [4 / scale, 3 / scale] : []);
    for (const box of boxes) {
      if (box.nowhere !== dashed) continue;
      ctx.fillRect(box.x, box.y, box.w, box.h);
      ctx.strokeRect(box.x, box.y, box.w, box.h);
    }
  }
  ctx.setLineDash([]);
  const size = Math.min(13, Math.max(9, plan.head * scale * 0.8));
  if (plan.head * scale < 8) return;
  ctx.fillStyle = colours.ink;
  ctx.font = `600 ${size / scale}px system-ui, sans-serif`;
  ctx.textBaseline = "middle";
  for (const box of boxes) {
    const room = ((box.w - 10) * scale) / size / 0.62; // approximate number of letters
    const text = box.label.length > room ? `…${box.label.slice(1 - Math.max(2, room))}` : box.label;
    ctx.fillText(text, box.x + 7, box.y + plan.head / 2 + 2);
  }
}

function drawCells(ctx, { plan, colours, use, fleet }, rows, scale) {
  const knowsUse = fleet.hosts.vcpus.length > 0;
  fillAll(ctx, colours.cell, rows, (row) => ctx.fillRect(plan.x[row], plan.y[row], CELL, CELL));
  if (knowsUse) {
    const steps = Array.from({ length: STEPS }, () => []);
    for (const row of rows) if (use[row] > 0) steps[Math.min(STEPS - 1, Math.floor(use[row] * STEPS))].push(row);
    steps.forEach((some, step) =>
      fillAll(ctx, colours.use[step], some, (row) => {
        const high = Math.max(CELL * use[row], 1.5);
        ctx.fillRect(plan.x[row], plan.y[row] + CELL - high, CELL, high);
      }),
    );
  }
  const off = rows.filter((row) => fleet.hosts.state[row] > 0);
  fillAll(ctx, colours.off, off, (row) => ctx.fillRect(plan.x[row], plan.y[row], CELL, CELL));
  ctx.strokeStyle = colours.quiet;
  ctx.lineWidth = Math.max(1.2, 1 / scale);
  ctx.beginPath();
  for (const row of off) {
    const [x, y] = [plan.x[row], plan.y[row]];
    ctx.moveTo(x + 2, y + CELL - 2);
    ctx.lineTo(x + CELL - 2, y + 2);
    if (fleet.hosts.state[row] !== DOWN) continue;
    ctx.moveTo(x + 2, y + 2);
    ctx.lineTo(x + CELL - 2, y + CELL - 2);
  }
  ctx.stroke();
}

/** Draws servers as squares in their host's cell, coloured by group; a chosen group dims the others. */
function drawMarks(ctx, { plan, colours, fleet, placed, chosen }, rows, scale) {
  const hues = colours.hues.length;
  const layers = Array.from({ length: hues + 2 }, () => []); // the last two: without a group, and dimmed
  for (const row of rows) {
    const count = placed.start[row + 1] - placed.start[row];
    if (!count) continue;
    const side = Math.ceil(Math.sqrt(count));
    const step = Math.min((CELL - 3) / side, 6.2);
    for (let i = 0; i < count; i++) {
      const group = fleet.servers.group[placed.order[placed.start[row] + i]];
      const back = chosen >= 0 && group !== chosen;
      layers[back ? hues + 1 : group < 0 ? hues : group % hues].push(
        plan.x[row] + 2 + (i % side) * step,
        plan.y[row] + 2 + Math.floor(i / side) * step,
        step * 0.8,
      );
    }
  }
  const outline = CELL * scale >= 26;
  ctx.lineWidth = 1 / scale;
  ctx.strokeStyle = colours.paper;
  layers.forEach((squares, layer) => {
    if (!squares.length) return;
    ctx.globalAlpha = layer === hues + 1 ? 0.2 : 1;
    ctx.fillStyle = colours.hues[layer] ?? colours.single;
    for (let i = 0; i < squares.length; i += 3) {
      ctx.fillRect(squares[i], squares[i + 1], squares[i + 2], squares[i + 2]);
      if (outline) ctx.strokeRect(squares[i], squares[i + 1], squares[i + 2], squares[i + 2]);
    }
  });
  ctx.globalAlpha = 1;
}

/** Draws, when zoomed out, whole cells in the colour of the chosen group where it has members. */
function drawChosenCells(ctx, { plan, colours, fleet, placed, chosen }, rows) {
  if (chosen < 0) return;
  const holds = (row) => {
    for (let i = placed.start[row]; i < placed.start[row + 1]; i++) {
      if (fleet.servers.group[placed.order[i]] === chosen) return true;
    }
    return false;
  };
  fillAll(ctx, colours.hues[chosen % colours.hues.length], rows.filter(holds), (row) =>
    ctx.fillRect(plan.x[row] + 2, plan.y[row] + 2, CELL - 4, CELL - 4),
  );
}

function drawNames(ctx, { plan, colours, fleet }, rows, scale) {
  const size = 10.5 / scale;
  const fits = Math.floor((CELL * scale) / 6.6);
  ctx.font = `${size}px system-ui, sans-serif`;
  ctx.textBaseline = "alphabetic";
  ctx.lineWidth = 3 / scale;
  ctx.strokeStyle = colours.cell;
  ctx.fillStyle = colours.ink;
  ctx.lineJoin = "round";
  for (const row of rows) {
    const name = fleet.hosts.name[row];
    const text = name.length > fits ? `${name.slice(0, fits - 1)}…` : name;
    ctx.strokeText(text, plan.x[row] + 1, plan.y[row] + CELL - 1);
    ctx.fillText(text, plan.x[row] + 1, plan.y[row] + CELL - 1);
  }
}

/** Draws rings around hosts, above the picture. */
export function drawRings(ctx, plan, rings, scale) {
  for (const { rows, colour, width, far } of rings) {
    ctx.strokeStyle = colour;
    ctx.lineWidth = width / scale;
    const out = (far ?? 1) / scale + 0.5;
    for (const row of rows) ctx.strokeRect(plan.x[row] - out, plan.y[row] - out, CELL + 2 * out, CELL + 2 * out);
  }
}

function fillAll(ctx, colour, rows, shape) {
  ctx.fillStyle = colour;
  rows.forEach(shape);
}
