"""Takes pictures of the pages of the console, light and dark.

Without arguments, they are of the examples and a recording, for docs/images/. With the argument ``fleet``, they are of a
fleet with faults, on a wide and a narrow screen, in .reports/console/; further arguments name pages.
"""

import asyncio
import itertools
import shutil
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

from playwright.sync_api import sync_playwright

from tests.builders import workload
from tests.console.browser import fleet_pages
from tests.console.browser.fleet_pages import fill_fleet
from tests.console.recorded import record_workloads
from tests.serving import EXAMPLES, ROOT, started

IMAGES = ROOT / "docs" / "images"
SIZE = {"width": 1100, "height": 700}
POOL = "namespace=story-2&name=yurtappset-demo&subject=YurtAppSet&pool=hangzhou&kind=Deployment"
PAGES: Final = {
    "overview": "/",
    "overriders": "/overriders",
    "overriders-pool": f"/overriders/pool?{POOL}",
    "dispatch": "/dispatch",
    "interpreters": "/interpreters",
    "interpreters-playground": "/interpreters/playground",
    "rules": "/rules",
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
    command += [
        "--no-token",
        "--records",
        str(records),
        "--rules",
        str((EXAMPLES / "policies" / "rules.py").relative_to(ROOT)),
        # The default is in the home directory.
        "--crd-cache",
        "/var/lib/fleethook",
    ]
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


REPORTS: Final = ROOT / ".reports" / "console"
SIZES: Final = {"wide": {"width": 1440, "height": 900}, "narrow": {"width": 390, "height": 844}}


def take_fleet_pictures(directory: Path, output: Path, names: Sequence[str] = ()) -> None:
    """Write ``NAME-SIZE-THEME.png`` for the pages of a fleet, of the whole page on narrow screens.

    Args:
        directory: An empty directory for the objects and recordings.
        output: The directory of the pictures.
        names: The pages, all without any.
    """
    output.mkdir(parents=True, exist_ok=True)
    manifests, *arguments = fill_fleet(directory)
    command = [sys.executable, "-m", "fleethook", "console", "-f", str(manifests), "--no-token", "--port", "0"]
    found = started([*command, *arguments], directory / "log", r"console: http://127\.0\.0\.1:(\d+)/")
    with found as (_, port), sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        for (size, viewport), scheme in itertools.product(SIZES.items(), ("light", "dark")):
            page = browser.new_context(color_scheme=scheme, viewport=viewport).new_page()
            for name in names or fleet_pages.PAGES:
                page.goto(f"http://127.0.0.1:{port}{fleet_pages.PAGES[name]}")
                fleet_pages.settle(page)
                page.screenshot(path=output / f"{name}-{size}-{scheme}.png")
        browser.close()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        if sys.argv[1:2] == ["fleet"]:
            take_fleet_pictures(Path(temporary), REPORTS, sys.argv[2:])
        else:
            take_pictures(Path(temporary))
