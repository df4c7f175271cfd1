"""Takes pictures of the pages of the console on the examples and on a recording, light and dark, for docs/images/."""

import asyncio
import shutil
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

from playwright.sync_api import sync_playwright

from tests.builders import workload
from tests.console.recorded import record_workloads
from tests.serving import EXAMPLES, ROOT, started

IMAGES = ROOT / "docs" / "images"
SIZE = {"width": 1100, "height": 700}
OVERRIDER = "namespace=story-2&name=demo1"
POOL = "namespace=story-2&name=yurtappset-demo&subject=YurtAppSet&pool=hangzhou&kind=Deployment"
PAGES: Final = {
    "overview": "/",
    "overriders": "/overriders",
    "overriders-pool": f"/overriders/pool?{POOL}",
    "overriders-edit": f"/overriders/edit?{OVERRIDER}",
    "dispatch": "/dispatch",
    "dispatch-map": "/dispatch/map",
    "interpreters": "/interpreters",
    "interpreters-playground": "/interpreters/playground",
    "crds": "/crds",
    "reviews": "/reviews",
    "reviews-review": "/reviews/review?file=reviews.jsonl&line=2&now=1",
}
"""The pages by the name of their picture."""


def take_pictures(directory: Path) -> None:
    """Write ``console-NAME-THEME.png`` for each page."""
    records = directory / "records"
    with ThreadPoolExecutor(1) as executor:
        executor.submit(asyncio.run, record_workloads(records, workload(owners=[]))).result()
    command = [sys.executable, "-m", "fleethook", "console", "-f", str(EXAMPLES.relative_to(ROOT)), "--port", "0"]
    command += ["--no-token", "--records", str(records)]
    found = started(command, directory / "log", r"console: http://127\.0\.0\.1:(\d+)/")
    with found as (_, port), sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        for scheme in ("light", "dark"):
            page = browser.new_context(color_scheme=scheme, viewport=SIZE).new_page()
            for name, path in PAGES.items():
                page.goto(f"http://127.0.0.1:{port}{path}")
                # Findings and other parts that a page loads later have arrived then.
                page.wait_for_load_state("networkidle")
                page.locator("[data-hx-trigger^=load]").wait_for(state="detached")
                page.screenshot(path=IMAGES / f"console-{name}-{scheme}.png")
        browser.close()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        take_pictures(Path(temporary))
