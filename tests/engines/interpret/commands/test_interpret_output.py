import json
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from fleethook.engines.interpret.commands.interpret_output import FixtureResult, Output, print_results
from tests.cli.interpreting import (
    run,
)


@pytest.fixture
def failing_fixtures(tmp_path: Path) -> str:
    file = tmp_path / "fails.yaml"
    file.write_text(
        "name: counted wrongly\noperation: interpretreplica\n"
        "desiredObj: {apiVersion: apps/v1, kind: Deployment, metadata: {name: d}, spec: {replicas: 2}}\n"
        "output: {replica: 3}\n---\n"
        "name: nobody knows it\noperation: InterpretHealth\n"
        "observedObj: {apiVersion: x/v1, kind: Z, metadata: {name: z}}\noutput: {healthy: true}\n---\n"
        "name: anything goes\noperation: InterpretStatus\n"
        "observedObj: {apiVersion: x/v1, kind: Z, status: {a: 1, b: {c: 2}}}\n"
        "output: {status: {a: 1, b: '{{EXCLUDE}}'}}\n"
    )
    return str(file)


def test_text_shows_a_failure_with_its_line_and_exits_1(failing_fixtures: str) -> None:
    code, out, _ = run("test", failing_fixtures)
    assert code == 1
    assert f"FAIL InterpretReplica     native   counted wrongly\n     {failing_fixtures}:1\n     replica\n" in out
    assert "expected 3\n       found    2" in out
    assert (
        "rule is not set: no layer answers InterpretHealth for x/v1 Z (asked: lua, webhook, python, bundle, native)"
        in out
    )
    assert "ok   InterpretStatus      native   anything goes" in out
    assert out.endswith("1 passed, 2 failed\n")


def test_results_as_json_and_junit(failing_fixtures: str) -> None:
    code, out, _ = run("test", failing_fixtures, "--output", "json")
    rows = json.loads(out)
    assert (code, [row["passed"] for row in rows]) == (1, [False, False, True])
    assert rows[0]["differences"] == [{"path": "replica", "expected": 3, "found": 2}]
    code, out, _ = run("test", failing_fixtures, "--output", "junit")
    suite = ET.fromstring(out)
    assert (code, suite.get("tests"), suite.get("failures")) == (1, "3", "2")
    assert [case.find("failure") is None for case in suite] == [False, False, True]


def test_junit_is_valid_xml_for_every_fixture_name(capsys: pytest.CaptureFixture[str]) -> None:
    result = FixtureResult("a\x1b.yaml", 1, "n\x00\u202e", "Retain", "lua", 0.0, "boom\x08\nagain", [])
    print_results([result], Output.JUNIT)
    suite = ET.fromstring(capsys.readouterr().out)
    assert suite[0].attrib["name"] == "n\\x00\\u202e"
