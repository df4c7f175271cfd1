"""Tests of the headers of a request for a tarball."""

import base64

import pytest

from fleethook.engines.crds.crds_errors import CRDsError, Exit
from fleethook.engines.crds.download.request_headers import (
    Validators,
    build_condition_headers,
    build_credential_headers,
    check_credentials,
)
from fleethook.engines.crds.download.response import Address
from fleethook.engines.crds.source import Credentials, Source

ADDRESS = Address("https://h/c", ("https", "h", 443), "")
KNOWN = Validators('"e"', "Mon, 01 Jun 2026 00:00:00 GMT")


def build(credentials: Credentials, userinfo: str = "", *, own: bool = True) -> dict[str, str]:
    source = Source("https://h/c", credentials=credentials)
    return build_credential_headers(source, ADDRESS._replace(userinfo=userinfo), own=own)


def basic(pair: str) -> dict[str, str]:
    return {"Authorization": f"Basic {base64.b64encode(pair.encode()).decode()}"}


def test_a_mirror_of_another_origin_gets_its_own_userinfo_only() -> None:
    given = Credentials(headers=(("X-Token", "t"),), username="u", password="p")
    assert build(given) == {"X-Token": "t", **basic("u:p")}
    assert build(given, own=False) == {}
    assert build(given, "m:n", own=False) == basic("m:n")


def test_a_pair_is_decoded_and_sent_as_utf8() -> None:
    assert build(Credentials(), "%C3%BC:p%40") == basic("ü:p@")
    assert build(Credentials(), "token") == basic("token:")


def test_an_authorization_header_takes_the_place_of_a_pair() -> None:
    given = Credentials(headers=(("authorization", "Bearer t"),), username="u")
    assert build(given, "a:b") == {"authorization": "Bearer t"}


@pytest.mark.parametrize("header", [("X Y", "t"), ("X-Token", "secret\r\nEvil: 1"), ("X-Token", "secret\u20ac")])
def test_a_header_that_cannot_be_sent_is_refused_without_its_value(header: tuple[str, str]) -> None:
    with pytest.raises(CRDsError, match="of the source's credentials cannot be sent") as caught:
        check_credentials(Source("https://h/c", credentials=Credentials(headers=(header,))))
    assert caught.value.exit is Exit.USAGE
    assert "secret" not in str(caught.value)


def test_a_request_asks_for_the_rest_or_for_a_change() -> None:
    assert build_condition_headers(KNOWN, size=5, etag='"p"') == {"Range": "bytes=5-", "If-Range": '"p"'}
    changed = {"If-None-Match": KNOWN.etag, "If-Modified-Since": KNOWN.last_modified}
    assert build_condition_headers(KNOWN, size=5, etag="") == changed
    assert build_condition_headers(Validators(), size=0, etag='"p"') == {}


def test_validators_that_are_no_header_values_are_not_sent() -> None:
    assert Validators('"e"\n', "x" * 1025).usable() == Validators()
    assert KNOWN.usable() == KNOWN
