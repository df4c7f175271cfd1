"""Tests of the sizes of entries."""

from pathlib import Path

from fleethook.engines.crds.cache.cache_entry import measure_size


def test_the_size_counts_files_and_follows_no_link(tmp_path: Path) -> None:
    (tmp_path / "entry" / "crds").mkdir(parents=True)
    (tmp_path / "outside").write_bytes(b"x" * 5000)
    (tmp_path / "entry" / "a").write_bytes(b"x" * 10)
    (tmp_path / "entry" / "crds" / "b").write_bytes(b"x" * 20)
    (tmp_path / "entry" / "link").symlink_to(tmp_path / "outside")
    link = len(str(tmp_path / "outside"))
    assert measure_size(tmp_path / "entry") == 30 + link
    (tmp_path / "to-entry").symlink_to(tmp_path / "entry")
    assert measure_size(tmp_path / "to-entry") == 0
