"""Tarballs that we can use and Karmada's own operator cannot."""

import tarfile

import pytest

from app.crds.archive import archive
from tests.crds.tarballs import build, dotted, member, pack, release, small, tar


def problems(tarball: bytes, *, normalize_dot: bool = False) -> tuple[str, ...]:
    return archive.verify(tarball, normalize_dot=normalize_dot).operator_problems


def with_global_header() -> bytes:
    plain = tar((member(name, body), body or b"") for name, body in small().items())
    header = tarfile.TarInfo.create_pax_global_header({"comment": "0" * 40})
    return pack(header + plain)


def without(*names: str) -> bytes:
    return build({name: body for name, body in small().items() if name not in names})


def test_the_operator_can_use_a_release() -> None:
    assert problems(release()) == ()
    assert problems(build(small())) == ()


@pytest.mark.parametrize(
    ("tarball", "text"),
    [
        (with_global_header(), "it has a pax global header, as `git archive` writes it (unknown type: 103)"),
        (
            without("crds/bases/work/"),
            "crds/bases/work/work.karmada.io_works.yaml comes before an entry for its directory crds/bases/work/ (no such file or directory)",
        ),
        (without("crds/"), "crds/bases/ comes before an entry for its directory crds/ (no such file or directory)"),
        (
            pack(
                tar([(member(name, body), body or b"") for name, body in [*small().items(), ("crds/patches/", None)]])
            ),
            "the directory crds/patches/ has two entries (file exists)",
        ),
    ],
)
def test_reasons_why_the_operator_cannot_use_a_tarball_are_named(tarball: bytes, text: str) -> None:
    assert problems(tarball)[0] == text


def test_the_operator_refuses_names_with_a_leading_dot() -> None:
    found = problems(dotted(), normalize_dot=True)
    assert found[0] == "the name ./ begins with ./ (unclean file dir or path)"
    assert len(found) > 1


def test_the_list_of_reasons_is_limited() -> None:
    many = {f"crds/bases/d{number}/a.txt": b"" for number in range(1000)}
    assert len(problems(build({**small(), **many}))) == 16
