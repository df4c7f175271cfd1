from pathlib import Path

import pytest

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
