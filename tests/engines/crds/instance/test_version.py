"""Tests of releases and of versions of Karmada's operator."""

import pytest

from fleethook.engines.crds.crds_errors import CRDsError, Exit
from fleethook.engines.crds.instance.version import build_release_url, is_release, parse_release


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("v1.10.0", True), ("v1.10.0-rc.1", True), ("v0.0.0-alpha.0", True), ("1.10.0", False), ("v1.10", False),
        ("v01.1.0", False), ("v1.1.0-dev.1", False), ("v1.10.0 ", False), ("v1.1.\u0661", False), ("latest", False),
    ],
)  # fmt: skip
def test_a_release_has_the_form_of_its_tag(text: str, *, expected: bool) -> None:
    assert is_release(text) is expected


@pytest.mark.parametrize(
    ("version", "release"),
    [
        ("v1.1.1", "v1.1.1"),
        ("1.1.1", "v1.1.1"),
        (" v1.1.1\n", "v1.1.1"),
        ("v1.1.1-6-gf20c721a", "v1.1.1"),
        ("v1.1.1-6-gf20c721", "v1.1.1"),
        ("v1.2.0-rc.1-6-gf20c721", "v1.2.0-rc.1"),
    ],
)
def test_the_suffix_of_git_describe_is_left_out(version: str, release: str) -> None:
    assert parse_release(version) == release


@pytest.mark.parametrize("version", ["", "latest", "v1.1", "v1.1.1-"])
def test_another_version_is_an_error_of_the_caller(version: str) -> None:
    with pytest.raises(CRDsError, match="is not a semantic version") as caught:
        parse_release(version)
    assert caught.value.exit is Exit.USAGE


def test_a_release_has_its_url() -> None:
    url = "https://github.com/karmada-io/karmada/releases/download/v1.10.0/crds.tar.gz"
    assert build_release_url("v1.10.0") == url
