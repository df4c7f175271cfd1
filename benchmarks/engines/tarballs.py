"""Ways to verify and unpack a CRD tarball, from tarfile's, which looks at nothing, to ours."""

import tarfile
from collections.abc import Callable
from pathlib import Path
from unittest.mock import patch

import yaml

from app.crds.archive.archive import unpack, verify
from app.crds.archive.limits import LIMITS, Limits
from app.crds.archive.yaml_head import read_head
from app.crds.archive.yaml_lines import KnownLines
from tests.crds.tarballs import members

MIB = 1024 * 1024
LARGE = Limits(download_bytes=128 * MIB, unpacked_bytes=256 * MIB)
EXTRACTALL, UNPACK = "tarfile.extractall", "unpack"

Way = Callable[[Path, Path], object]


def _extractall(tarball: Path, into: Path) -> None:
    with tarfile.open(tarball) as opened:
        opened.extractall(into)


def _without_content(tarball: Path, into: Path) -> None:
    with (
        patch("app.crds.archive.content.Content.add"),
        patch("app.crds.archive.content.Content.finish", return_value=()),
    ):
        unpack(tarball, into)


def _by_events(tarball: Path, into: Path) -> None:
    with patch("app.crds.archive.yaml_head.read_lines", return_value=None):
        unpack(tarball, into)


def _without_disk(tarball: Path, into: Path) -> None:
    with patch("os.fsync"):
        unpack(tarball, into)


def _without_either(tarball: Path, into: Path) -> None:
    with patch("os.fsync"):
        _without_content(tarball, into)


WAYS: dict[str, Way] = {
    EXTRACTALL: _extractall,
    "unpack, no YAML, no fsync": _without_either,
    "unpack, no YAML": _without_content,
    "unpack, no fsync": _without_disk,
    UNPACK: unpack,
    "unpack, YAML by libyaml's events": _by_events,
    "verify alone": lambda tarball, _: verify(tarball, limits=LIMITS),
}


def heads() -> dict[str, Callable[[], None]]:
    """Return the ways to know what each manifest of the release calls itself."""
    manifests = [body for name, body in members().items() if body is not None and name.startswith("crds/bases/")]

    def lines() -> None:
        known = KnownLines()
        for manifest in manifests:
            read_head(manifest, known)

    def each_alone() -> None:
        for manifest in manifests:
            read_head(manifest)

    def libyaml() -> None:
        for manifest in manifests:
            yaml.cyaml.CParser(manifest).raw_parse()

    def events() -> None:
        with patch("app.crds.archive.yaml_head.read_lines", return_value=None):
            lines()

    return {
        "by lines": lines,
        "by lines, each file alone": each_alone,
        "libyaml alone": libyaml,
        "libyaml's events": events,
    }
