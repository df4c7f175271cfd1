"""The committed bundle is small, and its packages come from any registry."""

import gzip
from pathlib import Path

from tests.serving import ROOT

STATIC = ROOT / "app" / "fleethook" / "console" / "static"
MAX_BUNDLE_BYTES = 400_000


def read_all(directory: Path) -> dict[str, bytes]:
    return {str(one.relative_to(directory)): one.read_bytes() for one in directory.rglob("*") if one.is_file()}


def test_the_bundle_is_small() -> None:
    assert sum(len(gzip.compress(text)) for text in read_all(STATIC).values()) <= MAX_BUNDLE_BYTES


def test_the_lock_file_names_no_registry() -> None:
    assert "http" not in "".join(
        line for line in (ROOT / "package-lock.json").read_text().splitlines() if "resolved" in line
    )
