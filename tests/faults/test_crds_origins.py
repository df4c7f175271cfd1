"""Origins of a tarball: redirects, certificates, proxies, and unreachable hosts."""

import contextlib
import socket
import ssl
from datetime import UTC, datetime
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from fleethook.cluster.certificates.authority_and_serving_certificate import new_authority
from fleethook.engines.crds.download.download_and_mirrors import download
from fleethook.engines.crds.instance.source_and_secrets import Credentials, TarballSource
from fleethook.engines.crds.redaction_and_exit_codes import CRDsError, Exit
from tests.engines.crds.downloading import BODY, Waits, fetched, refused
from tests.engines.crds.origin import head, proxying, redirects, serving, tarball
from tests.hook_server import Certificate
from tests.pki import CLIENT_USAGE, certify, encode_key

# ---- Redirects.


def test_a_redirect_to_itself_ends(into: Path) -> None:
    with serving(redirects("/crds.tar.gz")) as origin:
        refused(origin, into, Exit.HTTP)
    assert len(origin.asked) == 6


def test_from_https_to_http_is_refused(into: Path, tmp_path: Path) -> None:
    with serving(tarball(BODY)) as plain, serving(redirects(plain.url + "?sig=S3CR3T"), directory=tmp_path) as origin:
        failure = refused(origin, into, Exit.HTTP)
    assert str(failure) == (f"{origin.url}: redirected from https to http, which is refused: {plain.url}?sig=***")
    assert not plain.connections


@pytest.mark.parametrize(
    "to", ["ftp://e.com/x", "file:///etc/passwd", "http://[", "javascript:x", "https://", "http://a b/"]
)
def test_a_redirect_to_nowhere_is_refused(into: Path, to: str) -> None:
    with serving(redirects(to)) as origin:
        assert "redirected to a URL that is not http or https" in str(refused(origin, into, Exit.HTTP))


def test_a_redirect_in_another_alphabet_is_encoded(into: Path) -> None:
    with serving(
        lambda _, made: made.send(head("302 Found").replace(b"Conn", "Location: /ü x\r\nConn".encode()))
    ) as origin:
        origin.paths["/%C3%BC%20x"] = tarball(BODY)
        assert fetched(origin, into).changed


# ---- TLS.


@pytest.mark.parametrize(
    ("certificate", "reason"),
    [
        ("expired", "certificate has expired"),
        ("other name", "certificate is not valid for this address"),
        ("self-signed", "certificate signed by unknown authority (it is self-signed)"),
    ],
)
def test_a_wrong_certificate_is_final(into: Path, tmp_path: Path, certificate: Certificate, reason: str) -> None:
    with serving(tarball(BODY), directory=tmp_path, certificate=certificate) as origin:
        failure = refused(origin, into, Exit.TLS)
    assert str(failure) == f"{origin.url}: x509: {reason}"
    assert not failure.transient
    assert (origin.connections, origin.asked) == (1, [])


def test_an_unknown_authority_is_final(into: Path, tmp_path: Path) -> None:
    with serving(tarball(BODY), directory=tmp_path) as origin:
        failure = refused(origin, into, Exit.TLS, ca_pem=new_authority(now=datetime.now(UTC)).certificate_pem)
        assert "certificate signed by unknown authority" in str(failure)
        refused(origin, into, Exit.TLS, ca_pem=b"")
        refused(origin, into, Exit.USAGE, ca_pem=b"no certificate")


def test_an_origin_that_does_not_speak_tls_is_final(into: Path) -> None:
    with serving(tarball(BODY)) as origin:
        refused(origin, into, Exit.TLS, url=origin.url.replace("http:", "https:"))


def test_a_client_certificate_is_sent_to_its_origin_only_and_leaves_no_file(
    into: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    authority = new_authority(now=datetime.now(UTC))
    key = ec.generate_private_key(ec.SECP256R1())
    client = certify("operator", "fleethook CA", key, authority.key, CLIENT_USAGE)
    credentials = Credentials(client_certificate_pem=client, client_key_pem=encode_key(key))
    with serving(tarball(BODY), directory=tmp_path) as origin:
        (tmp_path / "clients.crt").write_bytes(authority.certificate_pem)
        assert origin._context is not None
        origin._context.load_verify_locations(tmp_path / "clients.crt")
        origin._context.verify_mode = ssl.CERT_REQUIRED
        assert fetched(origin, into, credentials=credentials).changed
        into.unlink()
        with pytest.raises(CRDsError):
            fetched(origin, into)
        with serving(redirects(origin.url)) as elsewhere, pytest.raises(CRDsError):
            fetched(elsewhere, into, credentials=credentials, ca_pem=origin.ca_pem)
    assert list(temporary.iterdir()) == []


def test_an_invalid_client_certificate_is_a_usage_error(into: Path, tmp_path: Path) -> None:
    credentials = Credentials(client_certificate_pem=b"S3CR3T", client_key_pem=b"S3CR3T")
    with serving(tarball(BODY), directory=tmp_path) as origin:
        assert "S3CR3T" not in str(refused(origin, into, Exit.USAGE, credentials=credentials))


# ---- Proxies and unreachable hosts.


@pytest.mark.parametrize("url", ["http://e.com/x", "https://e.com/x"])
@pytest.mark.parametrize("userinfo", ["", "u:S3CR3T@"])
def test_wrong_proxy_credentials_are_final(into: Path, url: str, userinfo: str) -> None:
    with serving(tarball(BODY)) as origin, proxying(origin, credentials="u:other") as proxy:
        address = f"http://{userinfo}127.0.0.1:{proxy.port}"
        failure = refused(origin, into, Exit.NETWORK, url=url, proxy_url=address)
    assert str(failure) == f"{url}: the proxy requires credentials (HTTP 407): give them in the proxy URL"
    assert len(proxy.asked) == 1
    assert not origin.connections


@pytest.mark.parametrize(("status", "attempts"), [("502 Bad Gateway", 4), ("403 Forbidden", 1)])
def test_a_proxy_that_refuses_a_tunnel(into: Path, status: str, attempts: int) -> None:
    with serving(tarball(BODY)) as origin, proxying(origin, refusal=head(status)) as proxy:
        failure = refused(origin, into, Exit.NETWORK, url="https://e.com/x", proxy_url=proxy.url)
    assert f"the proxy refused the tunnel: HTTP {status[:3]}" in str(failure)
    assert len(proxy.asked) == attempts


def _closed_port() -> int:
    with contextlib.closing(socket.create_server(("127.0.0.1", 0))) as free:
        return free.getsockname()[1]


def test_a_refused_connection_is_retried(into: Path) -> None:
    waits = Waits()
    with pytest.raises(CRDsError) as raised:
        download(TarballSource(f"http://127.0.0.1:{_closed_port()}/x"), into, sleep=waits.seconds.append)
    assert "connection refused (after 4 attempts)" in str(raised.value)
    assert (raised.value.exit, raised.value.transient, len(waits.seconds)) == (Exit.NETWORK, True, 3)


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_refused_connection_to_the_proxy_is_retried(into: Path, scheme: str) -> None:
    with pytest.raises(CRDsError) as raised:
        download(
            TarballSource(f"{scheme}://e.com/x", proxy_url=f"http://u:S3CR3T@127.0.0.1:{_closed_port()}"),
            into,
            sleep=lambda _: None,
        )
    assert "proxy: connection refused (after 4 attempts)" in str(raised.value)
    assert "S3CR3T" not in str(raised.value)


@pytest.mark.parametrize("allow_private", [True, False])
def test_an_invalid_host_name_is_not_retried(into: Path, allow_private: bool) -> None:
    waits = Waits()
    with pytest.raises(CRDsError) as raised:
        download(
            TarballSource(f"http://{'a' * 300}.example.com/x"),
            into,
            sleep=waits.seconds.append,
            env_proxies=False,
            allow_private=allow_private,
        )
    assert (raised.value.exit, waits.seconds) == (Exit.NETWORK, [])


def test_a_missing_name_is_a_transient_network_error(into: Path) -> None:
    with pytest.raises(CRDsError) as raised:
        download(TarballSource("http://crds.invalid/x"), into, sleep=lambda _: None, env_proxies=False)
    assert raised.value.exit == Exit.NETWORK
    assert raised.value.transient
