"""A real browser, if there is one. Nothing is downloaded: the tests use the system's Chromium or Chrome."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
PATIENCE_MS = 60_000
"""How long anything may take on a busy machine."""

Opener = Callable[..., Page]


def executable() -> str | None:
    return next((found for name in NAMES if (found := shutil.which(name))), None)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """One for each file. While Playwright runs, so does its event loop, and tests of other files may need one of their own."""
    path = executable()
    if path is None:
        pytest.skip(f"no browser was found: looked for {', '.join(NAMES)} on the PATH")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=list(FLAGS))
        yield browser
        browser.close()


@pytest.fixture
def opened(browser: Browser, tmp_path: Path) -> Iterator[Opener]:
    """Opens HTML from a file without a network, and afterwards asks that nothing was complained about, asked for or popped up."""
    context = browser.new_context(
        offline=True, viewport={"width": 1280, "height": 900}, color_scheme="light", reduced_motion="reduce"
    )
    context.set_default_timeout(PATIENCE_MS)
    said: list[str] = []
    asked: list[str] = []
    files: list[str] = []

    def open_page(html: str, *, ready: bool = True, before: str = "") -> Page:
        file = tmp_path / f"page-{len(files)}.html"
        file.write_text(html, encoding="utf-8")
        files.append(file.as_uri())
        page = context.new_page()
        page.on("console", lambda message: said.append(f"{message.type}: {message.text}"))
        page.on("pageerror", lambda error: said.append(f"error: {error}"))
        page.on("dialog", lambda dialog: (said.append(f"dialog: {dialog.message}"), dialog.dismiss()))
        page.on("request", lambda request: asked.append(request.url))
        if before:
            page.add_init_script(before)
        page.goto(files[-1])
        if ready:
            page.locator("html[data-ready=yes]").wait_for(state="attached")
        return page

    yield open_page
    context.close()
    assert said == []
    # What is downloaded comes from the page itself.
    assert {url for url in asked if not url.startswith(("data:", "blob:file:", "blob:null"))} <= set(files)
