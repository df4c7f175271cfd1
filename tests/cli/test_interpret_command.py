import json
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from typer.testing import CliRunner

from app.cli import app
from tests.serving import EXAMPLES

RUNNER = CliRunner()
DIRECTORY = EXAMPLES / "interpreter"
DATABASE = str(DIRECTORY / "database.py")


def run(*arguments: str) -> tuple[int, str, str]:
    result = RUNNER.invoke(app, ["interpret", *arguments])
    return result.exit_code, result.stdout, result.stderr


def test_the_examples_fixtures_pass() -> None:
    code, out, _ = run("test", str(DIRECTORY / "testdata"), "--interpreters", DATABASE)
    assert code == 0
    assert out.endswith("4 passed, 0 failed\n")
    assert "ok   InterpretReplica     python   three members" in out


@pytest.fixture
def failing(tmp_path: Path) -> str:
    file = tmp_path / "fails.yaml"
    file.write_text(
        "name: counted wrongly\noperation: interpretreplica\n"
        "desiredObj: {apiVersion: apps/v1, kind: Deployment, metadata: {name: d}, spec: {replicas: 2}}\n"
        "output: {replica: 3}\n---\n"
        "name: nobody knows it\noperation: InterpretHealth\n"
        "observedObj: {apiVersion: x/v1, kind: Y, metadata: {name: y}}\noutput: {healthy: true}\n---\n"
        "name: anything goes\noperation: InterpretStatus\n"
        "observedObj: {apiVersion: x/v1, kind: Y, status: {a: 1, b: {c: 2}}}\n"
        "output: {status: {a: 1, b: '{{EXCLUDE}}'}}\n"
    )
    return str(file)


def test_a_failure_is_shown_with_its_place_and_exits_1(failing: str) -> None:
    code, out, _ = run("test", failing)
    assert code == 1
    assert f"FAIL InterpretReplica     native   counted wrongly\n     {failing}:1\n     replica\n" in out
    assert "expected 3\n       found    2" in out
    assert 'interpreter for "x/v1, Kind=Y" not found' in out
    assert "ok   InterpretStatus      native   anything goes" in out
    assert out.endswith("1 passed, 2 failed\n")


def test_results_as_json_and_junit(failing: str) -> None:
    code, out, _ = run("test", failing, "--output", "json")
    rows = json.loads(out)
    assert (code, [row["passed"] for row in rows]) == (1, [False, False, True])
    assert rows[0]["differences"] == [{"path": "replica", "expected": 3, "found": 2}]
    code, out, _ = run("test", failing, "--output", "junit")
    suite = ET.fromstring(out)
    assert (code, suite.get("tests"), suite.get("failures")) == (1, "3", "2")
    assert [case.find("failure") is None for case in suite] == [False, False, True]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("name: x\noutput: {}\n", "operation is missing"),
        ("name: x\noperation: Nothing\noutput: {a: 1}\n", "operation 'Nothing' is not known"),
        ("name: x\noperation: InterpretHealth\noutput: {healed: true}\n", "InterpretHealth has no healed"),
        ("name: x\noperation: Retain\noutput: {retained: {}}\n", "takes the desired and the observed object"),
        ("name: x\noperation: [\n", "bad.yaml:3"),
        ("", "there are no fixtures"),
    ],
)
def test_what_is_no_fixture_exits_2(tmp_path: Path, text: str, problem: str) -> None:
    file = tmp_path / "bad.yaml"
    file.write_text(text)
    code, _, err = run("test", str(file))
    assert code == 2
    assert problem in err


def test_run_prints_an_answer_and_who_gave_it() -> None:
    code, out, _ = run(
        "run", "--operation", "ExploreStatus", "--observed-file", str(DIRECTORY / "objects" / "foo.yaml")
    )
    assert (code, out) == (0, "---\n# [1/1] status: (native: whole)\nphase: Ready\n")
    code, out, _ = run(
        "run", "--operation", "InterpretReplica", "-f", str(DIRECTORY / "objects" / "foo.yaml"), "--output", "json"
    )
    assert code == 1


def test_check_finds_what_is_wrong_with_configurations(tmp_path: Path) -> None:
    code, out, _ = run("check", str(DIRECTORY / "configuration.yaml"), DATABASE)
    assert code == 0
    assert "db.example.com/v1 Database: InterpretDependency, InterpretHealth, InterpretReplica, ReviseReplica" in out
    broken = tmp_path / "broken.yaml"
    broken.write_text(
        (DIRECTORY / "configuration.yaml").read_text().replace("https://localhost:9443/explore-foo", "http://h")
    )
    code, out, _ = run("check", str(broken))
    assert code == 1
    assert "webhooks[0].clientConfig.url: Invalid value" in out


def test_interpreters_that_cannot_be_loaded_exit_2(tmp_path: Path) -> None:
    (tmp_path / "x.py").write_text("1 / 0\n")
    code, _, err = run("test", str(DIRECTORY / "testdata"), "--interpreters", str(tmp_path / "x.py"))
    assert code == 2
    assert "ZeroDivisionError" in err
