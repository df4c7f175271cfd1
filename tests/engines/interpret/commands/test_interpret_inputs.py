from pathlib import Path

import pytest

from fleethook.engines.interpret.commands.interpret_inputs import INTERPRETERS
from tests.cli.interpreting import CUSTOMIZATION, DIRECTORY, FIXTURE, RETENTION, run, write_bundle

OTHER = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: other}\n"


def test_a_customization_is_under_test_wherever_the_command_names_it(tmp_path: Path) -> None:
    fixture, customization = tmp_path / "fixture.yaml", tmp_path / "game.yaml"
    fixture.write_text(FIXTURE)
    customization.write_text(CUSTOMIZATION)
    both = tmp_path / "both.yaml"
    both.write_text(f"{FIXTURE}---{CUSTOMIZATION}")
    passed = (0, "ok   InterpretHealth      lua      ready\n1 passed, 0 failed\n", "")
    for arguments in ((fixture, customization), (fixture, "-f", customization), (both,)):
        assert run("test", *map(str, arguments)) == passed


def test_a_file_without_use_is_an_error_and_the_fixtures_run(tmp_path: Path) -> None:
    for name, text in (("game.yaml", CUSTOMIZATION), ("fixture.yaml", FIXTURE), ("other.yaml", OTHER)):
        (tmp_path / name).write_text(text)
    paths = [str(tmp_path / name) for name in ("other.yaml", "game.yaml", "fixture.yaml")]
    code, out, err = run("test", *paths)
    assert (code, out) == (2, "ok   InterpretHealth      lua      ready\n1 passed, 0 failed\n")
    assert err == f"fleethook: {paths[0]}: is not used: it has no fixture, {INTERPRETERS}\n"
    assert run("test", *paths[1:], "-f", paths[0])[0] == 2
    assert run("test", str(tmp_path))[0] == 0


@pytest.mark.parametrize(
    ("name", "text", "problem"),
    [
        ("bad.yaml", CUSTOMIZATION.replace("luaScript", "luascript").replace("game", "b"), "9: ResourceInterpreterCustomization b: spec.customizations.healthInterpretation.luascript: is not a field of healthInterpretation; did you mean luaScript?"),
        ("bad.yaml", CUSTOMIZATION.replace("function Inter", "function = Inter"), "9: "),
        ("bad.yaml", "name: x\noperation: InterpretHealth\nstatusItem: []\noutput: {}\n", "1: x: 'statusItem' is unknown: did you mean statusItems?"),
        ("bad.yaml", "tests: [\n", "2: "),
        ("bad.py", "from fleethook.interpret import interpreter\nraise ValueError('no')\n", "2: ValueError: no"),
    ],
)  # fmt: skip
def test_one_bad_file_hides_no_test(tmp_path: Path, name: str, text: str, problem: str) -> None:
    bundle = write_bundle(tmp_path)
    (bundle / name).write_text(text)
    code, out, err = run("test", str(bundle))
    assert (code, out) == (2, "ok   InterpretHealth      lua      ready\n1 passed, 0 failed\n")
    assert f"{bundle / name}:{problem}" in err


def test_interpreters_that_cannot_be_loaded_exit_2(tmp_path: Path) -> None:
    (tmp_path / "x.py").write_text("1 / 0\n")
    code, _, err = run("test", str(DIRECTORY / "testdata"), "--interpreters", str(tmp_path / "x.py"))
    assert code == 2
    assert "ZeroDivisionError" in err


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("name: x\noutput: {}\n", "operation is missing"),
        ("name: x\noperation: Nothing\noutput: {a: 1}\n", "operation 'Nothing' is unknown"),
        ("name: x\noperation: InterpretHealth\noutput: {healed: true}\n", "InterpretHealth has no healed"),
        ("name: x\noperation: Retain\noutput: {retained: {}}\n", "needs the desired and the observed object"),
        ("name: x\noperation: [\n", "bad.yaml:3"),
        ("", "bad.yaml: is not used: it has no fixture, customization, "),
    ],
)
def test_an_invalid_fixture_exits_2(tmp_path: Path, text: str, problem: str) -> None:
    file = tmp_path / "bad.yaml"
    file.write_text(text)
    code, _, err = run("test", str(file))
    assert code == 2
    assert problem in err


def test_fixtures_share_objects() -> None:
    code, out, _ = run("test", str(RETENTION))
    assert code == 0
    assert out.count("ok   Retain               lua") == 3


def test_an_aggregated_object_may_leave_out_members_of_the_template(tmp_path: Path) -> None:
    """Karmada writes the status only, and some of its scripts drop spec."""
    file = tmp_path / "x.yaml"
    job = "{apiVersion: batch/v1, kind: CronJob, metadata: {name: a}%s}"
    for members, code in (
        ("", 0),
        (", spec: {suspend: true}", 0),
        (", status: {}", 0),
        (", spec: {}", 1),
        (", x: 1", 1),
    ):
        asked = f"name: x\noperation: AggregateStatus\ndesiredObj: {job % ', spec: {suspend: true}'}\n"
        file.write_text(f"{asked}output: {{aggregatedStatus: {job % members}}}\n")
        assert run("test", str(file))[0] == code, members


def test_an_empty_output_accepts_every_answer(tmp_path: Path) -> None:
    file = tmp_path / "x.yaml"
    status = "observedObj: {apiVersion: apps/v1, kind: Deployment, metadata: {name: d}}"
    file.write_text(f"name: any\noperation: InterpretHealth\n{status}\noutput:\n")
    assert run("test", str(file))[:2] == (0, "ok   InterpretHealth      native   any\n1 passed, 0 failed\n")
    file.write_text("name: none\noperation: InterpretHealth\nobservedObj: {apiVersion: x/v1, kind: Z}\noutput:\n")
    assert run("test", str(file))[0] == 1


def test_a_failing_shared_fixture_is_reported_with_its_own_line(tmp_path: Path) -> None:
    file = tmp_path / "shared.yaml"
    one = "desiredObj: d, output: {replica: 2}"
    file.write_text(
        "objects:\n  d: {apiVersion: apps/v1, kind: Deployment, metadata: {name: d}, spec: {replicas: 2}}\ntests:\n"
        f"- {{name: right, operation: InterpretReplica, {one}}}\n"
        f"- {{name: wrong, operation: InterpretReplica, {one.replace('replica: 2', 'replica: 3')}}}\n"
    )
    code, out, _ = run("test", str(file))
    assert code == 1
    assert f"FAIL InterpretReplica     native   wrong\n     {file}:5\n" in out
    file.write_text(file.read_text() + f"- {{name: odd, operation: Nothing, {one}}}\n")
    code, _, err = run("test", str(file))
    assert code == 2
    assert f"{file}:6: operation 'Nothing' is unknown" in err
