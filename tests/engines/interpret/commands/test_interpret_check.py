from pathlib import Path
from typing import Any

from tests.cli.commands import invoke
from tests.cli.conftest import WriteYAML


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
