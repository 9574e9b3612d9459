// Mouse, touch and keyboard control of the map.

const CLICK_PX = 5; // a shorter movement is a click
const STEP_PX = 60;
const ARROWS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };

/** Binds the controls to a map until the signal. */
export function bindGestures(map, signal) {
  const { canvas } = map;
  let held = null; // the last position of the pressed pointer, and the distance that it has moved

  const on = (event, handler) => canvas.addEventListener(event, handler, { signal, passive: false });
  const at = (event) => {
    const box = canvas.getBoundingClientRect();
    return { x: event.clientX - box.left, y: event.clientY - box.top };
  };

  on("wheel", (event) => {
    event.preventDefault();
    map.zoom(Math.exp(-event.deltaY * (event.deltaMode ? 0.05 : 0.0016)), at(event));
  });
  on("pointerdown", (event) => {
    held = { ...at(event), far: 0 };
    canvas.setPointerCapture(event.pointerId);
  });
  on("pointermove", (event) => {
    const now = at(event);
    if (!held) return map.hover(map.hostAt(now), now);
    const [dx, dy] = [now.x - held.x, now.y - held.y];
    held = { ...now, far: held.far + Math.abs(dx) + Math.abs(dy) };
    map.hover(-1);
    return map.pan(dx, dy);
  });
  on("pointerup", (event) => {
    const row = held && held.far < CLICK_PX ? map.hostAt(at(event)) : -1;
    held = null;
    if (row >= 0) map.open(row);
  });
  on("pointercancel", () => {
    held = null;
  });
  on("pointerleave", () => map.hover(-1));
  on("keydown", (event) => {
    if (map.fleet && !event.ctrlKey && !event.metaKey && !event.altKey && handleKey(map, event)) event.preventDefault();
  });
  on("focus", () => map.schedule());
  on("blur", () => map.schedule());
  document.addEventListener("theme", () => map.recolour(), { signal });
  const sizes = new ResizeObserver(() => map.resize());
  sizes.observe(map.node);
  signal.addEventListener("abort", () => sizes.disconnect());
}

/** Handles a key; returns whether it has a function. */
function handleKey(map, { key, shiftKey }) {
  const arrow = ARROWS[key];
  if (arrow && shiftKey) map.pan(-arrow[0] * STEP_PX, -arrow[1] * STEP_PX);
  else if (arrow) map.step(...arrow);
  else if (key === "+" || key === "=") map.zoom(1.4);
  else if (key === "-") map.zoom(1 / 1.4);
  else if (key === "0") map.fit();
  else if (key === "Enter" && map.cursor >= 0) map.open(map.cursor);
  else return false;
  return true;
}
