"""Writing files below a directory, and comparing them with digests."""

import hashlib
import os
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from fleethook.engines.crds.archive import tar
from fleethook.engines.crds.archive.archive import verify
from fleethook.engines.crds.archive.unpacked_tree import (
    FileDigest,
    Manifest,
    Names,
    Written,
    describe,
    verify_tree,
    write_tree,
)
from fleethook.engines.crds.crds_errors import CRDsError, Exit
from fleethook.engines.crds.descriptors import FILE_MODE, open_directory_at
from tests.engines.crds.tarballs import build, crd, members, small

LINK = ord("2")


def admit(names: Names, name: str, kind: int = tar.FILE) -> str:
    return names.admit(tar.Entry(name, kind, 0))


def refusal(name: str, kind: int = tar.FILE, *, normalize_dot: bool = False) -> str:
    with pytest.raises(CRDsError) as caught:
        admit(Names(normalize_dot=normalize_dot), name, kind)
    assert caught.value.exit is Exit.ARCHIVE
    return str(caught.value)


def test_files_and_directories_are_kept_with_their_parents() -> None:
    names = Names()
    assert admit(names, "crds/", tar.DIRECTORY) == "crds"
    assert admit(names, "crds/bases/work/a.yaml") == "crds/bases/work/a.yaml"
    assert names.files == {"crds/bases/work/a.yaml"}
    assert names.directories == {"crds", "crds/bases", "crds/bases/work"}


@pytest.mark.parametrize(
    ("name", "kind", "message"),
    [
        ("crds/x", LINK, f"unknown type: {LINK} in crds/x"),
        ("crds", tar.FILE, "the given file contains unexpected file path: crds"),
        ("other/x", tar.FILE, "the given file contains unexpected file path: other/x"),
        ("other/", tar.DIRECTORY, "the given file contains unexpected file dir: other/"),
        ("crdsx/a", tar.FILE, "the given file contains unexpected file path: crdsx/a"),
        ("/crds/x", tar.FILE, "the given file contains unexpected file path: /crds/x"),
        ("crds/../x", tar.FILE, "the given file contains unclean file path: crds/../x"),
        ("crds//x", tar.FILE, "the given file contains unclean file path: crds//x"),
        ("crds/./x/", tar.DIRECTORY, "the given file contains unclean file dir: crds/./x/"),
        ("", tar.FILE, "the given file contains unclean file path: "),
    ],
)
def test_names_outside_the_directory_or_with_dots_are_refused(name: str, kind: int, message: str) -> None:
    assert refusal(name, kind) == message


@pytest.mark.parametrize("character", ["\\", "\n", "\x00", "\x1f", "\x7f"])
def test_characters_that_break_paths_or_lines_are_refused(character: str) -> None:
    name = f"crds/a{character}b"
    assert refusal(name) == f"the given file contains a name with {character!r}: {name!r}"


@pytest.mark.parametrize(
    ("path", "is_allowed"),
    [
        ("crds/" + "n" * 255, True),
        ("crds/" + "n" * 256, False),
        ("crds/" + "é" * 128, False),
        ("/".join(["crds"] * 16), True),
        ("/".join(["crds"] * 17), False),
        ("crds/" + "/".join(["n" * 253] * 4) + "nnn", False),
        ("crds/" + "/".join(["n" * 253] * 3) + "/" + "n" * 254 + "nnn", False),
    ],
)
def test_lengths_and_depths_have_limits_in_bytes(path: str, *, is_allowed: bool) -> None:
    if is_allowed:
        assert admit(Names(), path) == path
    else:
        assert "the given file contains too long a" in refusal(path)


@pytest.mark.parametrize(
    ("first", "second", "message"),
    [
        (("crds/x", tar.FILE), ("crds/x", tar.FILE), "a file twice: crds/x"),
        (("crds/x", tar.FILE), ("crds/x/", tar.DIRECTORY), "a file and a directory: crds/x/"),
        (("crds/x", tar.FILE), ("crds/x/y", tar.FILE), "a file and a directory: crds/x/y"),
        (("crds/x/y", tar.FILE), ("crds/x", tar.FILE), "a file and a directory: crds/x"),
        (("crds/x/", tar.DIRECTORY), ("crds/x", tar.FILE), "a file and a directory: crds/x"),
    ],
)
def test_a_path_is_one_file_or_a_directory(first: tuple[str, int], second: tuple[str, int], message: str) -> None:
    names = Names()
    admit(names, *first)
    with pytest.raises(CRDsError) as caught:
        admit(names, *second)
    assert str(caught.value) == f"the given file contains {message}"


def test_a_directory_may_be_listed_again() -> None:
    names = Names()
    assert [admit(names, "crds/x/", tar.DIRECTORY) for _ in range(2)] == ["crds/x"] * 2


def test_a_leading_dot_is_removed_once_and_only_if_it_is_allowed() -> None:
    names = Names(normalize_dot=True)
    assert [admit(names, name, tar.DIRECTORY) for name in (".", "./", "./crds/")] == ["", "", "crds"]
    assert admit(names, "./crds/x") == "crds/x"
    assert names.path_of("./crds/y/", directory=True) == "crds/y"
    assert Names().path_of("./crds/y") == "./crds/y"
    assert refusal("././crds/x", normalize_dot=True) == "the given file contains unclean file path: ././crds/x"
    assert refusal(".", tar.FILE, normalize_dot=True) == "the given file contains unexpected file path: ."
    assert refusal("./crds/x").endswith(" (--normalize-dot accepts names as `tar -C directory .` writes them)")


CRDS = "work.karmada.io_works.yaml"
RELEASE = members(properties=1)


def flat() -> dict[str, bytes | None]:
    """Return a tarball as v0.9 to v1.6 have it: no directory per group, fixed addresses, placeholders without quotes."""
    made = {
        f"crds/bases/{name.rpartition('/')[2]}" if name.startswith("crds/bases/") else name: body
        for name, body in RELEASE.items()
        if body is not None or name.count("/") < 3
    }
    for name, body in made.items():
        if body is not None and name.startswith("crds/patches/"):
            fixed = body.replace(b"{{name}}.{{namespace}}", b"karmada-webhook.karmada-system")
            made[name] = fixed.replace(b'"{{caBundle}}"', b"{{caBundle}}")
    return made


def below(prefix: str, given: Mapping[str, bytes | None]) -> dict[str, bytes | None]:
    parts = prefix.split("/")
    parents = ["/".join(parts[:count]) + "/" for count in range(1, len(parts))]
    return {**dict.fromkeys(parents), **{f"{prefix}{name}": body for name, body in given.items()}}


def rename(given: Mapping[str, bytes | None]) -> dict[str, bytes | None]:
    return {f"_{name}": body for name, body in given.items()}


@pytest.mark.parametrize(
    ("given", "layout"),
    [
        (RELEASE, "a directory below crds/bases/ for each API group, as in Karmada 1.7 and later"),
        (flat(), "all CRDs directly in crds/bases/, as in Karmada 0.9 to 1.6"),
        ({**small(), "crds/bases/x.yaml": crd("xes", "work.karmada.io")}, "some CRDs directly in crds/bases/"),
    ],
    ids=["since 1.7", "0.9 to 1.6", "mixed"],
)
def test_a_tarball_of_any_release_is_verified_and_its_layout_described(
    given: dict[str, bytes | None], layout: str
) -> None:
    found = verify(build(given))
    assert (found.warnings, found.operator_problems) == ((), ())
    assert describe(found.files).startswith(layout)


@pytest.mark.parametrize(
    ("given", "refused", "advice"),
    [
        (rename(small()), "dir: _crds/", "rename _crds to crds, pack it by `tar -czf crds.tar.gz crds`"),
        (
            {"karmada/": None, "karmada/Chart.yaml": b"", **below("karmada/", rename(flat()))},
            "dir: karmada/",
            "this is the layout of Karmada's repository and chart: unpack it, rename karmada/_crds to crds",
        ),
        (below("karmada-1.8.0/charts/karmada/", rename(small())), "dir: karmada-1.8.0/", "karmada-1.8.0/charts/karmada/_"),
        (below("release/", small()), "dir: release/", "the directory crds is below release/: unpack it, and pack release/crds"),
        (
            below("karmada-0.8.0/artifacts/deploy/", {CRDS: crd("works", "work.karmada.io")}),
            "dir: karmada-0.8.0/",
            "layout of Karmada releases before 0.9, whose CRDs are in karmada-0.8.0/artifacts/deploy: use",
        ),
        ({"bases/": None, f"bases/{CRDS}": b""}, "dir: bases/", "the content of the directory crds without the directory"),
        ({"kustomization.yaml": b""}, "path: kustomization.yaml", "the content of the directory crds without"),
        ({CRDS: b""}, f"path: {CRDS}", "the content of the directory crds without the directory: pack it by"),
        ({"._crds": b"", **small()}, "path: ._crds", "metadata of macOS: pack the directory again by `COPYFILE_DISABLE=1"),
        ({**small(), "others/": None}, "dir: others/", ""),
        ({**small(), "my_crds/a": b""}, "path: my_crds/a", ""),
    ],
)  # fmt: skip
def test_other_layouts_are_named(given: dict[str, bytes | None], refused: str, advice: str) -> None:
    with pytest.raises(CRDsError) as caught:
        verify(build(given))
    # Karmada's operator (v1.18.0) stops at the same entry, with the text up to the advice.
    message, _, found = str(caught.value).partition(" (")
    assert (caught.value.exit, message) == (Exit.ARCHIVE, f"the given file contains unexpected file {refused}")
    assert advice in found
    assert bool(found) is bool(advice)


def test_damage_behind_another_layout_is_reported() -> None:
    with pytest.raises(CRDsError) as caught:
        verify(build(rename(small()))[:-9])
    assert caught.value.exit is Exit.INTEGRITY


def test_metadata_of_macos_among_the_crds_is_named() -> None:
    with pytest.raises(CRDsError, match=r"crds/bases/work/\._x.yaml: this is metadata of macOS"):
        verify(build({**small(), "crds/bases/work/._x.yaml": b"\0\5\x16\7"}))


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
        (lambda top: (top / "a.yaml").write_bytes(b"x"), ["crds/a.yaml has different content"]),
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
