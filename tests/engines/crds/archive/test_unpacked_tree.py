"""The allowed paths of a tarball, and the layouts of releases and of other archives."""

import tarfile
from collections.abc import Mapping

import pytest

from fleethook.engines.crds.archive.archive import verify
from fleethook.engines.crds.archive.unpacked_tree import (
    Names,
    describe,
)
from fleethook.engines.crds.crds_errors import CRDsError, Exit
from tests.engines.crds.tarballs import build, crd, members, small

FILE, DIRECTORY, LINK = tarfile.REGTYPE, tarfile.DIRTYPE, tarfile.SYMTYPE


def admit(names: Names, name: str, kind: bytes = FILE) -> str:
    info = tarfile.TarInfo(name.rstrip("/") if kind == DIRECTORY else name)
    info.type = kind
    return names.admit(info)


def refusal(name: str, kind: bytes = FILE) -> str:
    with pytest.raises(CRDsError) as caught:
        admit(Names(), name, kind)
    assert caught.value.exit is Exit.ARCHIVE
    return str(caught.value)


def test_files_and_directories_are_kept_with_their_parents() -> None:
    names = Names()
    assert admit(names, "crds/", DIRECTORY) == "crds"
    assert admit(names, "crds/bases/work/a.yaml") == "crds/bases/work/a.yaml"
    assert names.files == {"crds/bases/work/a.yaml"}
    assert names.directories == {"crds", "crds/bases", "crds/bases/work"}


@pytest.mark.parametrize(
    ("name", "kind", "message"),
    [
        ("crds/x", LINK, "unknown type: 50 in crds/x"),
        ("crds", FILE, "the given file contains unexpected file path: crds"),
        ("other/x", FILE, "the given file contains unexpected file path: other/x"),
        ("other/", DIRECTORY, "the given file contains unexpected file dir: other/"),
        ("crdsx/a", FILE, "the given file contains unexpected file path: crdsx/a"),
        ("/crds/x", FILE, "the given file contains unexpected file path: /crds/x"),
        ("crds/../x", FILE, "the given file contains unclean file path: crds/../x"),
        ("crds//x", FILE, "the given file contains unclean file path: crds//x"),
        ("crds/./x/", DIRECTORY, "the given file contains unclean file dir: crds/./x/"),
        ("", FILE, "the given file contains unclean file path: "),
    ],
)
def test_names_outside_the_directory_or_with_dots_are_refused(name: str, kind: bytes, message: str) -> None:
    assert refusal(name, kind) == message


@pytest.mark.parametrize(
    ("first", "second", "message"),
    [
        (("crds/x", FILE), ("crds/x", FILE), "a file twice: crds/x"),
        (("crds/x", FILE), ("crds/x/", DIRECTORY), "a file and a directory: crds/x/"),
        (("crds/x", FILE), ("crds/x/y", FILE), "a file and a directory: crds/x/y"),
        (("crds/x/y", FILE), ("crds/x", FILE), "a file and a directory: crds/x"),
        (("crds/x/", DIRECTORY), ("crds/x", FILE), "a file and a directory: crds/x"),
    ],
)
def test_a_path_is_one_file_or_a_directory(first: tuple[str, bytes], second: tuple[str, bytes], message: str) -> None:
    names = Names()
    admit(names, *first)
    with pytest.raises(CRDsError) as caught:
        admit(names, *second)
    assert str(caught.value) == f"the given file contains {message}"


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
        ({"./": None, **{f"./{name}": body for name, body in small().items()}}, "dir: ./", "the directory crds is below ./: unpack it, and pack ./crds by"),
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


def test_metadata_of_macos_among_the_crds_is_named() -> None:
    with pytest.raises(CRDsError, match=r"crds/bases/work/\._x.yaml: this is metadata of macOS"):
        verify(build({**small(), "crds/bases/work/._x.yaml": b"\0\5\x16\7"}))
