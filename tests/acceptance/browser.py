"""A real browser for the acceptance tests of the dashboard; it records everything that it receives."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from playwright.sync_api import Browser, ConsoleMessage, Page, Response, expect, sync_playwright
from playwright.sync_api import Error as BrowserError

from tests.programs import PROGRAMS

FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
TIMEOUT_MS = 30_000
SCREENSHOTS = os.environ.get("COVEY_SCREENSHOTS")  # a directory; without it none is taken
SIZES = {"wide": (1280, 860), "phone": (390, 844)}
THEMES = ("light", "dark")


@contextmanager
def chromium() -> Iterator[Browser]:
    """Yield a headless Chromium."""
    expect.set_options(timeout=TIMEOUT_MS)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=PROGRAMS["chromium"].path(), args=FLAGS)
        try:
            yield browser
        finally:
            browser.close()


@dataclass
class Tab:
    """A user's page, with every response that it received and every error that it logged."""

    url: str
    page: Page
    answers: list[Response] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)
    heard: list[str] = field(default_factory=list)  # events of the stream

    def __post_init__(self) -> None:
        self.page.set_default_timeout(TIMEOUT_MS)
        self.page.on("response", self._keep)
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("console", self._hear)
        self.page.expose_function("alsoHeard", self._listen)
        self.page.add_init_script(_LISTEN_IN)

    def sign_in(self, name: str, password: str) -> None:
        self.page.goto(f"{self.url}/dashboard/")
        self.page.get_by_label("Name").fill(name)
        self.page.get_by_label("Password").fill(password)
        self.page.get_by_role("button", name="Sign in").click()
        expect(self.page.get_by_role("navigation", name="Pages")).to_be_visible()

    def open(self, where: str) -> None:
        """Go to a page of the dashboard without a reload."""
        self.page.evaluate("where => { location.hash = where }", f"#/{where}")
        expect(self.page.locator("main > *")).not_to_have_count(0)
        expect(self.page.locator("[aria-busy]")).to_have_count(0)

    def received(self) -> str:
        """Return everything that the service has sent to this tab."""
        texts = ["".join(self.heard)]
        for answer in self.answers:
            texts.append(f"{answer.url}\n{answer.all_headers()}")
            if answer.url.endswith("/events"):
                continue  # an endless stream, recorded in `heard`
            with suppress(BrowserError):  # aborted by the page
                texts.append(answer.text())
        return "\n".join(texts)

    def pictures(self, name: str) -> None:
        """Show the page in both themes, wide and on a phone, and save screenshots where the developer wants them."""
        before = self.page.viewport_size or {"width": SIZES["wide"][0], "height": SIZES["wide"][1]}
        for size, (width, height) in SIZES.items():
            self.page.set_viewport_size({"width": width, "height": height})
            for theme in THEMES:
                self.page.evaluate(_THEME, theme)
                if SCREENSHOTS:
                    self.page.wait_for_timeout(250)
                    path = Path(SCREENSHOTS).absolute() / f"{name}-{size}-{theme}.png"
                    self.page.screenshot(path=path, full_page=True)
        self.page.evaluate(_THEME, "light")
        self.page.set_viewport_size(before)

    def _keep(self, answer: Response) -> None:
        self.answers.append(answer)

    def _listen(self, piece: str) -> None:
        self.heard.append(piece)

    def _hear(self, said: ConsoleMessage) -> None:
        if said.type == "error":
            self.complaints.append(said.text)


# Records the event stream, which the page reads unchanged.
_LISTEN_IN = """
const ask = window.fetch;
window.fetch = async (...asked) => {
  const answer = await ask(...asked);
  if (!answer.ok || !answer.url.endsWith("/events")) return answer;
  const [theirs, ours] = answer.body.tee();
  ours.pipeThrough(new TextDecoderStream()).pipeTo(new WritableStream({ write: alsoHeard })).catch(() => {});
  return new Response(theirs, answer);
};
"""
_THEME = """theme => {
  document.documentElement.dataset.theme = theme;
  document.dispatchEvent(new CustomEvent("theme"));
}"""


@contextmanager
def signed_in_tab(browser: Browser, url: str, user: str, password: str) -> Iterator[Tab]:
    """Yield a tab of a signed-in user. Errors that the page reports fail the test that used it."""
    context = browser.new_context(viewport={"width": 1280, "height": 860}, reduced_motion="reduce")
    tab = Tab(url, context.new_page())
    tab.sign_in(user, password)
    yield tab
    context.close()
    assert not tab.complaints
