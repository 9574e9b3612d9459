"""`python -m tests.bench.dashboard`: the load time and the frame rate of the map of a large fleet."""

import argparse
import statistics
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import Page

from tests.acceptance import storm
from tests.acceptance.browser import chromium
from tests.acceptance.processes import running_covey
from tests.bench import fleets, machine
from tests.bench.reads import VARIABLES, fill

ROUNDS = 5

# Moves the map a little in every frame, and records the time between frames.
_MOVE = """async ([kind, frames]) => {
  const canvas = document.querySelector("canvas");
  const box = canvas.getBoundingClientRect();
  const at = { clientX: box.left + box.width / 2, clientY: box.top + box.height / 2, bubbles: true, pointerId: 1 };
  const frame = () => new Promise(requestAnimationFrame);
  canvas.setPointerCapture = () => {};
  if (kind === "pan") canvas.dispatchEvent(new PointerEvent("pointerdown", at));
  const intervals = [];
  let before = await frame();
  for (let i = 0; i < frames; i++) {
    const turn = Math.floor(i / 30) % 2 ? -1 : 1;
    if (kind === "zoom") canvas.dispatchEvent(new WheelEvent("wheel", { ...at, deltaY: turn * -40, cancelable: true }));
    if (kind === "pan") {
      at.clientX += turn * 12;
      canvas.dispatchEvent(new PointerEvent("pointermove", at));
    }
    const now = await frame();
    intervals.push(now - before);
    before = now;
  }
  if (kind === "pan") canvas.dispatchEvent(new PointerEvent("pointercancel", at));
  return intervals;
}"""
_FIRST = """() => ({
  paint: performance.getEntriesByName("first-contentful-paint")[0]?.startTime,
  map: performance.getEntriesByName("fleet-drawn")[0]?.startTime,
  fleet: performance.getEntriesByType("resource").filter((e) => e.name.includes("/data/fleet"))
    .map((e) => ({ ms: e.duration, bytes: e.transferSize }))[0],
})"""


def wait_for_map(page: Page) -> None:
    storm.wait_until(lambda: bool(page.evaluate("performance.getEntriesByName('fleet-drawn').length")), "the map")
    page.wait_for_timeout(1500)


def measure(page: Page, url: str) -> list[str]:
    """Return the results as lines."""
    page.goto(f"{url}/dashboard/")
    page.get_by_label("Name", exact=True).fill("admin")
    page.get_by_role("button", name="Sign in").click()
    wait_for_map(page)
    cold = page.evaluate(_FIRST)["fleet"]
    lines = [f"the service's first answer: fleet {cold['ms']:.0f} ms, {cold['bytes']} bytes"]
    for number in range(ROUNDS):
        page.reload()
        wait_for_map(page)
        first = page.evaluate(_FIRST)
        lines.append(
            f"load {number + 1}: first paint {first['paint']:.0f} ms, map drawn {first['map']:.0f} ms; "
            f"fleet {first['fleet']['ms']:.0f} ms, {first['fleet']['bytes']} bytes"
        )
    for kind in ("pan", "zoom"):
        intervals = sorted(page.evaluate(_MOVE, [kind, 240]))
        lines.append(
            f"{kind}: frame interval p50 {statistics.median(intervals):.1f} ms, "
            f"p95 {intervals[int(len(intervals) * 0.95)]:.1f} ms, maximum {intervals[-1]:.1f} ms"
        )
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.dashboard", description=__doc__)
    parser.add_argument("--hosts", type=int, default=10_000, metavar="N")
    parser.add_argument("--servers", type=int, default=50_000, metavar="N")
    parser.add_argument("--data-dir", type=Path, metavar="DIR", help="kept and reused; temporary by default")
    parser.add_argument("--screenshot", type=Path, metavar="FILE")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        directory: Path = options.data_dir or Path(temporary)
        directory.mkdir(parents=True, exist_ok=True)
        database, fresh = f"sqlite:///{directory / 'covey.sqlite'}", not (directory / "covey.sqlite").exists()
        if fresh:
            storm.apply_fleet(directory, database, fleets.fleet_file(options.hosts))
        with running_covey(directory / "serve", "serve", "--database", database, variables=VARIABLES) as covey:
            if fresh:
                fill(covey, options.servers)
            with chromium() as browser:
                page = browser.new_page(viewport={"width": 1280, "height": 860})
                lines = measure(page, covey.url)
                if options.screenshot:
                    page.screenshot(path=options.screenshot)
    sys.stdout.write("\n".join([*machine.about(), f"{options.hosts} hosts, {options.servers} servers", *lines, ""]))


if __name__ == "__main__":
    main()
