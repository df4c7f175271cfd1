import msgspec
import pytest

from fleethook.cluster.api_errors import parse_api_error


def test_a_status_gives_its_reason_and_message() -> None:
    error = parse_api_error(409, b'{"kind":"Status","reason":"Conflict","message":"the object has been modified"}')
    assert (error.code, error.reason, str(error)) == (409, "Conflict", "409 Conflict: the object has been modified")


def test_a_body_without_a_status_is_quoted_in_part() -> None:
    error = parse_api_error(502, b"<html>" + b"x" * 5000)
    assert error.reason == ""
    assert str(error).startswith("502: <html>")
    assert len(str(error)) < 600


@pytest.mark.parametrize(
    "body",
    [
        b"cluster path is empty in the request context - RequestInfo: &request.RequestInfo{}",
        b'{"reason": "InternalError", "message": "Internal error occurred: no cluster found in the context"}',
    ],
)
def test_an_error_of_a_kcp_without_a_workspace_names_the_cause(body: bytes) -> None:
    """Two answers of kcp at dac74f59 to lists without the path of a logical cluster."""
    message = parse_api_error(500, body).message
    assert "context: it is a kcp: give a context whose URL ends with /clusters/WORKSPACE" in message


def test_a_long_message_keeps_its_start_and_its_end() -> None:
    text = "spec.versions: Invalid value: [" + "x" * 100_000 + "]: must have exactly one version marked as storage"
    error = parse_api_error(422, msgspec.json.encode({"reason": "Invalid", "message": text}))
    assert str(error).startswith("422 Invalid: spec.versions: Invalid value: [xxx")
    assert str(error).endswith("]: must have exactly one version marked as storage")
    assert len(str(error)) < 2100
