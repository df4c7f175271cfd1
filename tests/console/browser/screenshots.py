"""Takes a picture of each section of the console on the examples, light and dark, for docs/images/."""

import shutil
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright

from app.console.sections import SECTIONS
from tests.serving import EXAMPLES, ROOT, started

IMAGES = ROOT / "docs" / "images"
SIZE = {"width": 1100, "height": 700}


def take_pictures(directory: Path) -> None:
    """Write ``console-SECTION-THEME.png`` for each section."""
    log = directory / "log"
    command = [sys.executable, "-m", "app", "console", "--manifests", str(EXAMPLES.relative_to(ROOT)), "--port", "0"]
    with started(command, log, r"console: http://127\.0\.0\.1:(\d+)/") as (_, port), sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        for scheme in ("light", "dark"):
            page = browser.new_context(color_scheme=scheme, viewport=SIZE).new_page()
            for section in SECTIONS:
                page.goto(f"http://127.0.0.1:{port}{section.path}")
                # Findings and other parts that a page loads later have arrived then.
                page.wait_for_load_state("networkidle")
                page.locator("[data-hx-trigger^=load]").wait_for(state="detached")
                name = section.path.strip("/") or "overview"
                page.screenshot(path=IMAGES / f"console-{name}-{scheme}.png")
        browser.close()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        take_pictures(Path(temporary))
