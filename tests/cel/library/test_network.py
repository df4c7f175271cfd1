"""Most expressions are examples of the Kubernetes documentation."""

import pytest

from fleethook.cel import EvaluationError
from tests.cel.evaluating import evaluate, split_rows

EXPRESSIONS = split_rows("""
    ip('192.168.0.1').family() == 4 && ip('::1').family() == 6
    isIP('127.0.0.1') && isIP('::') && !isIP('127.0.0.256') && !isIP(':::1') && !isIP('127.000.0.1')
    !isIP('fe80::1%eth0') && !isIP('::ffff:1.2.3.4') && !isIP('')
    ip.isCanonical('127.0.0.1') && ip.isCanonical('2001:db8::abcd') && !ip.isCanonical('2001:DB8::ABCD')
    ip('0.0.0.0').isUnspecified() && ip('::').isUnspecified() && !ip('::1').isUnspecified()
    ip('127.0.0.1').isLoopback() && ip('::1').isLoopback() && !ip('192.168.0.1').isLoopback()
    ip('224.0.0.1').isLinkLocalMulticast() && !ip('224.0.1.1').isLinkLocalMulticast()
    ip('ff02::1').isLinkLocalMulticast() && !ip('fd00::1').isLinkLocalMulticast()
    ip('169.254.169.254').isLinkLocalUnicast() && !ip('192.168.0.1').isLinkLocalUnicast()
    ip('fe80::1').isLinkLocalUnicast() && !ip('fd80::1').isLinkLocalUnicast()
    ip('192.168.0.1').isGlobalUnicast() && !ip('255.255.255.255').isGlobalUnicast()
    ip('2001:db8::abcd').isGlobalUnicast() && !ip('ff00::1').isGlobalUnicast()
    ip('::1') == ip('0:0::1') && string(ip('0:0::1')) == '::1'
    isCIDR('192.168.0.0/16') && isCIDR('::1/128') && isCIDR('192.168.0.1/24')
    !isCIDR('192.168.0.0/33') && !isCIDR('::1/129') && !isCIDR('1.2.3.4') && !isCIDR('1.2.3.4/08')
    cidr('192.168.0.0/24').containsIP(ip('192.168.0.1')) && !cidr('192.168.0.0/24').containsIP('192.168.1.1')
    !cidr('0.0.0.0/0').containsIP('::1')
    cidr('192.168.0.0/16').containsCIDR(cidr('192.168.10.0/24'))
    !cidr('192.168.1.0/24').containsCIDR('192.168.2.0/24') && !cidr('10.0.0.0/16').containsCIDR('10.0.0.0/8')
    cidr('192.168.0.1/24').ip() == ip('192.168.0.1') && cidr('192.168.0.0/16').prefixLength() == 16
    cidr('192.168.0.1/24').masked() == cidr('192.168.0.0/24') && cidr('192.168.0.1/24') != cidr('192.168.0.0/24')
    string(cidr('10.0.0.0/8')) == '10.0.0.0/8'
""")


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_addresses_and_cidrs_parse_like_netip(expression: str) -> None:
    assert evaluate(expression) is True


@pytest.mark.parametrize(
    ("expression", "cause"),
    [
        ("ip('::ffff:1.2.3.4').family() == 4", 'IPv4-mapped IPv6 address "::ffff:1.2.3.4" is not allowed'),
        ("ip('fe80::1%eth0').family() == 4", 'IP address "fe80::1%eth0" with zone value is not allowed'),
    ],
)  # fmt: skip
def test_an_unsupported_address_is_an_error(expression: str, cause: str) -> None:
    with pytest.raises(EvaluationError) as failed:
        evaluate(expression)

    assert failed.value.cause == cause


URLS = split_rows("""
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


@pytest.mark.parametrize("expression", URLS)
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
