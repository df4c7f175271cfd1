"""Most expressions are examples of the Kubernetes documentation."""

import pytest

from app.dispatch.cel import EvaluationError, UnsupportedError
from tests.dispatch.cel.evaluating import evaluate, split_rows

EXPRESSIONS = split_rows("""
    'abc 123'.find('[0-9]+') == '123' && 'abc 123'.find('xyz') == '' && 'abc 123'.find('[0-9]*') == ''
    '123 abc 456'.findAll('[0-9]+') == ['123', '456'] && '123 abc 456'.findAll('[0-9]+', 1) == ['123']
    '123 abc 456'.findAll('xyz') == [] && 'a1b2'.findAll('([a-z])([0-9])') == ['a1', 'b2']
    'a(b'.find('\\\\((b)') == '(b' && 'a(b'.find('[(](?P<x>b)') == '(b' && 'a(b'.find('\\\\Q(b\\\\E') == '(b'
    'abc'.matches('^a(b)c$') && matches('abc', 'b') && !'abc'.matches('^b')
""")


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_patterns_match_like_re2_in_go(expression: str) -> None:
    assert evaluate(expression) is True


@pytest.mark.parametrize(
    ("expression", "cause"),
    [
        ("'abc'.find('[') == ''", "invalid regular expression: missing ]: ["),
    ],
)  # fmt: skip
def test_an_invalid_pattern_is_an_error(expression: str, cause: str) -> None:
    with pytest.raises(EvaluationError) as failed:
        evaluate(expression)

    assert failed.value.cause == cause


def test_find_all_with_empty_matches_is_unsupported() -> None:
    """Go finds empty matches between characters, cel-cpp does not, so no result is better than another one."""
    with pytest.raises(
        UnsupportedError, match="does not support findAll\\(\\) with a pattern that matches the empty text"
    ):
        evaluate("'a1'.findAll('[0-9]*') == ['1']")
