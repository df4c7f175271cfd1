import json
from collections.abc import Iterator
from xml.etree import ElementTree as ET

import pytest

from fleethook.cli.fixture_results import FixtureResult, make_error_result, print_results, read_cases, run_and_exit
from fleethook.cli.options import Output
from fleethook.cluster.manifests.yaml_decoding_and_lines import Document, ManifestError
from fleethook.fixture_format import Difference, FixtureError, read_tests
from fleethook.model.json import JSON, JSONObject, as_object

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
    def read(document: JSON, errors: list[FixtureError]) -> Iterator[tuple[int, JSON]]:
        def check(test: JSON, _: JSONObject) -> JSON:
            if test == "bad":
                raise FixtureError("malformed")
            return test

        return read_tests(dict(as_object(document)), check, errors)

    documents = [
        Document(
            {"tests": tests}, f"{name}.yaml", 1, f"tests:\n{''.join(f'- {one}{chr(10)}' for one in tests)}", (0,), 0
        )
        for name, tests in (("a", ["first", "bad", "third", "bad"]), ("b", ["bad"]), ("c", ["last"]))
    ]
    cases, errors = read_cases(documents, read)
    assert [(str(one.path), one.line, one.fixture) for one in cases] == [
        ("a.yaml", 2, "first"),
        ("a.yaml", 4, "third"),
        ("c.yaml", 2, "last"),
    ]
    places = ["a.yaml:3", "a.yaml:5", "b.yaml:2"]
    assert [str(one) for one in errors] == [f"{place}: malformed" for place in places], "no error hides later tests"
