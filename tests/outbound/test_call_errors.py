"""Escaping of untrusted text in errors."""

from fleethook.outbound.call_errors import MAX_SHOWN_BYTES, CallError, NotCalledError, excerpt, posting, quoted


def test_a_call_error_has_the_reason_and_the_status() -> None:
    error = CallError("because", code=503, timed_out=True)
    assert (str(error), error.code, error.timed_out) == ("failed to call webhook: because", 503, True)
    assert isinstance(NotCalledError("because"), CallError)


def test_the_url_precedes_the_reason() -> None:
    assert posting("https://h/p?timeout=10s", "EOF") == 'Post "https://h/p?timeout=10s": EOF'


def test_quotation_marks_cannot_end_a_quotation() -> None:
    assert quoted('a "b" \\ c\n') == '"a \\"b\\" \\\\ c\\n"'


def test_an_excerpt_may_cut_a_character() -> None:
    assert excerpt(b" x ") == "x"
    assert excerpt(b"a" * (MAX_SHOWN_BYTES - 1) + "ü".encode()) == "a" * (MAX_SHOWN_BYTES - 1) + "\ufffd"
