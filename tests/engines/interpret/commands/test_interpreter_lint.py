"""``fleethook lint`` on interpreters of Karmada."""

import json
from pathlib import Path

import pytest
import yaml

from tests.cli.commands import invoke
from tests.cli.interpreting import CUSTOMIZATION, DATABASE, DIRECTORY, RETENTION


def lint(*paths: Path | str) -> tuple[int, str]:
    result = invoke(["lint", *map(str, paths)])
    return result.exit_code, result.stdout + result.stderr


@pytest.mark.parametrize(
    ("before", "after", "code", "text"),
    [
        ("", "", 0, ""),
        ("return observed", "return = observed", 1, "Lua script error: line 3: unexpected symbol near '='"),
        ("function InterpretHealth", "function Healthy", 1, "not found function InterpretHealth"),
        ("function InterpretHealth", "error('no')\n        function InterpretHealth", 1, "its top level fails: game/healthInterpretation:1: no"),
        ("function InterpretHealth(observedObj)", "if false then InterpretHealth = 1 end function x(observedObj)", 1, "there is no function InterpretHealth after its top level has run"),
        ('print("seen"', 'seen = true print("seen"', 0, "warning [suspicious-interpreter]"),
        ('print("seen"', 'seen = true print("seen"', 0, "line 2: seen is set as a global"),
        ("return observed", "if observedObj then return true end -- observed", 0, "line 1: InterpretHealth does not return a value on every path"),
        ("observedObj.status.ready", "observdObj.status.ready", 0, "observdObj is undefined"),
        (CUSTOMIZATION, f"{CUSTOMIZATION}\n---\n{CUSTOMIZATION.replace('name: game', 'name: other')}", 1, "conflicting with InterpreterOperation(InterpretHealth) of existing ResourceInterpreterCustomization game"),
        (CUSTOMIZATION.partition("customizations:")[2], " {}", 0, "spec.customizations: it changes nothing: it has no script"),
        ("kind: Game", "kind: No", 1, "spec.target.kind: must be a string, not false: quote it"),
        ("luaScript", "luascript", 1, "healthInterpretation.luascript: is not a field of healthInterpretation; did you mean luaScript?"),
    ],
)  # fmt: skip
def test_lint_compiles_scripts_and_warns_of_suspicious_code(
    tmp_path: Path, before: str, after: str, code: int, text: str
) -> None:
    file = tmp_path / "customization.yaml"
    file.write_text(CUSTOMIZATION.replace(before, after))
    found, out = lint(file)
    assert found == code
    assert text in out


def test_lint_compiles_scripts_of_karmada_config(tmp_path: Path) -> None:
    text = (RETENTION / "karmada-config.yaml").read_text()
    file = tmp_path / "config.yaml"
    file.write_text(text)
    assert lint(file)[0] == 0
    file.write_text(text.replace("return desiredObj", "return desiredObj end"))
    code, out = lint(file)
    assert code == 1
    assert "data[retention.customizations][0].retention.lua: Lua script error: line 11" in out


def test_lint_finds_problems_of_webhook_configurations(tmp_path: Path) -> None:
    broken = tmp_path / "broken.yaml"
    broken.write_text(
        (DIRECTORY / "configuration.yaml").read_text().replace("https://localhost:9443/explore-foo", "http://h")
    )
    code, out = lint(broken)
    assert code == 1
    assert "webhooks[0].clientConfig.url: Invalid value" in out


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("foo = interpreter('example.org/v1', 'Foo')\n", "the interpreter of Foo has no operation"),
        ("1 / 0\n", "ZeroDivisionError: division by zero"),
        ("\ndef (\n", ":3: SyntaxError"),
    ],
)
def test_lint_loads_interpreters_in_python(tmp_path: Path, text: str, problem: str) -> None:
    file = tmp_path / "foo.py"
    file.write_text(f"from fleethook.interpret import interpreter\n{text}")
    code, out = lint(file)
    assert code == 2
    assert f"{file}:" in out
    assert problem in out
    assert lint(DATABASE)[0] == 0


def test_lint_finds_mistakes_of_scripts_with_their_lines(tmp_path: Path) -> None:
    file = tmp_path / "interpreters.yaml"
    scripts = {
        "replicaResource": {"luaScript": "function GetReplicas(o) count = 1 return count end"},
        "healthInterpretation": {"luaScript": "function InterpretHealth(o"},
    }
    spec = {"target": {"apiVersion": "example.com/v1", "kind": "Foo"}, "customizations": scripts}
    identity = {"apiVersion": "config.karmada.io/v1alpha1", "kind": "ResourceInterpreterCustomization"}
    written = yaml.safe_dump({**identity, "metadata": {"name": "foo"}, "spec": spec}, width=200)
    file.write_text(written)
    result = invoke(["lint", "-f", str(file), "-o", "json"])
    rows = json.loads(result.stdout)
    places = [f"{file}:{n}" for n, line in enumerate(written.splitlines(), 1) if "luaScript" in line]
    assert [(row["code"], row["place"], row["name"]) for row in rows] == [
        ("invalid-interpreter", places[0], "foo"),
        ("suspicious-interpreter", places[1], "foo"),
    ]
    assert "count is set as a global" in rows[1]["text"]
    assert result.exit_code == 1
    file.write_text(written.replace("InterpretHealth(o", "InterpretHealth(o) return true end"))
    assert invoke(["lint", "-f", str(file)]).exit_code == 0
    assert invoke(["lint", "-f", str(file), "--strict"]).exit_code == 1
