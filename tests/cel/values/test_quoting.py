import pytest

from fleethook.cel.values.quoting import quote_text


@pytest.mark.parametrize(
    ("text", "quoted"),
    [("a", '"a"'), ('a"b\n', '"a\\"b\\n"'), ("é", '"é"'), ("x" * 300, f'"{"x" * 256}..."')],
)
def test_a_text_is_quoted_like_in_go_and_cut(text: str, quoted: str) -> None:
    assert quote_text(text) == quoted
