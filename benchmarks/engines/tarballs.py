"""Ways to verify and unpack a CRD tarball, from tarfile's without checks to ours."""

import tarfile
from collections.abc import Callable
from pathlib import Path
from unittest.mock import patch

from app.crds.archive.archive import unpack, verify
from app.crds.archive.limits import LIMITS, ArchiveLimits

MIB = 1024 * 1024
LARGE = ArchiveLimits(download_bytes=128 * MIB, unpacked_bytes=256 * MIB)
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
    "verify alone": lambda tarball, _: verify(tarball, limits=LIMITS),
}
