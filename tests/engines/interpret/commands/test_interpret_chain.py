from pathlib import Path
from typing import Any

import pytest

from tests.cli.commands import invoke
from tests.cli.conftest import WriteYAML
from tests.cli.interpreting import (
    CUSTOMIZATION,
    DIRECTORY,
    RETENTION,
    run,
    write_bundle,
)


@pytest.mark.parametrize(
    ("before", "after", "code", "text"),
    [
        ("", "", 0, "ok   "),
        ("return observed", "return = observed", 1, "Lua script error: line 3: unexpected symbol near '='"),
        ("function InterpretHealth", "function Healthy", 1, "not found function InterpretHealth"),
        ("function InterpretHealth", "error('no')\n        function InterpretHealth", 1, "its top level fails: game/healthInterpretation:1: no"),
        ("function InterpretHealth(observedObj)", "if false then InterpretHealth = 1 end function x(observedObj)", 1, "there is no function InterpretHealth after its top level has run"),
        ('print("seen"', 'seen = true print("seen"', 0, "warning: spec.customizations.healthInterpretation.luaScript: line 2: seen is set as a global"),
        ("return observed", "if observedObj then return true end -- observed", 0, "warning: spec.customizations.healthInterpretation.luaScript: line 1: InterpretHealth does not return a value on every path"),
        ("observedObj.status.ready", "observdObj.status.ready", 0, "observdObj is undefined"),
    ],
)  # fmt: skip
def test_check_compiles_scripts_and_warns_of_suspicious_code(
    tmp_path: Path, before: str, after: str, code: int, text: str
) -> None:
    file = tmp_path / "customization.yaml"
    file.write_text(CUSTOMIZATION.replace(before, after))
    found, out, _ = run("check", str(file))
    assert found == code
    assert text in out


def test_a_customization_without_fixtures_is_a_warning(tmp_path: Path) -> None:
    bundle = write_bundle(tmp_path)
    other = bundle / "other.yaml"
    other.write_text("\n" + CUSTOMIZATION.replace("kind: Game}", "kind: Match}").replace("name: game", "name: match"))
    code, out, err = run("test", str(bundle))
    assert (code, out) == (0, "ok   InterpretHealth      lua      ready\n1 passed, 0 failed\n")
    named = "games.example.com/v1 Match, for which ResourceInterpreterCustomization match has scripts"
    assert err == f"{other}:3: warning: no fixture asks about {named}\n"


def test_check_lists_the_rules(tmp_path: Path) -> None:
    file = tmp_path / "customization.yaml"
    file.write_text(
        f"{CUSTOMIZATION}    retention:\n      luaScript: function Retain(a, b) return a end\n"
        "    statusReflection:\n      luaScript: function Other(a) return a end\n"
    )
    code, out, _ = run("check", str(tmp_path))
    assert code == 1
    assert out.splitlines()[1:9] == [
        "     Retain               set", "     InterpretReplica     not set", "     InterpretComponent   not set",
        "     ReviseReplica        not set", "     InterpretStatus      refused", "     AggregateStatus      not set",
        "     InterpretHealth      set", "     InterpretDependency  not set",
    ]  # fmt: skip


def test_check_compiles_scripts_of_karmada_config(tmp_path: Path) -> None:
    text = (RETENTION / "karmada-config.yaml").read_text()
    file = tmp_path / "config.yaml"
    file.write_text(text)
    assert run("check", str(file))[0] == 0
    file.write_text(text.replace("return desiredObj", "return desiredObj end"))
    code, out, _ = run("check", str(file))
    assert code == 1
    assert "data[retention.customizations][0].retention.lua: Lua script error: line 11" in out


def test_interpreters_that_cannot_be_loaded_exit_2(tmp_path: Path) -> None:
    (tmp_path / "x.py").write_text("1 / 0\n")
    code, _, err = run("test", str(DIRECTORY / "testdata"), "--interpreters", str(tmp_path / "x.py"))
    assert code == 2
    assert "ZeroDivisionError" in err


def test_a_customization_that_does_not_compile_exits_2(tmp_path: Path) -> None:
    bundle = write_bundle(tmp_path)
    file = bundle / "games.example.com" / "v1" / "Game" / "customizations.yaml"
    file.write_text(CUSTOMIZATION.replace("return observed", "retrun observed"))
    code, _, err = run("test", str(bundle))
    assert code == 2
    line = file.read_text().splitlines().index("      luaScript: |") + 1
    place = f"{file}:{line}: ResourceInterpreterCustomization game: spec.customizations.healthInterpretation.luaScript"
    assert err.count("Lua script error: line 3") == 1
    assert f"{place}: Lua script error: line 3" in err


def test_a_failing_script_is_reported_with_its_line(tmp_path: Path) -> None:
    bundle = write_bundle(tmp_path)
    file = bundle / "games.example.com" / "v1" / "Game" / "customizations.yaml"
    file.write_text(CUSTOMIZATION.replace("observedObj.status.ready", "observedObj.state.ready"))
    code, out, _ = run("test", str(bundle))
    assert code == 1
    assert "game/healthInterpretation:3: attempt to index a nil value (field 'state')" in out


def check(*arguments: str) -> tuple[int, list[str]]:
    result = invoke(["interpret", "check", *arguments])
    return result.exit_code, result.stdout.splitlines()


def customization(script: str) -> dict[str, Any]:
    return {
        "apiVersion": "config.karmada.io/v1alpha1",
        "kind": "ResourceInterpreterCustomization",
        "metadata": {"name": "foo"},
        "spec": {
            "target": {"apiVersion": "example.org/v1", "kind": "Foo"},
            "customizations": {"healthInterpretation": {"luaScript": script}},
        },
    }


GOOD = "function InterpretHealth(observedObj)\n  return true\nend"
SUSPICIOUS = "function InterpretHealth(observedObj)\n  counter = 1\n  return true\nend"
BAD = "function InterpretHealth(observedObj)"


def line_of(file: str, text: str) -> int:
    lines = Path(file).read_text(encoding="utf-8").splitlines()
    return next(number for number, line in enumerate(lines, 1) if text in line)


def test_a_script_that_does_not_compile_is_an_error_at_its_line(write_yaml: WriteYAML) -> None:
    file = write_yaml("a.yaml", customization(BAD))
    code, lines = check(file, "--output", "github")
    assert code == 1
    (line,) = lines
    at = line_of(file, "luaScript")
    assert line.startswith(
        f"::error file={file},line={at},title=invalid-interpreter::ResourceInterpreterCustomization foo: "
    )
    assert "healthInterpretation" in line


def test_a_global_variable_is_a_warning(write_yaml: WriteYAML) -> None:
    file = write_yaml("a.yaml", customization(SUSPICIOUS))
    code, lines = check(file, "--output", "github")
    assert code == 0
    assert [line.partition(",line=")[0] for line in lines] == [f"::warning file={file}"]
    assert "title=suspicious-interpreter::" in lines[0]


def test_a_good_script_has_no_annotation_and_text_shows_its_rules(write_yaml: WriteYAML) -> None:
    file = write_yaml("a.yaml", customization(GOOD))
    assert check(file, "-o", "github") == (0, [])
    code, lines = check(file)
    assert (code, lines[0]) == (0, f"ok   {file}:1: ResourceInterpreterCustomization foo")
    assert any(line.split() == ["InterpretHealth", "set"] for line in lines)


def test_other_objects_are_not_checked(write_yaml: WriteYAML) -> None:
    assert check(write_yaml("a.yaml", {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"}})) == (0, [])


def test_an_interpreter_without_operations_is_an_error(tmp_path: Path) -> None:
    file = tmp_path / "nothing.py"
    file.write_text("from fleethook.interpret import interpreter\n\nfoo = interpreter('example.org/v1', 'Foo')\n")
    assert check(str(file)) == (1, [f"FAIL {file}: example.org/v1 Foo: nothing"])
    code, lines = check(str(file), "-o", "github")
    assert (code, len(lines)) == (1, 1)
    assert lines[0].startswith(f"::error file={file},line=1,title=empty-interpreter::example.org/v1 Foo: ")


def test_a_good_script_after_a_bad_one_does_not_hide_it(write_yaml: WriteYAML) -> None:
    good = {**customization(GOOD), "metadata": {"name": "good"}}
    assert check(write_yaml("a.yaml", customization(BAD), good))[0] == 1


def test_files_are_given_by_position_or_by_option_alike(write_yaml: WriteYAML, tmp_path: Path) -> None:
    file = write_yaml("a.yaml", customization(GOOD))
    expected = check(file)
    assert expected[0] == 0
    assert check("-f", file) == expected
    assert check(file, "-f", file, "--filename", file) == (0, 3 * expected[1])
    nothing = invoke(["interpret", "check"])
    assert (nothing.exit_code, "-f FILE, --kubeconfig FILE or --in-cluster" in nothing.stderr) == (2, True)
