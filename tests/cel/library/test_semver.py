"""Most expressions are examples of the Kubernetes documentation."""

import pytest

from tests.cel.evaluating import evaluate, split_rows

EXPRESSIONS = split_rows("""
    isSemver('1.0.0') && isSemver('0.1.0-alpha.1+build') && !isSemver('hello') && !isSemver('v1.0')
    isSemver('v1.0', true) && isSemver('01.01.01', true) && !isSemver('1.0-rc', true) && !isSemver('01.0.0')
    semver('1.2.3').major() == 1 && semver('1.2.3').minor() == 2 && semver('1.2.3').patch() == 3
    semver('1.2.3').compareTo(semver('1.2.3')) == 0 && semver('1.2.3').compareTo(semver('2.0.0')) == -1
    semver('1.10.0').isGreaterThan(semver('1.9.0')) && semver('1.0.0-rc.1').isLessThan(semver('1.0.0'))
    semver('1.0.0-2').isLessThan(semver('1.0.0-11')) && semver('1.0.0-2').isLessThan(semver('1.0.0-a'))
    semver('1.0.0-a').isLessThan(semver('1.0.0-a.1'))
    semver('v1.0', true) == semver('1.0.0') && semver('1.0.0+a') == semver('1.0.0+b')
""")


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_semantic_versions_compare_by_precedence(expression: str) -> None:
    assert evaluate(expression) is True
