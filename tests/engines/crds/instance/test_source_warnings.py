"""Warnings about ``spec.crdTarball``."""

from typing import Any

import pytest

from fleethook.engines.crds.instance.source_validation import find_warnings, is_chosen_by_version

URL = "https://h/crds.tar.gz"

HTTP = "spec.crdTarball.httpSource"


def warned(**members: Any) -> list[str]:
    return list(find_warnings({"spec": {"crdTarball": {"httpSource": members}}}))


@pytest.mark.parametrize(
    ("members", "field"),
    [
        ({"url": "https://user:hunter2@h/"}, "url"),
        ({"url": URL, "mirrors": ["https://user:hunter2@h/"]}, "mirrors[0]"),
        ({"url": URL, "proxy": {"proxyURL": "http://user:hunter2@p/"}}, "proxy.proxyURL"),
    ],
)
def test_credentials_in_a_url_are_warned_of_without_showing_them(members: dict[str, Any], field: str) -> None:
    (warning,) = warned(**members)
    assert warning.startswith(f"{HTTP}.{field}: the URL has credentials")
    assert "hunter2" not in warning


def test_plain_http_is_warned_of_unless_the_digest_is_known() -> None:
    assert warned(url="https://h/") == []
    assert warned(url="http://h/", sha256="a" * 64) == []
    (warning,) = warned(url="http://h/")
    assert warning.startswith(f"{HTTP}.url: plain http without sha256")


def test_a_socks_proxy_is_admitted_with_a_warning_because_only_the_operator_uses_it() -> None:
    assert warned(url=URL, proxy={"proxyURL": "http://p:3128"}) == []
    (warning,) = warned(url=URL, proxy={"proxyURL": "socks5://p:1080"})
    assert warning.startswith(f"{HTTP}.proxy.proxyURL: fleethook downloads through HTTP proxies only")


def test_image_tags_that_disagree_are_warned_of_where_they_could_matter() -> None:
    components = {"karmadaWebhook": {"imageTag": "v1.9.0"}, "karmadaSearch": {"imageTag": "v1.8.0"}}
    (warning,) = find_warnings({"spec": {"components": components}})
    assert "image tags disagree (karmadaWebhook v1.9.0, karmadaSearch v1.8.0)" in warning
    for tarball in ({"httpSource": {"url": URL}}, {"version": "v1.9.0"}, {"localSource": {"path": "/a"}}):
        assert not list(find_warnings({"spec": {"components": components, "crdTarball": tarball}}))


@pytest.mark.parametrize(
    ("tarball", "expected"),
    [
        (None, True),
        ("text", True),
        ({"httpSource": {"sha256": "a"}}, True),
        ({"httpSource": {"url": ""}}, False),
        ({"version": "v1.9.0"}, False),
        ({"localSource": {}}, False),
    ],
)
def test_a_version_selects_the_tarball_unless_a_field_names_one(tarball: Any, *, expected: bool) -> None:
    assert is_chosen_by_version(tarball) is expected
