"""Debian's Chromium on a console of the examples. Every page of a test fails it for errors and foreign requests."""

import contextlib
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.console.browser.fleet_pages import fill_fleet
from tests.programs import require_program
from tests.serving import EXAMPLES, ROOT, started

MISSING = "no browser: install the package chromium (Debian, Ubuntu), and run `npm ci` for axe-core"
AXE = ROOT / "node_modules" / "axe-core" / "axe.min.js"


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """A browser for one module: its event loop would disturb asynchronous tests of other modules."""
    found = shutil.which("chromium")
    program = require_program(found, MISSING)
    from playwright.sync_api import sync_playwright  # noqa: PLC0415 - most runs need no browser

    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=str(program), args=["--no-sandbox"])
        yield running
        running.close()


@pytest.fixture(scope="session")
def start_console(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., str]]:
    """A function that starts a console on manifests, and returns its address; all end with the session."""
    with contextlib.ExitStack() as stack:

        def start(manifests: Path, *arguments: str) -> str:
            log = tmp_path_factory.mktemp("console") / "log"
            command = [
                sys.executable,
                "-m",
                "fleethook",
                "console",
                "--no-token",
                "-f",
                str(manifests),
                "--port",
                "0",
                *arguments,
            ]
            _, port = stack.enter_context(started(command, log, r"console: http://127\.0\.0\.1:(\d+)/"))
            return f"http://127.0.0.1:{port}"

        yield start


@pytest.fixture(scope="session")
def console(start_console: Callable[..., str]) -> str:
    """The address of a console on the examples."""
    return start_console(EXAMPLES)


@pytest.fixture(scope="session")
def fleet_console(start_console: Callable[..., str], tmp_path_factory: pytest.TempPathFactory) -> str:
    """The address of a console on a fleet with recordings, a cache and logical clusters: no page is empty."""
    return start_console(*fill_fleet(tmp_path_factory.mktemp("fleet")))


@pytest.fixture
def open_page(browser: Any) -> Iterator[Callable[..., Any]]:
    """A function that opens a page in a new profile. The test fails for a script's error, or a request elsewhere."""
    contexts: list[Any] = []
    problems: list[str] = []

    def note_request(request: Any, origin: str) -> None:
        if not request.url.startswith((origin, "data:", "blob:")):
            problems.append(f"request to {request.url}")

    def note_message(message: Any) -> None:
        # A test may end its console, or have a request refused.
        expected = ("status of 4", "net::ERR_CONNECTION_REFUSED", "Failed to fetch")
        if message.type == "error" and not any(one in message.text for one in expected):
            problems.append(message.text)

    def start(address: str, **options: Any) -> Any:
        context = browser.new_context(**options)
        contexts.append(context)
        page = context.new_page()
        origin = "/".join(address.split("/")[:3]) + "/"
        page.on("request", lambda request: note_request(request, origin))
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("console", note_message)
        page.on("dialog", lambda dialog: (problems.append(f"dialog: {dialog.message}"), dialog.dismiss()))
        page.goto(address)
        return page

    yield start
    for context in contexts:
        context.close()
    assert problems == []


@pytest.fixture
def find_faults() -> Callable[[Any], list[str]]:
    """A function that returns the faults of a page's accessibility, by axe-core."""
    source = require_program(AXE if AXE.exists() else None, MISSING).read_text()

    def find(page: Any) -> list[str]:
        page.evaluate(source)  # The Content-Security-Policy of the page does not apply to the debugger.
        violations = page.evaluate("async () => (await axe.run()).violations")
        return [f"{one['id']}: {node['html']}" for one in violations for node in one["nodes"]]

    return find


def has_sideways_scroll(page: Any) -> bool:
    """Return whether a page is wider than its window, once its styles are loaded."""
    page.wait_for_load_state("load")
    return bool(page.evaluate("document.documentElement.scrollWidth > document.documentElement.clientWidth"))
