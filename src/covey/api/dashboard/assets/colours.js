// Colours of the canvas, read from the style sheet, which defines the themes.

export const HUES = 8; // of groups; distinguishable with most colour vision deficiencies

const probe = document.createElement("span");
probe.hidden = true;
document.body.append(probe);

/** Returns the colour of a custom property in the current theme. */
export function colour(name) {
  probe.style.color = "";
  probe.style.color = `var(--${name})`;
  return getComputedStyle(probe).color;
}

/** Returns the colours of the map in the current theme. */
export function palette(steps) {
  const low = channels(colour("use-low"));
  const high = channels(colour("use-high"));
  const mixed = (part) => low.map((value, i) => Math.round(value + (high[i] - value) * part));
  return {
    use: Array.from({ length: steps }, (_, i) => `rgb(${mixed(steps > 1 ? i / (steps - 1) : 0).join(" ")})`),
    hues: Array.from({ length: HUES }, (_, i) => colour(`hue-${i}`)),
    single: colour("mark"),
    box: colour("box"),
    cell: colour("cell"),
    line: colour("line"),
    edge: colour("edge"),
    ink: colour("ink"),
    quiet: colour("quiet"),
    bad: colour("bad"),
    found: colour("found"),
    focus: colour("focus"),
    off: colour("off"),
    paper: colour("paper"),
  };
}

function channels(text) {
  return text
    .match(/[\d.]+/g)
    .slice(0, 3)
    .map(Number);
}
