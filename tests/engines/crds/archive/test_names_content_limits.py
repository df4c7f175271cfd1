"""Tests of the limits of a tarball."""

import tarfile
from collections.abc import Mapping

import pytest

from fleethook.engines.crds.archive.names_content_limits import ArchiveLimits, Content, Names, describe
from fleethook.engines.crds.archive.tarball_unpacking import verify
from fleethook.engines.crds.redaction_and_exit_codes import CRDsError, Exit
from tests.engines.crds.tarballs import build, crd, members, patch, small

DIRECTORIES = {"crds", "crds/bases", "crds/patches"}
WORKS = crd("works", "work.karmada.io")


def warnings(**files: bytes) -> tuple[str, ...]:
    content = Content()
    content.add("crds/bases/works.yaml", WORKS)
    for path, body in files.items():
        content.add(path, body)
    return content.finish(DIRECTORIES)


def refusal(**files: bytes) -> str:
    with pytest.raises(CRDsError) as caught:
        warnings(**files)
    assert caught.value.exit is Exit.ARCHIVE
    return str(caught.value)


def test_a_release_is_without_warnings() -> None:
    content = Content()
    for path, body in members().items():
        if body is not None:
            content.add(path, body)
    assert content.finish(DIRECTORIES) == ()


def test_there_has_to_be_a_crd() -> None:
    content = Content()
    content.add("crds/works.yaml", WORKS)  # outside of crds/bases: ignored
    content.add("crds/bases/works.txt", WORKS)
    with pytest.raises(CRDsError) as caught:
        content.finish(DIRECTORIES)
    assert (caught.value.exit, str(caught.value)) == (Exit.ARCHIVE, "there is no CRD under crds/bases")


@pytest.mark.parametrize("missing", sorted(DIRECTORIES))
def test_the_directories_that_the_operator_looks_for_have_to_be_there(missing: str) -> None:
    content = Content()
    content.add("crds/bases/works.yaml", WORKS)
    with pytest.raises(CRDsError) as caught:
        content.finish(DIRECTORIES - {missing})
    assert str(caught.value) == f"Lacking the necessary file path: {missing}"


@pytest.mark.parametrize(
    "body",
    [
        WORKS.replace(b"apiextensions.k8s.io/v1", b"apiextensions.k8s.io/v1beta1"),
        WORKS.replace(b"kind: CustomResourceDefinition", b"kind: ConfigMap"),
        b"",
        b"# nothing but a comment",
        b"- apiVersion: apiextensions.k8s.io/v1",
        b"text",
        b"---\n---\n" + WORKS,
    ],
)
def test_a_base_that_is_no_crd_is_refused(body: bytes) -> None:
    text = "crds/bases/x.yaml is not a CustomResourceDefinition of apiextensions.k8s.io/v1"
    assert refusal(**{"crds/bases/x.yaml": body}) == text


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (b"\xff\xfea\0", "it is not UTF-8"),
        (b"a: [", "it is not YAML in line 2: did not find expected node content"),
        (WORKS + b"\tx: y", "it is not YAML in line"),
        (b"a: \x01", "it is not YAML: a character that YAML does not allow"),
        (b"a: &x 1\nb: *x", "it has aliases"),
        (b"a: " + b"[" * 300, "it has more than 200 levels"),
    ],
)
def test_a_base_that_cannot_be_read_is_refused(body: bytes, text: str) -> None:
    assert refusal(**{"crds/bases/x.yaml": body}).startswith(f"crds/bases/x.yaml cannot be read: {text}")


@pytest.mark.parametrize(
    ("name", "group"),
    [
        ("works", "work.karmada.io"),
        ("worksof.work.karmada.io", ""),
        ("x.", ""),
        ("evilwork.karmada.io", "work.karmada.io"),
        ("", "work.karmada.io"),
    ],
)
def test_a_name_that_is_not_of_its_group_is_refused(name: str, group: str) -> None:
    body = f"{{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {{name: {name!r}}}, spec: {{group: {group!r}}}}}"
    reason = f"CRD of group {group!r}" if name == "works" or name.startswith(("worksof", "evil")) else "DNS subdomain"
    text = f"crds/bases/x.yaml is called {name!r}, which is no {reason}"
    assert refusal(**{"crds/bases/x.yaml": body.encode()}) == text


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (WORKS + b"kind: Other\n", "duplicate key 'kind'"),
        (WORKS.replace(b"  name: works.", b"  name: x\n  name: works."), "duplicate key 'name'"),
        (WORKS + b"x: {y: {z: 1, z: 2}}\n", "duplicate key 'z'"),
        (WORKS + b"x: !!binary y\n", "the tag !!binary is not supported"),
        (WORKS + b"x: .nan\n", "nan is not a number that JSON has"),
    ],
)
def test_a_base_that_cannot_be_rendered_is_refused(body: bytes, text: str) -> None:
    assert text in refusal(**{"crds/bases/x.yaml": body})


def test_all_bases_share_one_budget() -> None:
    content = Content(ArchiveLimits(yaml_bytes=2 * len(WORKS)))
    content.add("crds/bases/a.yaml", WORKS)
    content.add("crds/bases/b.yaml", WORKS.replace(b"works.", b"xorks."))
    for path in ("crds/bases/c.yaml", "crds/patches/x_works.yaml"):
        with pytest.raises(CRDsError) as caught:
            content.add(path, b"#")
        assert caught.value.exit is Exit.LIMIT


def test_two_files_with_one_crd_are_refused() -> None:
    text = "crds/bases/x/again.yaml has the same CRD as crds/bases/works.yaml: works.work.karmada.io"
    assert refusal(**{"crds/bases/x/again.yaml": WORKS}) == text


def test_a_patch_for_a_crd_that_is_not_there_is_refused() -> None:
    path = "crds/patches/webhook_in_others.yaml"
    assert (
        refusal(**{path: patch("works")}) == f"{path} patches others.work.karmada.io, which the tarball does not have"
    )
    assert warnings(**{"crds/patches/webhook_in_works.yaml": patch("others")}) == ()  # by the name of the file alone


@pytest.mark.parametrize(
    ("group", "warned"),
    [
        ("work.karmada.io", False),
        ("karmada.io", False),
        ("multicluster.x-k8s.io", False),
        ("example.com", True),
        ("evilkarmada.io", True),
        ("work.karmada.io.example.com", True),
    ],
)
def test_groups_of_others_are_warned_of(group: str, warned: bool) -> None:
    found = warnings(**{"crds/bases/x.yaml": crd("xs", group)})
    assert found == (
        (f"crds/bases/x.yaml has a CRD of group {group}, which is not a group of Karmada",) if warned else ()
    )


def test_files_that_the_operator_ignores_are_warned_of() -> None:
    assert warnings(
        **{
            "crds/bases/x.yaml": crd("xs", "x.karmada.io") + b"---\n" + crd("ys", "y.karmada.io"),
            "crds/bases/y.yml": b"not even read: [",
            "crds/patches/y.yml": b"",
            "crds/other.yml": b"",
        }
    ) == (
        "crds/bases/x.yaml has 2 documents: only the first is applied",
        "crds/bases/y.yml is not applied: only files named *.yaml are",
        "crds/patches/y.yml is not applied: only files named *.yaml are",
    )


FILE, DIRECTORY, LINK = tarfile.REGTYPE, tarfile.DIRTYPE, tarfile.SYMTYPE


def admit(names: Names, name: str, kind: bytes = FILE) -> str:
    info = tarfile.TarInfo(name.rstrip("/") if kind == DIRECTORY else name)
    info.type = kind
    return names.admit(info)


def refuse_name(name: str, kind: bytes = FILE) -> str:
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
    assert refuse_name(name, kind) == message


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
