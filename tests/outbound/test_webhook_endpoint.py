from pathlib import Path
from typing import Any

import pytest

from fleethook.outbound.webhook_endpoint import Credential, CredentialError
from tests.hook_server import tls

SECRET = "s3cret"


@pytest.fixture
def pair(tmp_path: Path) -> dict[str, bytes]:
    tls(tmp_path)
    return {
        "certificate_pem": (tmp_path / "tls.crt").read_bytes(),
        "key_pem": (tmp_path / "tls.key").read_bytes(),
    }


@pytest.mark.parametrize(
    ("given", "header"),
    [
        ({}, ""),
        ({"token": b" token\n"}, "Bearer token"),
        ({"username": "u", "password": "p:ä"}, "Basic dTpwOsOk"),
        ({"username": "u"}, "Basic dTo="),
    ],
)
def test_the_authorization_header(given: dict[str, Any], header: str) -> None:
    assert Credential(**given).authorization == header


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"token": f"{SECRET}\r\nX: y".encode()}, "the token contains characters that are invalid in an HTTP header"),
        ({"token": SECRET.encode(), "password": SECRET}, "username/password or bearer token may be set, but not both"),
        ({"key_pem": SECRET.encode()}, "client certificate or key is missing: set both or none"),
        ({"certificate_pem": SECRET.encode(), "key_pem": SECRET.encode()}, "cannot be used: "),
    ],
)
def test_a_problem_does_not_show_the_secret(given: dict[str, Any], problem: str) -> None:
    with pytest.raises(CredentialError) as raised:
        Credential(**given)
    assert problem in str(raised.value)
    assert SECRET not in str(raised.value)


def test_a_key_of_another_certificate_is_refused(pair: dict[str, bytes], tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    tls(tmp_path / "other")
    with pytest.raises(CredentialError, match="both must be PEM and match"):
        Credential(**{**pair, "key_pem": (tmp_path / "other" / "tls.key").read_bytes()})  # type: ignore[arg-type]


def test_equal_credentials_are_equal_and_print_no_secret() -> None:
    assert Credential(token=b"a") == Credential(token=b"a") != Credential(token=b"b")
    assert len({Credential(token=b"a"), Credential(token=b"a"), Credential()}) == 2
    assert SECRET not in repr(Credential(token=SECRET.encode()))
