"""Staging directories, and the removal of abandoned ones."""

import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from fleethook.engines.crds.cache.staging import create_staging, sweep
from fleethook.engines.crds.crds_errors import CRDsError, Exit
from fleethook.engines.crds.descriptors import list_names, open_directory_at


@pytest.fixture
def parent(tmp_path: Path) -> Iterator[int]:
    with open_directory_at(tmp_path) as descriptor:
        yield descriptor


def test_a_staging_directory_is_private_and_removed_with_its_content(tmp_path: Path, parent: int) -> None:
    with create_staging(parent, Path("/shown")) as staged:
        (found,) = tmp_path.iterdir()
        assert (found.name, found.stat().st_mode & 0o777) == (staged.location.name, 0o700)
        (staged.path / "file").write_bytes(b"x")
        assert list_names(staged.directory) == ["file"]
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(staged.directory)


def test_the_path_leads_to_the_directory_although_a_link_takes_its_name(tmp_path: Path, parent: int) -> None:
    with create_staging(parent, tmp_path) as staged:
        name = staged.location.name
        (tmp_path / name).rename(tmp_path / "moved")
        (tmp_path / name).symlink_to("/")
        (staged.path / "file").write_bytes(b"x")
        assert [one.name for one in (tmp_path / "moved").iterdir()] == ["file"]
    assert [one.name for one in tmp_path.iterdir()] == ["moved"], "the link is removed, not its target"


def test_an_error_shows_the_path_in_the_cache(parent: int) -> None:
    with pytest.raises(CRDsError) as caught, create_staging(parent, Path("/shown")) as staged:
        raise CRDsError(Exit.HTTP, f"cannot write {staged.path}/file", transient=True)
    assert (caught.value.exit, caught.value.transient) == (Exit.HTTP, True)
    assert str(caught.value) == f"cannot write /shown/{staged.location.name}/file"


def test_another_error_is_raised_as_it_is(tmp_path: Path, parent: int) -> None:
    error = CRDsError(Exit.HTTP, "no")
    with pytest.raises(CRDsError) as caught, create_staging(parent, Path("/shown")):
        raise error
    assert caught.value is error
    assert list(tmp_path.iterdir()) == []


def test_a_sweep_removes_abandoned_content_and_spares_a_directory_in_use(tmp_path: Path, parent: int) -> None:
    (tmp_path / "abandoned/deep").mkdir(parents=True)
    (tmp_path / "file").touch()
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept/thesis").touch()
    (tmp_path / "abandoned/link").symlink_to(tmp_path / "kept")
    (tmp_path / "link").symlink_to("kept")
    with create_staging(parent, tmp_path) as staged, open_directory_at(tmp_path / "kept") as kept:
        fcntl.flock(kept, fcntl.LOCK_EX)
        sweep(parent)
        assert sorted(one.name for one in tmp_path.iterdir()) == sorted([staged.location.name, "kept"])
    assert (tmp_path / "kept/thesis").exists()
    sweep(parent)
    assert list(tmp_path.iterdir()) == []
