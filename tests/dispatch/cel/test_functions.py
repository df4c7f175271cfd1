"""Kubernetes' functions, by library; most rows are examples of its documentation."""

import pytest

from app.dispatch.cel import EvaluationError, UnsupportedError
from app.dispatch.cel.environment import _build_environment
from app.dispatch.cel.library import DECLARED
from tests.dispatch.cel.evaluating import evaluate

TRUE = {
    "urls": """
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
    """,
    "addresses": """
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
    """,
    "formats": """
        !format.dns1123Label().validate('my-label-name').hasValue()
        format.dns1123Label().validate('contains a space').hasValue()
        format.dns1123Label().validate('x'.replace('x', '%s%s%s%s%s%s%s'.format(['aaaaaaaaaa', 'aaaaaaaaaa', 'aaaaaaaaaa', 'aaaaaaaaaa', 'aaaaaaaaaa', 'aaaaaaaaaa', 'aaaa']))).value() == ['must be no more than 63 characters']
        !format.dns1123Subdomain().validate('apiextensions.k8s.io').hasValue()
        !format.dns1035Label().validate('a1').hasValue() && format.dns1035Label().validate('1a').hasValue()
        !format.qualifiedName().validate('apiextensions.k8s.io/v1beta1').hasValue()
        format.qualifiedName().validate('/a').hasValue()
        !format.dns1123LabelPrefix().validate('my-label-prefix-').hasValue()
        format.dns1123Label().validate('my-label-prefix-').hasValue()
        !format.dns1123SubdomainPrefix().validate('mysubdomain.prefix-').hasValue()
        !format.labelValue().validate('').hasValue() && format.labelValue().validate('-').hasValue()
        !format.uri().validate('http://example.com').hasValue() && format.uri().validate('a').hasValue()
        !format.uuid().validate('123e4567-e89b-12d3-a456-426614174000').hasValue()
        format.uuid().validate('123').value() == ['does not match the UUID format']
        !format.byte().validate('aGVsbG8=').hasValue() && format.byte().validate('%').value() == ['invalid base64']
        !format.date().validate('2021-01-01').hasValue() && format.date().validate('2021-02-30').hasValue()
        !format.datetime().validate('2021-01-01T00:00:00Z').hasValue()
        format.datetime().validate('2021-01-01').value() == ['invalid datetime']
        format.named('dns1123Label').value() == format.dns1123Label()
        format.named('dns1123Label').hasValue() && !format.named('').hasValue() && !format.named('x').hasValue()
    """,
    "versions": """
        isSemver('1.0.0') && isSemver('0.1.0-alpha.1+build') && !isSemver('hello') && !isSemver('v1.0')
        isSemver('v1.0', true) && isSemver('01.01.01', true) && !isSemver('1.0-rc', true) && !isSemver('01.0.0')
        semver('1.2.3').major() == 1 && semver('1.2.3').minor() == 2 && semver('1.2.3').patch() == 3
        semver('1.2.3').compareTo(semver('1.2.3')) == 0 && semver('1.2.3').compareTo(semver('2.0.0')) == -1
        semver('1.10.0').isGreaterThan(semver('1.9.0')) && semver('1.0.0-rc.1').isLessThan(semver('1.0.0'))
        semver('1.0.0-2').isLessThan(semver('1.0.0-11')) && semver('1.0.0-2').isLessThan(semver('1.0.0-a'))
        semver('1.0.0-a').isLessThan(semver('1.0.0-a.1'))
        semver('v1.0', true) == semver('1.0.0') && semver('1.0.0+a') == semver('1.0.0+b')
    """,
    "quantities": """
        quantity('1') == quantity('1000m') && quantity('1Ki') == quantity('1024')
        isQuantity('1.3Gi') && isQuantity('0.5') && !isQuantity('1.3Zi') && !isQuantity('Three')
        quantity('1.5Gi').isGreaterThan(quantity('1Gi')) && quantity('1').isLessThan(quantity('2'))
        quantity('1').compareTo(quantity('2')) == -1 && quantity('1').compareTo(quantity('1')) == 0
        quantity('50k').asInteger() == 50000 && quantity('1.5').isInteger() == false && quantity('1k').isInteger()
        quantity('1500m').asApproximateFloat() == 1.5 && sign(quantity('-1')) == -1 && sign(quantity('0')) == 0
        quantity('50k').add(quantity('20k')) == quantity('70k') && quantity('50k').sub(quantity('20k')) == quantity('30k')
        quantity('50k').add(20) == quantity('50020') && sign(quantity('1').sub(2)) == -1
        [quantity('1'), quantity('2')].exists(q, q.isGreaterThan(quantity('1')))
        dyn(quantity('1')).isLessThan(quantity('2'))
    """,
    "lists": """
        [1, 2, 3].isSorted() && ['a', 'b', 'b'].isSorted() && ![2.0, 1.0].isSorted() && [1].isSorted()
        [1, 3].sum() == 4 && [1.0, 3.0].sum() == 4.0 && [1u, 2u].sum() + 1u == 4u
        [duration('1m'), duration('1s')].sum() == duration('61s') && object.spec.absent.sum() == 0 || true
        [1, 3].min() == 1 && ['b', 'a'].max() == 'b' && [timestamp('2020-01-01T00:00:00Z')].max().getFullYear() == 2020
        [1, 2, 2, 3].indexOf(2) == 1 && ['a', 'b', 'b'].lastIndexOf('b') == 2 && [1.0].indexOf(1.1) == -1
        [[1], [2]].indexOf([2]) == 1 && [{'a': 1}].indexOf({'a': 1}) == 0 && [true].indexOf(true) == 0
        object.spec.hosts.indexOf('b') == 1 && object.spec.hosts.isSorted() && object.metadata.name.indexOf('b') == 2
        lists.range(3) == [0, 1, 2] && [3, 1].sort() == [1, 3] && [[1]].flatten() == [1] && [1, 1].distinct() == [1]
        ['aa', 'b'].sortBy(x, size(x)) == ['b', 'aa'] && [1, 2, 3].slice(1, 2) == [2]
    """,
    "regexes": """
        'abc 123'.find('[0-9]+') == '123' && 'abc 123'.find('xyz') == '' && 'abc 123'.find('[0-9]*') == ''
        '123 abc 456'.findAll('[0-9]+') == ['123', '456'] && '123 abc 456'.findAll('[0-9]+', 1) == ['123']
        '123 abc 456'.findAll('xyz') == [] && 'a1b2'.findAll('([a-z])([0-9])') == ['a1', 'b2']
        'a(b'.find('\\\\((b)') == '(b' && 'a(b'.find('[(](?P<x>b)') == '(b' && 'a(b'.find('\\\\Q(b\\\\E') == '(b'
        'abc'.matches('^a(b)c$') && matches('abc', 'b') && !'abc'.matches('^b')
    """,
    "strings": """
        'abc'.charAt(1) == 'b' && 'Abc'.lowerAscii() == 'abc' && 'abc'.upperAscii() == 'ABC' && ' a '.trim() == 'a'
        'a,b'.split(',') == ['a', 'b'] && 'a,b,c'.split(',', 2) == ['a', 'b,c'] && ['a', 'b'].join('-') == 'a-b'
        ['a', 'b'].join() == 'ab' && 'aXbX'.replace('X', '-') == 'a-b-' && 'aXbX'.replace('X', '-', 1) == 'a-bX'
        'ab'.replace('', '-') == '-a-b-' && 'abc'.substring(1) == 'bc' && 'abc'.substring(1, 2) == 'b'
        'abcabc'.indexOf('c') == 2 && 'abcabc'.indexOf('c', 3) == 5 && 'abc'.indexOf('') == 0 && 'abc'.indexOf('x') == -1
        'abcabc'.lastIndexOf('c') == 5 && 'abcabc'.lastIndexOf('c', 4) == 2 && 'abc'.lastIndexOf('c', 9) == -1
        '%s has %d'.format(['a', 1]) == 'a has 1' && strings.quote('a') == '"a"'
        string(1) == '1' && string(true) == 'true' && string(object.spec.replicas) == '3' && string(b'a') == 'a'
        'a'.contains('a') && 'ab'.startsWith('a') && 'ab'.endsWith('b') && size('é') == 1
    """,
    "language": """
        1 < 2.5 && 3u > 2 && 2.0 <= 2 && object.spec.replicas >= 2.5 && object.spec.ratio < 2 && 'a' < 'b'
        sets.contains([1, 2], [1]) && sets.intersects([1], [1, 2]) && sets.equivalent([1], [1, 1])
        {'a': 1}.exists(k, v, v == 1) && [1, 2].all(i, v, v == i + 1) && [1].existsOne(i, v, v == 1)
        [1, 2].transformList(i, v, v * i) == [0, 2] && {'a': 1}.transformMap(k, v, v + 1) == {'a': 2}
        {'a': 'b'}.transformMapEntry(k, v, {v: k}) == {'b': 'a'} && {'a': [1]}.transformMap(k, v, v) == {'a': [1]}
        optional.of(1).hasValue() && optional.none().orValue(2) == 2 && [1][?5].orValue(2) == 2
        optional.of(2).optMap(x, x + 1).value() == 3 && {'a': 1}.?a.hasValue()
        timestamp('2020-01-01T00:00:00Z').getFullYear() == 2020 && duration('1h').getHours() == 1
        object.spec.hosts + ['c'] == ['a', 'b', 'c'] && object.kind + object.kind == 'PodPod' && [1] + [2] == [1, 2]
        object.spec.replicas + object.spec.replicas == 6 && 1 + 2 == 3 && 1.5 + 1.5 == 3.0
        [1, 2, 3].map(x, x * 2).filter(x, x > 2) == [4, 6] && [1, 2].exists_one(x, x == 1)
        (object.spec.hosts + object.spec.hosts).all(host, host in ['a', 'b'])
    """,
}
ROWS = [(library, row.strip()) for library, rows in TRUE.items() for row in rows.strip().splitlines()]


@pytest.mark.parametrize(("library", "expression"), ROWS)
def test_functions_are_those_of_an_apiserver(library: str, expression: str) -> None:
    assert evaluate(expression) is True


@pytest.mark.parametrize(
    ("expression", "cause"),
    [
        ("url('../a').getHost() == ''", 'URL parse error during conversion from string: parse "../a": invalid URI for request'),
        ("ip('::ffff:1.2.3.4').family() == 4", 'IPv4-mapped IPv6 address "::ffff:1.2.3.4" is not allowed'),
        ("ip('fe80::1%eth0').family() == 4", 'IP address "fe80::1%eth0" with zone value is not allowed'),
        ("quantity('1.5').asInteger() == 1", "cannot convert value to integer"),
        ("[1].filter(x, x > 1).min() == 1", "min called on empty list"),
        ("[9223372036854775807, 1].sum() == 0", "integer overflow"),
        ("object.spec.hosts.sum() == 1 && ([1, 'a'] == object || dyn([1, 'a']).max() == 1)", "no such overload"),
        ("dyn(ip('::1')).asInteger() == 1", "no such overload"),
        ("'abc'.indexOf('a', -1) == 0", "index out of range: -1"),
        ("'abc'.find('[') == ''", "invalid regular expression: missing ]: ["),
        ("{'a': 1, 'b': 1}.transformMapEntry(k, v, {v: k}) == {}", 'insert failed: key "1" already exists'),
        ("format.named('x').value().validate('a').hasValue()", "optional.none() dereference"),
    ],
)  # fmt: skip
def test_errors_of_functions_say_what_was_wrong(expression: str, cause: str) -> None:
    with pytest.raises(EvaluationError) as failed:
        evaluate(expression)

    assert failed.value.cause == cause


def test_what_would_come_out_otherwise_than_in_an_apiserver_is_not_evaluated() -> None:
    with pytest.raises(UnsupportedError, match="findAll\\(\\) with a pattern that matches the empty text"):
        evaluate("'a1'.findAll('[0-9]*') == ['1']")


def test_every_function_is_declared_as_it_is_named() -> None:
    declared = _build_environment().config().to_yaml()

    assert [function.overload_id for function in DECLARED if function.overload_id not in declared] == []
