"""The file of a download in progress."""

import errno
import hashlib
import os
from pathlib import Path

import pytest

from fleethook.engines.crds.crds_errors import CRDsError, Exit
from fleethook.engines.crds.download.partial_file import Partial


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "crds.tar.gz"


def test_a_finished_file_is_kept_with_its_digest(path: Path) -> None:
    with Partial(path, max_bytes=10) as partial:
        partial.add(b"ab")
        partial.add(b"")
        partial.add(b"cd")
        assert (partial.size, partial.read_beginning(3), partial.read_beginning(9)) == (4, b"abc", b"abcd")
        assert partial.finish() == partial.sha256 == hashlib.sha256(b"abcd").hexdigest()
    assert path.read_bytes() == b"abcd"
    assert path.stat().st_mode & 0o777 == 0o600


def test_an_unfinished_file_is_removed(path: Path) -> None:
    with Partial(path, max_bytes=10) as partial:
        partial.add(b"ab")
        assert path.exists()
    assert not path.exists()
    with Partial(path, max_bytes=10):
        path.unlink()


def test_a_restart_forgets_the_former_body(path: Path) -> None:
    with Partial(path, max_bytes=10) as partial:
        partial.restart('"first"', 5)
        partial.add(b"abcde")
        partial.restart('"second"', 2)
        assert (partial.size, partial.etag, partial.total) == (0, '"second"', 2)
        partial.add(b"xy")
        assert partial.finish() == hashlib.sha256(b"xy").hexdigest()
    assert path.read_bytes() == b"xy"


def test_the_limit_is_the_largest_size(path: Path) -> None:
    with Partial(path, max_bytes=4) as partial:
        partial.restart(total=4)
        partial.add(b"abcd")
        with pytest.raises(CRDsError, match="larger than the limit of 4 bytes: the body has more") as caught:
            partial.add(b"e")
        assert caught.value.exit is Exit.LIMIT
        with pytest.raises(CRDsError, match="larger than the limit of 4 bytes: 5 bytes"):
            partial.restart(total=5)
        assert (partial.size, partial.sha256) == (4, hashlib.sha256(b"abcd").hexdigest())


def test_an_existing_file_or_link_is_not_written_to(path: Path, tmp_path: Path) -> None:
    path.symlink_to(tmp_path / "elsewhere")
    for _ in range(2):
        with pytest.raises(CRDsError, match=f"^cannot write {path}: file exists$") as caught:
            Partial(path, max_bytes=4)
        assert caught.value.exit is Exit.DISK
        path.unlink()
        path.write_bytes(b"kept")
    assert path.read_bytes() == b"kept"
    assert not (tmp_path / "elsewhere").exists()


def test_a_full_disk_has_a_remedy(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> int:
        raise OSError(errno.ENOSPC, "full")

    with Partial(path, max_bytes=4) as partial:
        monkeypatch.setattr(os, "write", fail)
        with pytest.raises(CRDsError, match="make room or use another cache directory") as caught:
            partial.add(b"a")
    assert (caught.value.exit, caught.value.transient) == (Exit.DISK, True)
    assert not path.exists()
