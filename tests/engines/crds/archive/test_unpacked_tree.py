"""Writing files below a directory, and comparing them with digests."""

import hashlib
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from fleethook.engines.crds.archive.unpacked_tree import FileDigest, Manifest, Written, verify_tree, write_tree
from fleethook.engines.crds.crds_errors import CRDsError, Exit
from fleethook.engines.crds.descriptors import FILE_MODE, open_directory_at

FILES = {"crds/a.yaml": b"a", "crds/bases/b.yaml": b"bb"}
DIRECTORIES = ["crds/bases", "crds"]
DIGESTS = {path: FileDigest(len(body), hashlib.sha256(body).hexdigest()) for path, body in FILES.items()}


def write(into: Path | int) -> None:
    write_tree(into, DIRECTORIES, [Written(path, body, 7) for path, body in FILES.items()])


def differences(directory: Path, *required: str) -> list[str]:
    return verify_tree(directory, Manifest("", 0, DIGESTS), required=required)


def test_a_written_tree_has_no_differences(tmp_path: Path) -> None:
    write(tmp_path)
    assert differences(tmp_path, "crds", "crds/bases") == []


def test_files_have_a_fixed_mode_and_the_given_time(tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        with open_directory_at(tmp_path) as root:
            write(root)
    finally:
        os.umask(before)
    status = (tmp_path / "crds/a.yaml").stat()
    assert (status.st_mode & 0o777, status.st_mtime) == (FILE_MODE, 7)


def replace_by_link(path: Path) -> None:
    path.rename(path.with_name("moved"))
    path.symlink_to("moved")


@pytest.mark.parametrize(
    ("change", "lines"),
    [
        (lambda top: (top / "a.yaml").write_bytes(b"x"), ["crds/a.yaml has other content"]),
        (lambda top: (top / "a.yaml").write_bytes(b"xx"), ["crds/a.yaml has 2 bytes instead of 1"]),
        (lambda top: (top / "a.yaml").unlink(), ["crds/a.yaml is missing"]),
        (lambda top: (top / "bases/more").touch(), ["crds/bases/more does not belong there"]),
        (lambda top: (top.parent / "other").touch(), []),
        (lambda top: replace_by_link(top / "a.yaml"),
         ["crds/a.yaml is not a regular file", "crds/moved does not belong there"]),
        (lambda top: replace_by_link(top / "bases"),
         ["crds/bases does not belong there", "crds/bases/b.yaml is missing", "crds/moved/b.yaml does not belong there"]),
        (replace_by_link, ["crds/a.yaml is missing", "crds/bases/b.yaml is missing"]),
    ],
)  # fmt: skip
def test_each_difference_is_one_line_and_links_are_not_followed(
    tmp_path: Path, change: Callable[[Path], object], lines: list[str]
) -> None:
    write(tmp_path)
    change(tmp_path / "crds")
    assert differences(tmp_path) == lines


def test_required_directories_are_missing_if_they_are_files_or_absent(tmp_path: Path) -> None:
    write(tmp_path)
    found = differences(tmp_path, "crds/bases", "crds/a.yaml", "crds/patches", "other/x")
    assert found == ["crds/a.yaml is missing", "crds/patches is missing", "other/x is missing"]


def test_nothing_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "crds").symlink_to(tmp_path)
    with pytest.raises(CRDsError, match="cannot unpack into") as caught:
        write(tmp_path)
    assert caught.value.exit is Exit.DISK
    assert [one.name for one in tmp_path.iterdir()] == ["crds"]


def test_a_directory_that_is_a_link_is_neither_written_to_nor_read(tmp_path: Path) -> None:
    (tmp_path / "target").mkdir()
    (tmp_path / "link").symlink_to("target")
    with pytest.raises(CRDsError, match="cannot unpack into"):
        write(tmp_path / "link")
    with pytest.raises(CRDsError, match="cannot read"):
        differences(tmp_path / "link")
    assert list((tmp_path / "target").iterdir()) == []
