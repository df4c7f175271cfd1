import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from fleethook.engines.interpret.fixtures import Fixture, FixtureError, read_fixtures
from fleethook.engines.interpret.lua.bundle import read_bundle
from fleethook.engines.interpret.pages.playground_answer import (
    ExportError,
    PlaygroundAnswer,
    PlaygroundQuestion,
    answer_question,
    build_customization,
    build_fixture,
    export_files,
    find_line,
    refuse,
    write_yaml,
)
from fleethook.interpret.question import Question
from fleethook.model.json import JSONObject
from fleethook.model.karmada import RETAIN_REPLICAS_LABEL, Operation
from tests.cli.interpreting import RETENTION, run
from tests.engines.interpret.pages.playground_scripts import GAME, lua


def test_a_refusal_has_a_reason_and_no_results() -> None:
    assert refuse("limit", "too long", line=3) == PlaygroundAnswer(None, "limit", "too long", 3)


def ask_of(fixture: Question, code: str) -> PlaygroundQuestion:
    """Return the question of a fixture to a script."""
    observed = fixture.observed
    # As the command, which asks with an empty list if there is no file of items.
    return PlaygroundQuestion(
        code, fixture.operation.value, fixture.object, observed,
        list(fixture.items or ()), fixture.replicas,
    )  # fmt: skip


def export_to(directory: Path, question: PlaygroundQuestion, results: JSONObject) -> None:
    for name, text in export_files(question, results).items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def run_command(directory: Path, question: PlaygroundQuestion, *options: str) -> tuple[int, JSONObject, str]:
    """Ask ``fleethook interpret run`` the question; return exit code, output and standard error."""
    given: dict[str, Any] = {"desired": question.desired, "observed": question.observed, "status": question.items}
    arguments = ["--operation", question.operation, "--desired-replica", str(question.replicas), *options]
    for name, value in given.items():
        if value is not None:
            path = directory / f"{name}.json"
            path.write_text(json.dumps(value), encoding="utf-8")
            arguments += [f"--{name}-file", str(path)]
    code, out, error = run("run", *arguments, "--output", "json")
    return code, json.loads(out) if code == 0 else {}, error


def read_examples() -> Iterator[tuple[str, Fixture, str]]:
    """Yield name, fixture and script of each fixture of `examples/` whose script is a function."""
    rules = yaml.safe_load(
        yaml.safe_load((RETENTION / "karmada-config.yaml").read_text())["data"]["retention.customizations"]
    )
    scripts = {rule["kind"]: rule["retention.lua"] for rule in rules if "retention.lua" in rule}
    for value in yaml.safe_load_all((RETENTION / "testdata" / "retention-test.yaml").read_text()):
        for one in read_fixtures(value):
            if (script := scripts.get(one.question.kind.kind)) and "function Retain" in script:
                yield one.name, one, script


EXAMPLES = list(read_examples())


@pytest.mark.parametrize(("fixture", "code"), [one[1:] for one in EXAMPLES], ids=[one[0] for one in EXAMPLES])
def test_the_playground_gives_the_answers_of_the_command_for_the_examples(
    tmp_path: Path, fixture: Fixture, code: str
) -> None:
    question = ask_of(fixture.question, code)
    (tmp_path / "customization.yaml").write_text(write_yaml(build_customization(question)))
    exit_code, printed, _ = run_command(tmp_path, question, "-f", str(tmp_path / "customization.yaml"))
    assert (exit_code, printed["results"], printed["layer"]) == (0, answer_question(question).results, "lua")


def read_bundled() -> Iterator[tuple[str, PlaygroundQuestion, Fixture]]:
    for kind in (one for one in read_bundle() if one.rules):
        # The program of a rule is rewritten; the customization has the source.
        path = Path("app/fleethook/engines/interpret/bundle") / kind.folder / "customization.yaml"
        document = yaml.safe_load((Path(__file__).parents[4] / path).read_text())
        scripts = {
            rule.function.operation: document["spec"]["customizations"][rule.function.member]["luaScript"]
            for rule in kind.rules
        }
        for number, case in enumerate(kind.cases()):
            # The chain answers the label by the rules for replicas, which the playground does not have.
            labels = case.question.object.get("metadata", {}).get("labels") or {}
            if (code := scripts.get(case.question.operation)) and RETAIN_REPLICAS_LABEL not in labels:
                yield f"{kind.folder} {number}", ask_of(case.question, code), case


def test_the_playground_gives_the_answers_of_the_command_for_the_bundle(tmp_path: Path) -> None:
    """The command answers by the bundle itself, the playground by the same script as a customization."""
    asked, differing = 0, []
    for name, question, _ in read_bundled():
        answer = answer_question(question)
        exit_code, printed, error = run_command(tmp_path, question)
        asked += 1
        if exit_code == 0 and printed["results"] != answer.results:
            differing.append((name, printed["results"], answer.results))
        if exit_code != 0 and (answer.results is not None or not error):
            differing.append((name, error, answer.results))
        for path in tmp_path.iterdir():
            path.unlink()
    assert differing == []
    assert asked > 100


def test_an_export_passes_interpret_test(tmp_path: Path) -> None:
    question = lua("return obj.spec.players == 2")
    results = answer_question(question).results
    assert results is not None
    export_to(tmp_path, question, results)
    exit_code, out, error = run("test", str(tmp_path))
    assert (exit_code, error) == (0, ""), out


def test_an_export_with_another_expectation_fails_interpret_test(tmp_path: Path) -> None:
    export_to(tmp_path, lua("return obj.spec.players == 2"), {"healthy": False})
    exit_code, out, _ = run("test", str(tmp_path))
    assert exit_code == 1
    assert "healthy" in out


def test_a_customization_keeps_the_script_readable() -> None:
    text = write_yaml(build_customization(lua("return obj.spec.players == 2")))
    assert "luaScript: |\n" in text
    assert "\n          return" not in text.split("luaScript")[0]
    assert yaml.safe_load(text)["spec"]["target"] == {"apiVersion": "games.example.com/v1", "kind": "Game"}


def test_hostile_names_stay_values_in_the_export() -> None:
    document = {**GAME, "kind": "<script>alert(1)</script>", "metadata": {"name": "\u202ex\u0000", "a: b": "#"}}
    question = lua("return true", desired=document)
    customization = build_customization(question)
    assert customization["metadata"]["name"] == "script-alert-1-script-games-example-com"
    for text in export_files(question, {"healthy": True}).values():
        assert yaml.safe_load(text)
    assert yaml.safe_load(write_yaml(document)) == document


@pytest.mark.parametrize("operation", [one for one in Operation if one is not Operation.PRUNE])
def test_a_fixture_repeats_the_question(operation: Operation) -> None:
    items = [{"clusterName": "a", "status": {}}]
    question = PlaygroundQuestion("", operation.value, GAME, GAME, items, 3)
    fixture = next(read_fixtures(build_fixture(question, {})))
    assert fixture.question.operation is operation
    assert fixture.question.object == GAME
    assert fixture.question.items == (items if operation is Operation.AGGREGATE_STATUS else None)
    assert fixture.question.replicas == (3 if operation is Operation.REVISE_REPLICA else 0)


def test_prune_has_no_customization() -> None:
    with pytest.raises(ExportError, match="choose another operation"):
        build_customization(lua("return obj", "Prune"))
    with pytest.raises(FixtureError):
        build_fixture(lua("return obj", "Retain"), {})


def test_a_lua_script_answers_with_its_cost() -> None:
    answer = answer_question(lua('print("asked") return obj.spec.players == 2'))
    assert (answer.results, answer.reason, answer.printed) == ({"healthy": True}, "", ("asked",))
    assert 0 < answer.instructions < 10_000
    assert 0 < answer.memory < 1 << 20


def test_more_work_costs_more_instructions_and_memory() -> None:
    little = answer_question(lua("return true"))
    much = answer_question(lua("local all = {} for i = 1, 20000 do all[i] = i end return #all == 20000"))
    assert much.results == {"healthy": True}
    assert much.instructions > little.instructions + 20_000
    assert much.memory > little.memory + 20_000 * 8


@pytest.mark.parametrize(
    ("body", "line"),
    [("return obj.spec.a.b", 2), ("\n\nreturn obj.spec.a.b", 4), ('error("no")', 2), ("return nil .. 1", 2)],
)
def test_an_error_of_a_lua_script_has_its_line(body: str, line: int) -> None:
    answer = answer_question(lua(body))
    assert (answer.results, answer.reason, answer.line) == (None, "script", line)


def test_a_syntax_error_has_its_line() -> None:
    answer = answer_question(lua("\nreturn return"))
    assert (answer.reason, answer.line) == ("script", 3)
    assert answer.error.startswith("Lua script error: line 3")


def test_suspicious_code_is_a_warning_beside_the_answer() -> None:
    answer = answer_question(lua("if obj then return true end"))
    assert answer.results == {"healthy": True}
    assert any("does not return a value on every path" in one for one in answer.warnings)


@pytest.mark.parametrize(
    ("body", "text"),
    [
        pytest.param("while true do end", "took more than 20000000 instructions", id="infinite loop"),
        pytest.param("local t = {} while true do t[#t+1] = ('x'):rep(9999) .. #t end", "took more than", id="memory"),
        pytest.param("return 1 + InterpretHealth(obj)", "took more than", id="recursion"),
        pytest.param("return ('x'):rep(2 ^ 40)", "", id="one huge text"),
        pytest.param("return io.open('/etc/passwd')", "io", id="files"),
        pytest.param("return os.execute('true')", "execute", id="processes"),
        pytest.param("return load('return 1')()", "load", id="code from text"),
        pytest.param("return require('socket')", "", id="modules"),
        pytest.param("return debug.getregistry()", "debug", id="debug library"),
        pytest.param("return python.eval('1')", "python", id="the host"),
    ],
)
def test_an_attack_is_an_error_of_the_script(body: str, text: str) -> None:
    answer = answer_question(lua(body))
    assert (answer.results, answer.reason) == (None, "script")
    assert text in answer.error


def test_a_large_result_is_refused() -> None:
    body = "local all = {} for i = 1, 6 do all['k' .. i] = ('x'):rep(2 ^ 20) end return all"
    answer = answer_question(PlaygroundQuestion(f"function ReflectStatus(obj) {body} end", "InterpretStatus", GAME))
    assert (answer.results, answer.reason, answer.error) == (None, "script", "the result has more than 4 MiB")
    assert answer.instructions


@pytest.mark.parametrize(
    ("question", "text"),
    [
        (lua("return true", desired=None), "needs a desired or an observed object"),
        (lua("return true", "Retain"), "Retain needs the desired and the observed object"),
        (lua("return true", "Guess"), "operation 'Guess' is unknown"),
        (lua("return true", "Prune"), "a customization has no rule for Prune"),
    ],
)
def test_an_incomplete_question_is_refused(question: PlaygroundQuestion, text: str) -> None:
    answer = answer_question(question)
    assert answer.reason == "input"
    assert text in answer.error


@pytest.mark.parametrize(
    ("message", "line"),
    [
        ("game/healthInterpretation:12: bad", 12),
        ("Lua script error: line 3: near end", 3),
        ("returned at 12:30: nothing", 0),
        ("nothing", 0),
    ],
)
def test_the_line_of_a_message_is_found(message: str, line: int) -> None:
    assert find_line(message) == line
