"""The files of a directory of manifests, and those that --exclude leaves out."""

import os
from pathlib import Path

import pytest

from fleethook.cluster.manifests.manifest_files import is_excluded, list_directory, make_error, read_file
from fleethook.cluster.manifests.yaml_reader import ManifestError


def make_files(directory: Path, *names: str) -> None:
    for name in names:
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        (directory / name).write_text("a: b\n")


def list_names(directory: Path, *, exclude: tuple[str, ...] = (), testdata: bool = False) -> list[str]:
    found = list_directory(directory, exclude=exclude, testdata=testdata)
    return [str(one.relative_to(directory)) if isinstance(one, Path) else str(one) for one in found]


def test_files_of_kubectl_are_listed_in_order_without_hidden_ones_and_testdata(tmp_path: Path) -> None:
    make_files(
        tmp_path,
        "b.json",
        "b.yaml",
        "a/c.yml",
        "a.md",
        "a.jsonl",
        "a.JSON",
        ".git/x.yaml",
        ".hidden.yaml",
        "testdata/t.yaml",
        "..2026/d.yaml",
    )
    assert list_names(tmp_path) == ["a/c.yml", "b.json", "b.yaml"]
    assert list_names(tmp_path, testdata=True) == ["a/c.yml", "b.json", "b.yaml", "testdata/t.yaml"]


def test_links_to_files_are_read_and_links_to_directories_are_not(tmp_path: Path) -> None:
    make_files(tmp_path, "..data/a.yaml")
    (tmp_path / "a.yaml").symlink_to("..data/a.yaml")
    (tmp_path / "again").symlink_to(".")
    (tmp_path / "nowhere.yaml").symlink_to("missing")
    assert list_names(tmp_path) == ["a.yaml", "nowhere.yaml"]
    with pytest.raises(ManifestError, match=r"nowhere\.yaml: cannot be read: No such file or directory"):
        read_file(tmp_path / "nowhere.yaml")


def test_a_pipe_in_a_directory_is_an_error_instead_of_a_wait(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.yaml")
    assert list_names(tmp_path) == [f"{tmp_path}/pipe.yaml: is not a regular file"]


def test_an_unreadable_directory_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_files(tmp_path, "a.yaml", "sub/b.yaml")
    scan = os.scandir

    def refuse(path: str) -> object:
        if str(path).endswith("sub"):
            raise PermissionError(13, "Permission denied", str(path))
        return scan(path)

    monkeypatch.setattr(os, "scandir", refuse)
    assert list_names(tmp_path) == ["a.yaml", f"{tmp_path}/sub: cannot be read: Permission denied"]


@pytest.mark.parametrize(
    ("pattern", "kept"),
    [
        ("values.yaml", ["a.yaml", "charts/x/t.yaml"]), ("charts", ["a.yaml", "values.yaml"]), ("charts/", ["a.yaml", "values.yaml"]),
        ("charts/*", ["a.yaml", "values.yaml"]), ("*/t.yaml", ["a.yaml", "charts/x/values.yaml", "values.yaml"]),
        ("**/values.yaml", ["a.yaml", "charts/x/t.yaml"]), ("./values.yaml", ["a.yaml", "charts/x/t.yaml"]),
        ("charts/x/values.yaml", ["a.yaml", "charts/x/t.yaml", "values.yaml"]), ("*.yaml", []),
        ("VALUES.yaml", ["a.yaml", "charts/x/t.yaml", "charts/x/values.yaml", "values.yaml"]),
    ],
)  # fmt: skip
def test_patterns_leave_out_names_and_paths(tmp_path: Path, pattern: str, kept: list[str]) -> None:
    make_files(tmp_path, "a.yaml", "values.yaml", "charts/x/values.yaml", "charts/x/t.yaml")
    assert list_names(tmp_path, exclude=(pattern,)) == kept


def test_patterns_match_paths_as_given_too() -> None:
    assert is_excluded(Path("deploy/charts/a.yaml"), ["deploy/charts/*"], below=Path("deploy"))
    assert is_excluded(Path("deploy/values.yaml"), ["values.yaml"])
    assert not is_excluded(Path("deploy/values.yaml"), ["deploy/other/*", "value.yaml"])


def test_an_error_names_the_file_and_the_reason() -> None:
    assert str(make_error(Path("f"), OSError(21, "Is a directory"))) == "f: cannot be read: Is a directory"
