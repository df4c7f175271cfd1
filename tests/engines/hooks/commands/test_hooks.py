import json
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from tests.cli.commands import invoke

RULES = """
from fleethook.admission import Denied, validate

@validate("v1", "Pod")
def named(pod):
    if not pod.metadata.name.startswith("web-"):
        raise Denied("names begin with web-", field="metadata.name")
"""
TESTS = """
rules: [rules.py]
objects:
  good: {apiVersion: v1, kind: Pod, metadata: {name: web-1}}
  bad: {from: good, with: {metadata: {name: db}}}
tests:
  - name: other names are refused
    object: bad
    output: {allowed: false, message: "metadata.name: names begin with web-"}
  - name: names of the web are admitted
    object: good
    output: {allowed: true}
"""


def run(*arguments: str | Path) -> tuple[int, str, str]:
    result = invoke(["hooks", "test", *map(str, arguments)])
    return result.exit_code, result.stdout, result.stderr


@pytest.fixture
def tests(tmp_path: Path) -> Path:
    (tmp_path / "rules.py").write_text(RULES)
    file = tmp_path / "rules_test.yaml"
    file.write_text(TESTS)
    return file


def test_tests_pass(tests: Path) -> None:
    assert run(tests) == (
        0,
        (
            "ok   CREATE               named    other names are refused\n"
            "ok   CREATE               named    names of the web are admitted\n"
            "2 passed, 0 failed\n"
        ),
        "",
    )
    assert run(tests.parent)[0] == 0


def test_a_changed_rule_fails_with_the_line_of_the_test(tests: Path, tmp_path: Path) -> None:
    edited = tmp_path / "edited.txt"
    edited.write_text(RULES.replace("web-", "w"))
    code, out, _ = run(tests, "--hooks", edited)
    assert code == 1
    assert f"FAIL CREATE               named    other names are refused\n     {tests}:7\n     message\n" in out
    code, out, _ = run(tests, "--hooks", edited, "-o", "json")
    rows = json.loads(out)
    assert [(row["rule"], row["passed"]) for row in rows] == [("named", False), ("named", True)]
    code, out, _ = run(tests, "--hooks", edited, "-o", "junit")
    suite = ET.fromstring(out)
    assert (code, suite.get("tests"), suite.get("failures")) == (1, "2", "1")


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (("rules: [rules.py]", ""), "rules_test.yaml:3: rules is no list of files"),
        (("[rules.py]", "[none.py]"), "none.py: cannot be read: No such file or directory"),
        (("object: good", "object: nobody"), "rules_test.yaml:10: names of the web are admitted: unknown object"),
        (
            ("object: good", "object: good\n    rule: other"),
            "rules_test.yaml:10: names of the web are admitted: there is",
        ),
        (("tests:", "cases:"), "rules_test.yaml"),
    ],
)
def test_invalid_input_exits_2(tests: Path, change: tuple[str, str], problem: str) -> None:
    tests.write_text(TESTS.replace(*change))
    code, _, err = run(tests)
    assert code == 2
    assert problem in err


def test_a_file_that_does_not_import_exits_2_with_its_line(tests: Path) -> None:
    tests.with_name("rules.py").write_text("import nothing_of_this_name\n")
    code, _, err = run(tests)
    assert code == 2
    assert "rules.py:1: ModuleNotFoundError: No module named 'nothing_of_this_name'" in err
