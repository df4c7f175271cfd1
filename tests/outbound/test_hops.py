import pytest

from fleethook.outbound.hops import HEADER, OUTGOING, was_dispatched


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ([(b"fleethook-hops", b"1")], True),
        ([(b"host", b"h"), (b"fleethook-hops", b"")], True),
        ([(b"host", b"fleethook-hops")], False),
        ([], False),
    ],
)
def test_a_header_with_any_value_marks_a_dispatched_review(
    headers: list[tuple[bytes, bytes]], *, expected: bool
) -> None:
    assert was_dispatched(headers) is expected


def test_calls_of_the_dispatch_engine_are_recognized() -> None:
    assert was_dispatched((name.lower().encode(), value.encode()) for name, value in OUTGOING.items())
    assert set(OUTGOING) == {HEADER}
