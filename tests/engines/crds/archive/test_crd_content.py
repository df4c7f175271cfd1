"""Tests of the limits of a tarball."""

import pytest

from fleethook.engines.crds.archive.crd_content import ArchiveLimits, Content
from fleethook.engines.crds.crds_errors import CRDsError, Exit
from tests.engines.crds.tarballs import crd, members, patch

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
