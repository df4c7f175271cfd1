"""The committed bundle of the console is built from its sources."""

import shutil
import subprocess
from pathlib import Path

from tests.console.test_assets import STATIC, read_all
from tests.programs import require_program
from tests.serving import ROOT


def test_the_bundle_is_the_one_that_the_sources_make(tmp_path: Path) -> None:
    installed = shutil.which("node") if (ROOT / "node_modules" / "stamp").exists() else None
    node = require_program(installed, "no packages of Node: run `make console-assets`")
    subprocess.run([node, "app/fleethook/console/assets/build.mjs", str(tmp_path)], cwd=ROOT, check=True)
    assert read_all(STATIC) == read_all(tmp_path)
