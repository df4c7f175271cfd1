"""Most expressions are examples of the Kubernetes documentation."""

import re

import pytest

from fleethook.cel import EvaluationError, ExpressionError, compile_condition
from tests.cel.evaluating import evaluate, split_rows

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
    ("pattern", "problem"),
    [
        ("[", "missing closing ]: `[`"),
        ("a**", "invalid nested repetition operator: `**`"),
        ("(?=a)", "invalid or unsupported Perl syntax: `(?=`"),
        ("a{1001}", "invalid repeat count: `{1001}`"),
        (r"a\\C", r"invalid escape sequence: `\C`"),
    ],
)
def test_an_invalid_pattern_has_the_error_of_go(pattern: str, problem: str) -> None:
    with pytest.raises(ExpressionError, match=re.escape(f"error parsing regexp: {problem}")):
        compile_condition(f"'abc'.find('{pattern}') == ''")
    with pytest.raises(EvaluationError, match=re.escape(f"error parsing regexp: {problem}")):
        evaluate("'abc'.find(object.kind) == ''", {"kind": pattern.replace("\\\\", "\\")})


def test_empty_matches_are_those_of_go() -> None:
    assert evaluate("'a1'.findAll('[0-9]*') == ['', '1'] && ''.findAll('x*') == [''] && 'aaa'.findAll('a*') == ['aaa']")
