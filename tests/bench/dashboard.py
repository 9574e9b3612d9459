"""`python -m tests.bench.dashboard`: how soon the map of a large fleet is there, and how smoothly it moves."""

import argparse
import statistics
import sys
import tempfile
from pathlib import Path

import requests
from playwright.sync_api import Page

from tests.acceptance import storm
from tests.acceptance.browser import chromium
from tests.acceptance.processes import Covey, running_covey
from tests.bench import fleets, machine

BATCH = 1000
HEADERS = {"X-Auth-Token": "admin", "OpenStack-API-Version": "compute 2.1000"}
VARIABLES = storm.settings(storm.UNLIMITED, WORKER__THREADS="0")  # servers hold their places, and nobody builds them
ROUNDS = 5

# Moves the map a little in every frame, and notes how far frames are apart and how long drawing took.
_MOVE = """async ([kind, frames]) => {
  const canvas = document.querySelector("canvas");
  const box = canvas.getBoundingClientRect();
  const at = { clientX: box.left + box.width / 2, clientY: box.top + box.height / 2, bubbles: true, pointerId: 1 };
  const frame = () => new Promise(requestAnimationFrame);
  canvas.setPointerCapture = () => {};
  if (kind === "pan") canvas.dispatchEvent(new PointerEvent("pointerdown", at));
  const apart = [];
  let before = await frame();
  for (let i = 0; i < frames; i++) {
    const turn = Math.floor(i / 30) % 2 ? -1 : 1;
    if (kind === "zoom") canvas.dispatchEvent(new WheelEvent("wheel", { ...at, deltaY: turn * -40, cancelable: true }));
    if (kind === "pan") {
      at.clientX += turn * 12;
      canvas.dispatchEvent(new PointerEvent("pointermove", at));
    }
    const now = await frame();
    apart.push(now - before);
    before = now;
  }
  if (kind === "pan") canvas.dispatchEvent(new PointerEvent("pointercancel", at));
  return apart;
}"""
_FIRST = """() => ({
  paint: performance.getEntriesByName("first-contentful-paint")[0]?.startTime,
  map: performance.getEntriesByName("fleet-drawn")[0]?.startTime,
  fleet: performance.getEntriesByType("resource").filter((e) => e.name.includes("/data/fleet"))
    .map((e) => ({ ms: e.duration, bytes: e.transferSize }))[0],
})"""


def fill(covey: Covey, servers: int) -> None:
    """Servers in batches, each but every fifth in a group of its own."""
    for number in range(servers // BATCH):
        group = {"server_group": {"name": f"group-{number}", "policies": ["soft-anti-affinity:rack"]}}
        made = requests.post(f"{covey.url}/compute/v2.1/os-server-groups", json=group, headers=HEADERS, timeout=60)
        chosen = made.json()["server_group"]["id"] if number % 5 else None
        body = storm.boot_body(f"s{number}", "bench", chosen, min_count=BATCH, max_count=BATCH)
        requests.post(f"{covey.url}/compute/v2.1/servers", json=body, headers=HEADERS, timeout=600).raise_for_status()


def wait_for_map(page: Page) -> None:
    storm.wait_until(lambda: bool(page.evaluate("performance.getEntriesByName('fleet-drawn').length")), "the map")
    page.wait_for_timeout(1500)


def measure(page: Page, url: str) -> list[str]:
    """Lines that tell it."""
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
        apart = sorted(page.evaluate(_MOVE, [kind, 240]))
        lines.append(
            f"{kind}: frames {statistics.median(apart):.1f} ms apart in the middle, "
            f"95 of 100 within {apart[int(len(apart) * 0.95)]:.1f} ms, longest {apart[-1]:.1f} ms"
        )
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.dashboard", description=__doc__)
    parser.add_argument("--hosts", type=int, default=10_000, metavar="N")
    parser.add_argument("--servers", type=int, default=50_000, metavar="N")
    parser.add_argument("--data-dir", type=Path, metavar="DIR", help="kept, and used again; by default, temporary")
    parser.add_argument("--screenshot", type=Path, metavar="FILE")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        directory: Path = given.data_dir or Path(temporary)
        directory.mkdir(parents=True, exist_ok=True)
        database, fresh = f"sqlite:///{directory / 'covey.sqlite'}", not (directory / "covey.sqlite").exists()
        if fresh:
            storm.apply_fleet(directory, database, fleets.fleet_file(given.hosts))
        with running_covey(directory / "serve", "serve", "--database", database, variables=VARIABLES) as covey:
            if fresh:
                fill(covey, given.servers)
            with chromium() as browser:
                page = browser.new_page(viewport={"width": 1280, "height": 860})
                lines = measure(page, covey.url)
                if given.screenshot:
                    page.screenshot(path=given.screenshot)
    sys.stdout.write("\n".join([*machine.about(), f"{given.hosts} hosts, {given.servers} servers", *lines, ""]))


if __name__ == "__main__":
    main()
