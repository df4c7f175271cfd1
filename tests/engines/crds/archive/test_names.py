"""The allowed names of a tarball, with upstream's messages."""

import pytest

from fleethook.engines.crds.archive import tar
from fleethook.engines.crds.archive.names import Names
from fleethook.engines.crds.crds_errors import CRDsError, Exit

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
