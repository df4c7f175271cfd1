import json
from collections.abc import Iterator
from xml.etree import ElementTree as ET

import pytest

from fleethook.cli.fixtures import FixtureResult, Output, make_error_result, print_results, read_cases, run_and_exit
from fleethook.cluster.manifests.yaml_reader import Document, ManifestError
from fleethook.model.json import JSON
from fleethook.patch.fixture_tests import Difference, FixtureError

PASSED = FixtureResult("a.yaml", 3, "right", "CREATE", "rule-a", 0.5, "", [])
FAILED = PASSED._replace(line=4, name="wrong", differences=[Difference("allowed", True, False)])


def test_junit_is_valid_xml_for_every_name(capsys: pytest.CaptureFixture[str]) -> None:
    result = FixtureResult("a\x1b.yaml", 1, "n\x00\u202e", "Retain", "lua", 0.0, "boom\x08\nagain", [])
    print_results([result], Output.JUNIT, command="fleethook x test", layer="layer")
    suite = ET.fromstring(capsys.readouterr().out)
    assert (suite.get("name"), suite[0].attrib["name"]) == ("fleethook x test", "n\\x00\\u202e")


def test_json_names_the_layer_as_the_command_does(capsys: pytest.CaptureFixture[str]) -> None:
    print_results([FAILED], Output.JSON, command="", layer="rule")
    (row,) = json.loads(capsys.readouterr().out)
    assert (row["rule"], row["passed"]) == ("rule-a", False)
    assert row["differences"] == [{"path": "allowed", "expected": True, "found": False}]
    assert list(row)[:5] == ["file", "line", "name", "operation", "rule"]


def test_text_shows_expected_and_found_values(capsys: pytest.CaptureFixture[str]) -> None:
    print_results([PASSED, FAILED], Output.TEXT, command="", layer="")
    out = capsys.readouterr().out
    assert "     a.yaml:4\n     allowed\n       expected true\n       found    false\n1 passed, 1 failed\n" in out


@pytest.mark.parametrize(
    ("results", "code"),
    [([PASSED], None), ([PASSED, FAILED], 1), ([FAILED, make_error_result(ManifestError("b.yaml", 0, "x"))], 2)],
)
def test_the_exit_code_is_that_of_the_worst_result(results: list[FixtureResult], code: int | None) -> None:
    if code is None:
        run_and_exit(lambda: results, watch=None)
        return
    with pytest.raises(SystemExit) as raised:
        run_and_exit(lambda: results, watch=None)
    assert raised.value.code == code


def test_cases_have_the_lines_of_their_tests() -> None:
    text = "tests:\n- a\n- b\n"

    def read(_: JSON) -> Iterator[tuple[int, str]]:
        yield 0, "first"
        error = FixtureError("malformed")
        error.test = 1
        raise error

    cases, errors = read_cases([Document({"tests": ["a", "b"]}, "t.yaml", 1, text, (0,), 0)], read)
    assert [(one.line, one.fixture) for one in cases] == [(2, "first")]
    assert [(one.line, one.reason) for one in errors] == [(3, "malformed")]
