"""The source of an instance's tarball, by its fields and the defaults."""

import base64
import hashlib
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given

from fleethook.cluster.certificates.authority_and_serving_certificate import new_authority
from fleethook.engines.crds.instance.source_and_secrets import (
    Credentials,
    SecretReferences,
    SelectedSource,
    TarballSource,
    apply_secrets,
    select_source,
)
from fleethook.engines.crds.redaction_and_exit_codes import CRDsError, Exit
from fleethook.model.crd_tarball import Policy
from tests.engines.crds.anything import TARBALLS

URL = "https://h/crds.tar.gz"


def release(version: str) -> str:
    return f"https://github.com/karmada-io/karmada/releases/download/{version}/crds.tar.gz"


def chosen(tarball: Any = None, components: Any = None, **options: Any) -> SelectedSource:
    karmada = {
        "metadata": {"name": "k", "namespace": "n"}, "spec": {"crdTarball": tarball, "components": components},
    }  # fmt: skip
    return select_source(karmada, **{"version": "v1.10.0", **options})


def tagged(*tags: str) -> dict[str, Any]:
    names = ("karmadaWebhook", "karmadaSearch", "karmadaScheduler")
    return {name: {"imageTag": tag} for name, tag in zip(names, tags, strict=False)}


@pytest.mark.parametrize("tarball", [None, {}, {"httpSource": None}, {"httpSource": {}}, {"crdDownloadPolicy": None}])
def test_the_default_is_the_operators_release_if_not_present(tarball: Any) -> None:
    assert chosen(tarball) == SelectedSource(TarballSource(release("v1.10.0")), Policy.IF_NOT_PRESENT)


def test_each_missing_field_gets_its_default() -> None:
    found = chosen({"httpSource": {"proxy": {"proxyURL": "http://p:8080"}, "sha256": "A" * 64}})
    assert found.source == TarballSource(release("v1.10.0"), proxy_url="http://p:8080", sha256="a" * 64)


def test_every_member_has_its_place() -> None:
    authority = new_authority(now=datetime.now(UTC)).certificate_pem
    source = {
        "url": URL,
        "proxy": {"proxyURL": "http://p:8080", "noProxy": [" a ", ".b"], "secretRef": {"name": "through"}},
        "sha256": "b" * 64,
        "mirrors": ["https://m/1", "https://m/2"],
        "caBundle": base64.b64encode(authority).decode(),
        "secretRef": {"name": "in"},
        "timeoutSeconds": 7,
        "maxBytes": 8,
    }
    found = chosen({"httpSource": source})
    assert found.source == TarballSource(
        URL, proxy_url="http://p:8080", no_proxy=("a", ".b"), sha256="b" * 64,
        mirrors=("https://m/1", "https://m/2"), ca_pem=authority, seconds=7.0, max_bytes=8,
    )  # fmt: skip
    assert found.references == SecretReferences(credentials="in", authorities="", proxy="through")
    assert chosen({"httpSource": {"caSecretRef": {"name": "c"}}}).references == SecretReferences(authorities="c")


def test_a_version_is_that_release_and_keeps_how_it_is_got_at() -> None:
    found = chosen({"version": "v1.8.0", "httpSource": {"proxy": {"proxyURL": "http://p"}}}, version="no version")
    assert found.source == TarballSource(release("v1.8.0"), proxy_url="http://p")


def test_an_invalid_version_is_an_error_only_if_it_is_used() -> None:
    assert chosen({"httpSource": {"url": URL}}, version="nightly").source == TarballSource(URL)
    with pytest.raises(CRDsError, match=r"^unexpected karmada invalid version <nil>") as caught:
        chosen(version="nightly")
    assert caught.value.exit is Exit.USAGE
    assert not caught.value.transient


def test_the_release_of_the_images_is_followed_only_if_asked_for() -> None:
    told = chosen(components=tagged("v1.9.0", "v1.9.0"))
    assert told.source.url == release("v1.10.0")
    assert told.warnings == ("spec.components: the images are of v1.9.0, but the CRDs will be of v1.10.0",)
    followed = chosen(components=tagged("v1.9.0", "v1.9.0@sha256:aa"), follow_instance=True)
    assert followed == SelectedSource(TarballSource(release("v1.9.0")), Policy.IF_NOT_PRESENT)
    assert chosen(components=tagged("v1.10.0")).warnings == ()


@pytest.mark.parametrize("follow", [True, False])
@pytest.mark.parametrize(
    ("tags", "warning"),
    [
        (("v1.9.0", "v1.8.0"), "image tags disagree (karmadaWebhook v1.9.0, karmadaSearch v1.8.0)"),
        (("latest",), "the image tag latest is no release"),
        (("1.9.0",), "the image tag 1.9.0 is no release"),
        (("v1.9",), "the image tag v1.9 is no release"),
    ],
)
def test_images_without_a_release_warn_and_fall_back_to_the_operators_release(
    tags: tuple[str, ...], warning: str, follow: bool
) -> None:
    found = chosen(components=tagged(*tags), follow_instance=follow)
    assert found.source.url == release("v1.10.0")
    so = "they say" if len(tags) > 1 else "it says"
    assert found.warnings == (f"spec.components: {warning}, so {so} nothing about the CRDs",)


def test_invalid_fields_are_refused_with_upstreams_message() -> None:
    with pytest.raises(CRDsError) as caught:
        chosen({"httpSource": {"url": "bad-url"}})
    text = 'validation errors: [spec.crdTarball.httpSource.url: Invalid value: "bad-url": invalid CRDs remote URL]'
    assert (str(caught.value), caught.value.exit) == (text, Exit.USAGE)


def test_credentials_in_a_url_are_refused_if_strict() -> None:
    tarball = {"httpSource": {"url": "https://u:hunter2@h/"}}
    assert "the URL has credentials" in chosen(tarball).warnings[0]
    with pytest.raises(CRDsError, match="name a Secret in secretRef"):
        chosen(tarball, strict=True)


def test_an_unknown_member_is_refused_however_deep_it_is() -> None:
    deep: Any = {}
    for _ in range(100_000):
        deep = {"later": deep}
    with pytest.raises(CRDsError, match=r"crdTarball.later: Forbidden: unknown field.*httpSource.later: Forbidden"):
        chosen({"later": deep, "httpSource": {"url": URL, "proxy": None, "later": deep}})


@given(TARBALLS, TARBALLS)
def test_anything_is_a_source_or_refused_by_name(tarball: Any, components: Any) -> None:
    refusal = ""
    try:
        assert len(chosen(tarball, components, follow_instance=True).source.key) == 64
    except CRDsError as error:
        refusal = str(error)
    assert refusal == "" or refusal.startswith("validation errors: [spec.crdTarball")


def resolved(secrets: dict[str, dict[str, bytes]], **members: Any) -> TarballSource:
    karmada = {"spec": {"crdTarball": {"httpSource": {"url": URL, **members}}}}
    return apply_secrets(select_source(karmada, version="v1.10.0"), secrets)


@pytest.mark.parametrize(
    ("data", "credentials"),
    [
        ({"username": b"u", "password": b"p\n"}, Credentials(username="u", password="p")),
        ({"token": b"t"}, Credentials(headers=(("Authorization", "Bearer t"),))),
        ({"token": b"t", "username": b"u", "password": b"p"}, Credentials(headers=(("Authorization", "Bearer t"),))),
        ({"tls.crt": b"c", "tls.key": b"k"}, Credentials(client_certificate_pem=b"c", client_key_pem=b"k")),
        (
            {"tls.crt": b"c", "tls.key": b"k", "username": b"u", "password": b"p"},
            Credentials(username="u", password="p", client_certificate_pem=b"c", client_key_pem=b"k"),
        ),
    ],
)
def test_credentials_are_read_by_the_keys_of_their_type(data: dict[str, bytes], credentials: Credentials) -> None:
    assert resolved({"s": data}, secretRef={"name": "s"}) == TarballSource(URL, credentials=credentials)


def test_authorities_and_the_user_of_a_proxy_have_secrets_of_their_own() -> None:
    found = resolved(
        {"c": {"ca.crt": b"pem"}, "p": {"username": b"a@b", "password": b"x/y:z"}},
        caSecretRef={"name": "c"},
        proxy={"proxyURL": "http://old:user@proxy:8080", "secretRef": {"name": "p"}},
    )
    assert found == TarballSource(URL, ca_pem=b"pem", proxy_url="http://a%40b:x%2Fy%3Az@proxy:8080")


@pytest.mark.parametrize(
    ("url", "with_user"),
    [
        ("HTTP://p", "HTTP://u:p@p"), ("socks5://p:1080/", "socks5://u:p@p:1080/"), ("http://[::1]:1?a@b/", "http://u:p@[::1]:1?a@b/"),
        ("http://℀/", "http://u:p@℀/"),
    ],
)  # fmt: skip
def test_any_proxy_gets_its_user(url: str, with_user: str) -> None:
    proxy = {"proxyURL": url, "secretRef": {"name": "s"}}
    assert resolved({"s": {"username": b"u", "password": b"p"}}, proxy=proxy).proxy_url == with_user


@pytest.mark.parametrize(
    ("data", "text"),
    [
        ({}, "the Secret s has none of username and password, token, or tls.crt and tls.key"),
        ({"username": b"hunter2"}, "the Secret s has no password"),
        ({"username": b"hunter2", "password": b""}, "the Secret s has no password"),
        ({"tls.crt": b"hunter2"}, "the Secret s has no tls.key"),
        ({"token": b"hunter2\r\nX-Other: 1"}, "the Secret s: token must be one line of printable text"),
        ({"token": b"hunter2\xff"}, "the Secret s: token must be one line of printable text"),
    ],
)
def test_a_missing_key_is_named_and_values_are_not(data: dict[str, bytes], text: str) -> None:
    with pytest.raises(CRDsError) as caught:
        resolved({"s": data}, secretRef={"name": "s"})
    assert (str(caught.value), caught.value.exit, caught.value.transient) == (text, Exit.USAGE, False)


def test_the_key_is_the_digest_of_the_url_alone() -> None:
    key = TarballSource("https://h/crds.tar.gz").key
    assert key == hashlib.sha256(b"https://h/crds.tar.gz").hexdigest()
    assert TarballSource(" https://h/crds.tar.gz\n", sha256="a" * 64, mirrors=("https://m/",)).key == key
    assert TarballSource("https://h/crds.tar.gz?x").key != key
