import ast
import json
from pathlib import Path

import pytest
import yaml

from fleethook.engines.interpret.commands.interpret_convert import format_customization
from tests.cli.interpreting import run
from tests.serving import EXAMPLES, ROOT

ARGOCD = EXAMPLES / "testdata" / "argocd"
GAME_SERVER = ARGOCD / "games.example.com"


def convert(*arguments: str | Path) -> tuple[int, str, str]:
    return run("convert", "--from", "argocd", *map(str, arguments))


def test_the_written_files_pass_the_checks_and_the_fixtures(tmp_path: Path) -> None:
    code, out, report = convert(GAME_SERVER, "--output-dir", tmp_path)
    assert (code, out) == (0, "")
    assert report.splitlines()[-1] == "health checks: 1, customizations: 1, fixtures that pass: 3 of 3"
    code, out, _ = run("check", str(tmp_path))
    assert (code, out.count("warning")) == (0, 0)
    code, out, _ = run("test", str(tmp_path))
    assert (code, out.splitlines()[-1]) == (0, "3 passed, 0 failed")


def test_existing_files_stay(tmp_path: Path) -> None:
    assert convert(GAME_SERVER, "--output-dir", tmp_path)[0] == 0
    assert convert(GAME_SERVER, "--output-dir", tmp_path)[0] == 0
    file = tmp_path / "games.example.com" / "v1" / "GameServer" / "customizations.yaml"
    file.write_text("mine")
    code, _, report = convert(GAME_SERVER, "--output-dir", tmp_path)
    assert (code, file.read_text()) == (1, "mine")
    assert f"{file}: error: games.example.com/GameServer: the file exists with other content" in report


def test_the_output_is_a_stream_of_customizations_or_json_with_the_report() -> None:
    code, out, report = convert(ARGOCD, "--kind", "games.example.com/v1/Tournament")
    assert code == 1
    objects = list(yaml.safe_load_all(out))
    assert [one["metadata"]["name"] for one in objects] == [
        "gameserver-v1.games.example.com",
        "tournament-v1.games.example.com",
    ]
    assert f"{ARGOCD / 'argocd-cm.yaml'}:17: error: *.example.org/*: wildcards have no counterpart" in report
    assert report.splitlines()[-1] == "fleethook: 1 error, 1 warning"
    code, out, _ = convert(ARGOCD, "--kind", "games.example.com/v1/Tournament", "-o", "json")
    found = json.loads(out)
    assert (code, found["objects"]) == (1, objects)
    assert [len(one["tests"]) for one in found["fixtures"]] == [3]
    assert {(one["level"], one["code"]) for one in found["report"]} == {
        ("warning", "no-counterpart"), ("error", "wildcard"), ("note", "mapping"),
    }  # fmt: skip


def test_a_test_whose_fixture_fails_is_an_error_at_its_line(tmp_path: Path) -> None:
    directory = tmp_path / "example.com" / "Widget"
    directory.mkdir(parents=True)
    (directory / "health.lua").write_text("if obj.status.fails then error('no') end\nreturn {status = 'Healthy'}")
    for name in ("degraded", "fails"):
        (directory / f"{name}.yaml").write_text(f"apiVersion: example.com/v1\nkind: Widget\nstatus: {{{name}: true}}")
    tests = [{"healthStatus": {"status": "Degraded"}, "inputPath": f"{name}.yaml"} for name in ("degraded", "fails")]
    (directory / "health_test.yaml").write_text(yaml.safe_dump({"tests": tests}))
    code, out, report = convert(tmp_path)
    assert (code, len(list(yaml.safe_load_all(out)))) == (1, 1)
    lines = [line for line in report.splitlines() if "the fixture fails" in line]
    place = f"{directory / 'health_test.yaml'}"
    assert lines[0] == (
        f"{place}:2: error: example.com/Widget: the fixture fails: degraded.yaml is Degraded: healthy: expected False, "
        "found True"
    )
    assert lines[1].startswith(f"{place}:5: error: example.com/Widget: the fixture fails: fails.yaml is Degraded: ")
    assert lines[1].endswith(": no")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "give health checks to convert"),
        ((str(EXAMPLES / "retention"),), "nothing to convert"),
        ((str(GAME_SERVER), "--kind", "Widget"), "--kind Widget: expected GROUP/VERSION/KIND"),
        (("/nowhere",), "/nowhere: cannot be read"),
    ],
)
def test_input_without_health_checks_is_an_error(arguments: tuple[str, ...], message: str) -> None:
    code, out, report = convert(*arguments)
    assert (code, out) == (2, "")
    assert message in report


def test_warnings_are_errors_with_strict(tmp_path: Path) -> None:
    data = {"resource.customizations.actions.example.com_Widget": "x"}
    file = tmp_path / "argocd-cm.yaml"
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": data}))
    assert convert(file)[0] == 0
    assert convert(file, "--strict")[0] == 1


@pytest.mark.parametrize(
    "script",
    ["a\n", "a\n\n  b \n\tc\n \n", " a\n", "a", "a\n\n", "\n", "é\n", "\x07\n", "a: 'b' # c\n", "\u2028\n", ""],
)
def test_the_yaml_of_a_customization_has_its_script_unchanged(script: str) -> None:
    document = {
        "metadata": {"name": "luaScript"},
        "spec": {"target": {"kind": "a"}, "customizations": {"healthInterpretation": {"luaScript": script}}},
    }
    assert yaml.safe_load(format_customization(document)) == document


def test_the_documentation_lists_every_code_with_its_levels() -> None:
    section = (
        (ROOT / "docs" / "convert.md").read_text("utf-8").partition("\n### The report of `interpret convert`\n")[2]
    )
    rows = [[cell.strip() for cell in line.split("|")[1:3]] for line in section.splitlines() if line.startswith("| `")]
    listed = {code.strip("`"): set(levels.split(", ")) for codes, levels in rows for code in codes.split(", ")}
    app = ROOT / "app" / "fleethook" / "engines" / "interpret"
    files = [
        *(app / "argocd").glob("*.py"),
        app / "commands" / "argocd_files.py",
        app / "commands" / "interpret_convert.py",
    ]
    made: dict[str, set[str]] = {}
    for call in (
        node for file in files for node in ast.walk(ast.parse(file.read_text("utf-8"))) if isinstance(node, ast.Call)
    ):
        if ast.unparse(call.func) in ("Remark", "self._add") and isinstance(code := call.args[1], ast.Constant):
            levels = [one.value for one in ast.walk(call.args[0]) if isinstance(one, ast.Constant)]
            made.setdefault(code.value, set()).update(levels)
    assert listed == made
