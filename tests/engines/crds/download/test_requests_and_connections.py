"""Tests of the rules for an origin's response."""

import logging
import socket
import ssl
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from urllib3.exceptions import ProtocolError

from fleethook.cluster.certificates.authority_and_serving_certificate import issue_serving, new_authority
from fleethook.engines.crds.download import requests_and_connections
from fleethook.engines.crds.download.download_errors_and_retries import AttemptError
from fleethook.engines.crds.download.requests_and_connections import (
    DownloadDeadline,
    DownloadRequest,
    build_tls_context,
    find_redirect,
    parse_address,
    send_request,
)
from fleethook.engines.crds.instance.source_and_secrets import Credentials, TarballSource
from fleethook.engines.crds.redaction_and_exit_codes import CRDsError, Exit
from fleethook.outbound.private_addresses_and_proxies import PrivateAddressError
from tests.engines.crds.origin import Asked, head, says, serving
from tests.engines.crds.origin import Connection as OriginConnection
from tests.pki import CLIENT_USAGE, certify, encode_key
from tests.waiting import NET


@pytest.fixture
def deadline() -> Iterator[DownloadDeadline]:
    with DownloadDeadline(NET) as running:
        yield running


def request_to(url: str, ca_pem: bytes = b"", **given: object) -> DownloadRequest:
    context = build_tls_context(TarballSource(url, ca_pem=ca_pem), identified=False)
    return DownloadRequest(url, {"Accept": "*/*"}, context, **given)  # type: ignore[arg-type]


def get(request: DownloadRequest, deadline: DownloadDeadline) -> tuple[int, bytes]:
    with send_request(request, deadline) as response:
        return response.status, response.read(decode_content=False)


def test_the_checked_address_is_dialled_and_no_other(
    deadline: DownloadDeadline, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked_up, answers = list[str](), [["127.0.0.1"], ["127.0.0.1", "127.0.0.2"]]
    resolve = socket.getaddrinfo

    def look_up(name: str, port: int, *rest: Any, **more: Any) -> list[Any]:
        looked_up.append(name)
        numbers = answers.pop(0) if name == "crds.test" else [name]
        return [info for number in numbers for info in resolve(number, port, *rest, **more)]

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    # Only this address counts as public here.
    monkeypatch.setattr(requests_and_connections, "is_private", lambda address: address != "127.0.0.1")
    with serving(says(b"ok")) as origin:
        request = request_to(f"http://crds.test:{origin.port}/", allow_private=False)
        assert get(request, deadline) == (200, b"ok")
        assert (origin.asked[0].headers["host"], looked_up) == (f"crds.test:{origin.port}", ["crds.test", "127.0.0.1"])
        # One private address among several is enough for a refusal.
        with pytest.raises(ProtocolError) as raised:
            get(request, deadline)
        assert isinstance(raised.value.args[1], PrivateAddressError)
        assert origin.connections == 1


@pytest.mark.parametrize(
    ("proxy", "text"),
    [
        ("ftp://proxy:21", "it must be http or https, and have a host"),
        ("http://", "it must be http or https, and have a host"),
        ("socks5://proxy:1080", "fleethook uses no SOCKS proxies"),
        ("http://[::1", "it must have a host"),
        ("http://user:pa/ss@proxy:80", "percent-encode the user and the password"),
    ],
)
def test_an_unusable_proxy_is_a_usage_error_without_its_password(
    deadline: DownloadDeadline, proxy: str, text: str
) -> None:
    with pytest.raises(CRDsError, match=text) as raised:
        get(request_to("http://127.0.0.1:9/", proxy_url=proxy), deadline)
    assert raised.value.exit is Exit.USAGE
    assert "pa/ss" not in str(raised.value)


def test_a_query_is_not_logged(deadline: DownloadDeadline, caplog: pytest.LogCaptureFixture) -> None:
    with serving(says(b"ok")) as origin, caplog.at_level(logging.DEBUG):
        get(request_to(f"{origin.url}?signature=secret", origin.ca_pem), deadline)
    assert "signature" not in caplog.text


def test_the_connection_ends_with_the_block_without_reading_the_body(deadline: DownloadDeadline) -> None:
    def endless(_: Asked, to: OriginConnection) -> None:
        to.send(head())
        while True:
            to.send(b"x" * 65536)

    with serving(endless) as origin, send_request(request_to(origin.url, origin.ca_pem), deadline) as response:
        assert response.read1(10, decode_content=False)


URL = "https://h/a/crds.tar.gz"


@pytest.mark.parametrize(
    ("url", "plain", "origin", "userinfo"),
    [
        (" https://H/a b#c ", "https://h/a%20b", ("https", "h", 443), ""),
        ("http://u:p@h:8080", "http://h:8080/", ("http", "h", 8080), "u:p"),
    ],
)
def test_an_address_has_no_userinfo_and_no_fragment(
    url: str, plain: str, origin: tuple[str, str, int], userinfo: str
) -> None:
    assert parse_address(url) == (plain, origin, userinfo)


@pytest.mark.parametrize(
    ("status", "location", "target"),
    [
        (302, "/b", "https://h/b"),
        (308, "c", "https://h/a/c"),
        (301, "https://other/x#y", "https://other/x"),
        (200, "/b", None),
        (302, "", None),
    ],
)
def test_a_redirect_is_relative_to_its_url(status: int, location: str, target: str | None) -> None:
    assert find_redirect(status, {"Location": location}, URL) == target


@pytest.mark.parametrize(
    ("location", "message"),
    [("http://h/", "redirected from https to http"), ("ftp://h/", "redirected to a URL that is not http or https")],
)
def test_a_redirect_to_a_weaker_scheme_is_refused(location: str, message: str) -> None:
    with pytest.raises(AttemptError, match=message):
        find_redirect(302, {"Location": location}, URL)


NOW = datetime.now(UTC)
AUTHORITY = new_authority(now=NOW)
PAIR = issue_serving(AUTHORITY, names=["origin.example.org"], now=NOW)


KEY = ec.generate_private_key(ec.SECP256R1())
CLIENT, CLIENT_KEY = certify("client", "fleethook CA", KEY, AUTHORITY.key, CLIENT_USAGE), encode_key(KEY)
KNOWN = Credentials(client_certificate_pem=CLIENT, client_key_pem=CLIENT_KEY)
ORIGIN = "https://origin.example.org/crds.tar.gz"


def shake_hands(client: ssl.SSLContext, directory: Path) -> bytes | None:
    """Return the certificate that a client presents to a server of the authority, by a handshake in memory."""
    for name, text in (("crt", PAIR.certificate_pem), ("key", PAIR.key_pem), ("ca", AUTHORITY.certificate_pem)):
        (directory / name).write_bytes(text)
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(directory / "crt", directory / "key")
    server.load_verify_locations(directory / "ca")
    server.verify_mode = ssl.CERT_OPTIONAL
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ours = client.wrap_bio(to_client, to_server, server_hostname="origin.example.org")
    theirs = server.wrap_bio(to_server, to_client, server_side=True)
    done: set[ssl.SSLObject] = set()
    while len(done) < 2:
        for side in (ours, theirs):
            try:
                side.do_handshake()
                done.add(side)
            except ssl.SSLWantReadError:
                pass
    return theirs.getpeercert(binary_form=True)


def test_only_the_given_authorities_are_trusted(tmp_path: Path) -> None:
    other = new_authority(now=NOW).certificate_pem
    assert (
        shake_hands(
            build_tls_context(TarballSource(ORIGIN, ca_pem=AUTHORITY.certificate_pem), identified=False), tmp_path
        )
        is None
    )
    with pytest.raises(ssl.SSLCertVerificationError):
        shake_hands(build_tls_context(TarballSource(ORIGIN, ca_pem=other), identified=False), tmp_path)


@pytest.mark.parametrize("identified", [False, True])
def test_the_client_certificate_is_presented_to_the_origin_only(tmp_path: Path, identified: bool) -> None:
    source = TarballSource(ORIGIN, ca_pem=AUTHORITY.certificate_pem, credentials=KNOWN)
    shown = shake_hands(build_tls_context(source, identified=identified), tmp_path)
    assert shown == (ssl.PEM_cert_to_DER_cert(CLIENT.decode()) if identified else None)


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"ca_pem": b"no certificate"}, "the CA bundle has no PEM certificate"),
        ({"credentials": KNOWN._replace(client_key_pem=b"")}, "key"),
        ({"credentials": KNOWN._replace(client_key_pem=AUTHORITY.key_pem)}, "key"),
        ({"credentials": KNOWN._replace(client_certificate_pem=b"nothing")}, "certificate"),
    ],
)
def test_unusable_files_are_a_usage_error_without_their_content(changes: dict[str, object], text: str) -> None:
    source = TarballSource(ORIGIN)._replace(**changes)  # type: ignore[arg-type]
    with pytest.raises(CRDsError, match=text) as raised:
        build_tls_context(source, identified=True)
    assert raised.value.exit is Exit.USAGE
    assert "BEGIN" not in str(raised.value)
