from pathlib import Path

from tests.cli.interpreting import (
    CUSTOMIZATION,
    DIRECTORY,
    run,
    write_bundle,
)


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
