import msgspec
import pytest

from fleethook.recordings.bodies import BodyError, unwrap_body


@pytest.mark.parametrize(
    ("raw", "body"),
    [
        (b'{"kind":"A"}', b'{"kind":"A"}'),
        (b'{"text":"no JSON"}', b"no JSON"),
        (b'{"text":"{\\"text\\":\\"a\\"}"}', b'{"text":"a"}'),
        (b'{"base64":"//4="}', b"\xff\xfe"),
        (b'{"text":"a","kind":"A"}', b'{"text":"a","kind":"A"}'),
        (b'{"text":5}', b'{"text":5}'),
        (b"[]", b"[]"),
    ],
)
def test_bodies_are_those_that_were_received(raw: bytes, body: bytes) -> None:
    assert unwrap_body(msgspec.Raw(raw)) == body


def test_damaged_base64_is_an_error() -> None:
    with pytest.raises(BodyError, match="damaged"):
        unwrap_body(msgspec.Raw(b'{"base64":"%"}'))
