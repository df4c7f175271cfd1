"""Most expressions are examples of the Kubernetes documentation."""

import pytest

from fleethook.cel import EvaluationError
from tests.cel.evaluating import evaluate, split_rows

EXPRESSIONS = split_rows("""
    url('https://user:pass@example.com:80/path?query=val#fragment').getHost() == 'example.com:80'
    url('https://example.com/path#fragment').getEscapedPath() == '/path'
    url('/absolute-path').getHost() == '' && url('/absolute-path').getScheme() == ''
    url('HTTPS://example.com/').getScheme() == 'https'
    url('https://[::1]:80/').getHost() == '[::1]:80' && url('https://[::1]/').getHost() == '[::1]'
    url('https://[::1]:80/').getHostname() == '::1' && url('https://[::1]:80/').getPort() == '80'
    url('https://example.com/').getPort() == '' && url('https://example.com').getEscapedPath() == ''
    url('https://example.com/path with spaces/').getEscapedPath() == '/path%20with%20spaces/'
    url('https://example.com/a%2Fb').getEscapedPath() == '/a%2Fb'
    url('https://e.com/p?k1=a&k2=b&k2=c').getQuery() == {'k1': ['a'], 'k2': ['b', 'c']}
    url('https://e.com/p?key with spaces=a+b%20c').getQuery() == {'key with spaces': ['a b c']}
    url('https://e.com/p?').getQuery() == {} && url('https://e.com/p').getQuery() == {}
    url('HTTPS://example.com') == url('https://example.com')
    isURL('https://a/b') && isURL('/a') && isURL('mailto:a@b.c')
    !isURL('../a') && !isURL('') && !isURL('https://a:b:c/') && !isURL(':a') && !isURL('https://a b/')
    !isURL('https://[::1/') && !isURL('https://a/%zz') && !isURL('https://a/\\n')
""")


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_urls_parse_like_go(expression: str) -> None:
    assert evaluate(expression) is True


@pytest.mark.parametrize(
    ("expression", "cause"),
    [
        ("url('../a').getHost() == ''", 'URL parse error during conversion from string: parse "../a": invalid URI for request'),
    ],
)  # fmt: skip
def test_an_invalid_url_has_gos_error(expression: str, cause: str) -> None:
    with pytest.raises(EvaluationError) as failed:
        evaluate(expression)

    assert failed.value.cause == cause
