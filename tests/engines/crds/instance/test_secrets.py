"""Credentials and authorities of an instance's Secrets in its source."""

from typing import Any

import pytest

from fleethook.engines.crds.crds_errors import CRDsError, Exit
from fleethook.engines.crds.instance.secrets import apply_secrets
from fleethook.engines.crds.instance.source_selection import select_source
from fleethook.engines.crds.source import Credentials, Source

URL = "https://h/crds.tar.gz"


def resolved(secrets: dict[str, dict[str, bytes]], **members: Any) -> Source:
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
    assert resolved({"s": data}, secretRef={"name": "s"}) == Source(URL, credentials=credentials)


def test_authorities_and_the_user_of_a_proxy_have_secrets_of_their_own() -> None:
    found = resolved(
        {"c": {"ca.crt": b"pem"}, "p": {"username": b"a@b", "password": b"x/y:z"}},
        caSecretRef={"name": "c"},
        proxy={"proxyURL": "http://old:user@proxy:8080", "secretRef": {"name": "p"}},
    )
    assert found == Source(URL, ca_pem=b"pem", proxy_url="http://a%40b:x%2Fy%3Az@proxy:8080")


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


def test_without_references_nothing_is_looked_at() -> None:
    assert resolved({}) == Source(URL)


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


def test_a_secret_that_is_not_there_may_still_come() -> None:
    with pytest.raises(CRDsError, match="there is no Secret s") as caught:
        resolved({}, secretRef={"name": "s"})
    assert caught.value.transient
