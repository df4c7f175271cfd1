import pytest

from tests.cel.evaluating import evaluate, split_rows

EXPRESSIONS = split_rows("""
    'abc'.charAt(1) == 'b' && 'Abc'.lowerAscii() == 'abc' && 'abc'.upperAscii() == 'ABC' && ' a '.trim() == 'a'
    'a,b'.split(',') == ['a', 'b'] && 'a,b,c'.split(',', 2) == ['a', 'b,c'] && ['a', 'b'].join('-') == 'a-b'
    ['a', 'b'].join() == 'ab' && 'aXbX'.replace('X', '-') == 'a-b-' && 'aXbX'.replace('X', '-', 1) == 'a-bX'
    'ab'.replace('', '-') == '-a-b-' && 'abc'.substring(1) == 'bc' && 'abc'.substring(1, 2) == 'b'
    'abcabc'.indexOf('c') == 2 && 'abcabc'.indexOf('c', 3) == 5 && 'abc'.indexOf('') == 0 && 'abc'.indexOf('x') == -1
    'abcabc'.lastIndexOf('c') == 5 && 'abcabc'.lastIndexOf('c', 4) == 2 && 'abc'.lastIndexOf('c', 9) == -1
    '%s has %d'.format(['a', 1]) == 'a has 1' && strings.quote('a') == '"a"'
""")


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_functions_of_strings(expression: str) -> None:
    assert evaluate(expression) is True
