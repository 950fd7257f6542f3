"""A real Chromium for the tests of the page, and what they all do in it."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable, Iterator
from typing import Any

from playwright.sync_api import Browser, ConsoleMessage, Page, expect, sync_playwright

PATH = shutil.which("chromium") or shutil.which("chromium-browser")

# No sandbox: containers seldom allow one, and the pages are the project's own.
FLAGS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
]  # fmt: skip
TIMEOUT_MS = 30_000

expect.set_options(timeout=TIMEOUT_MS)


@contextlib.contextmanager
def chromium() -> Iterator[Browser]:
    """The browser. While it is open the thread has a running event loop: it must be closed soon."""
    with sync_playwright() as playwright:
        yield playwright.chromium.launch(executable_path=PATH, args=FLAGS)


@contextlib.contextmanager
def watched(browser: Browser) -> Iterator[Callable[..., Page]]:
    """Opens pages, whose scripts may neither fail nor be refused by the policy."""
    contexts, wrong = [], []

    def opened(**settings: Any) -> Page:
        context = browser.new_context(**settings)
        context.set_default_timeout(TIMEOUT_MS)
        contexts.append(context)
        page = context.new_page()
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("console", lambda told: wrong.append(told.text) if _is_wrong(told) else None)
        return page

    yield opened
    for context in contexts:
        context.close()
    assert wrong == []


def _is_wrong(told: ConsoleMessage) -> bool:
    # That a reply is an error is what some tests are about; the browser tells it too.
    return told.type == "error" and "Failed to load resource" not in told.text


def ask(page: Page, words: str, mode: str = "Ask") -> None:
    """Asks or searches."""
    page.get_by_role("radio", name=mode, exact=True).check(force=True)
    page.get_by_role("searchbox").fill(words)
    page.get_by_role("searchbox").press("Enter")


def complete(page: Page) -> None:
    """Waits until the answer is there."""
    expect(page.get_by_role("status").first).to_contain_text("The answer is complete")
