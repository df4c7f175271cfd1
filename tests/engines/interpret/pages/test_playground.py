import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from fleethook.console.forms import FieldError
from fleethook.engines.interpret.fixtures import Fixture, read_fixtures
from fleethook.engines.interpret.lua.bundle import read_bundle
from fleethook.engines.interpret.pages.playground import (
    EXAMPLES,
    MAX_DIFF_LINES,
    MAX_SHOWN,
    MAX_TEXT,
    PlaygroundForm,
    PlaygroundResult,
    build_customization,
    complete_fixture,
    fill_form,
    find_line,
    find_script,
    number_lines,
    read_form,
    read_question,
    run_form,
    write_yaml,
)
from fleethook.interpret.interpreter import Question
from fleethook.model.json import JSONObject
from fleethook.model.karmada import Operation
from tests.cli.interpreting import RETENTION
from tests.cli.interpreting import run as run_interpret

GAME = "apiVersion: games.example.com/v1\nkind: Game\nmetadata: {name: chess}\nspec: {players: 2}\n"
HEALTHY = "function InterpretHealth(obj)\n  print('asked')\n  return obj.spec.players == 2\nend\n"
REVISE = "function ReviseReplica(obj, n)\n  obj.spec.players = n\n  return obj\nend\n"


def run(**members: Any) -> PlaygroundResult:
    return run_form(PlaygroundForm(**{"code": HEALTHY, "desired": GAME, **members}))


def test_the_result_has_its_cost_and_its_files() -> None:
    found = run()
    assert (found.error, found.text, found.diff, found.printed) == (None, "healthy: true\n", (), ("asked",))
    assert found.seconds > 0
    assert found.usage.instructions
    assert found.usage.memory
    assert list(found.files) == ["customization.yaml", "testdata/playground-test.yaml"]


def test_a_changed_object_is_compared() -> None:
    found = run(operation="ReviseReplica", code=REVISE, replicas="7")
    assert yaml.safe_load(found.text)["revised"]["spec"] == {"players": 7}
    assert [one for one in found.diff if one[0] in "+-"] == [
        ("-", "  players: 2"), ("+", "  players: 7"),
    ]  # fmt: skip


def test_an_unchanged_object_has_no_difference() -> None:
    assert run(operation="ReviseReplica", code=REVISE, replicas="2").diff == ()


def test_retain_compares_with_the_desired_object() -> None:
    code = "function Retain(desired, observed)\n  desired.spec.players = observed.spec.players\n  return desired\nend"
    found = run(operation="Retain", code=code, observed=GAME.replace("2", "5"))
    assert [text for sign, text in found.diff if sign in "+-"] == ["  players: 2", "  players: 5"]


@pytest.mark.parametrize(
    ("items", "count"), [("", 0), ("- clusterName: a\n- clusterName: b", 2), ("clusterName: a", 1),
                         ("clusterName: a\n---\nclusterName: b", 2)],
)  # fmt: skip
def test_items_are_documents_or_a_list(items: str, count: int) -> None:
    code = "function AggregateStatus(obj, items)\n  obj.status = {clusters = #items}\n  return obj\nend"
    found = run(operation="AggregateStatus", code=code, items=items)
    assert yaml.safe_load(found.text)["aggregatedStatus"]["status"] == {"clusters": count}


@pytest.mark.parametrize(
    ("members", "error"),
    [
        ({"code": " "}, FieldError("code", "the script is empty")),
        ({"code": "function InterpretHealth(obj)\n  return obj.a.b\nend"}, ("code", 2)),
        ({"code": "function InterpretHealth(obj)\n  return (\nend"}, ("code", 3)),
        ({"desired": ""}, ("desired", 0)),
        ({"desired": "a: 1\nb: ["}, ("desired", 3)),
        ({"observed": "a: 1\n---\nb: 2"}, FieldError("observed", "the text has 2 documents, expected one")),
        ({"desired": "x" * (MAX_TEXT + 1)}, FieldError("desired", "the text has more than 512 KiB: shorten it")),
        ({"operation": "Guess"}, ("operation", 0)),
        ({"operation": "Prune"}, ("desired", 0)),
        ({"replicas": "many"}, FieldError("replicas", "'many' is not a number of replicas")),
        ({"replicas": str(1 << 31)}, ("replicas", 0)),
        ({"replicas": "-1"}, ("replicas", 0)),
    ],
)
def test_an_error_names_its_field_and_its_line(members: dict[str, Any], error: Any) -> None:
    found = run(**members)
    assert found.error is not None
    assert (found.text, found.files) == ("", {})
    if isinstance(error, FieldError):
        assert found.error == error
    else:
        assert (found.error.field, found.error.line) == error
        assert found.error.text


def test_lines_of_a_browser_are_those_of_the_script() -> None:
    found = run(code=HEALTHY.replace("obj.spec.players", "obj.no.players").replace("\n", "\r\n"))
    assert found.error is not None
    assert found.error.line == 3


def test_an_export_of_a_browser_keeps_the_script_readable() -> None:
    files = run(code=HEALTHY.replace("\n", "\r\n")).files
    assert "luaScript: |\n" in files["customization.yaml"]
    assert "\\r" not in files["customization.yaml"]


def test_a_large_result_is_cut_and_not_compared() -> None:
    code = (
        f"function ReviseReplica(obj, n) for i = 1, {MAX_DIFF_LINES + 10_000} do obj['k' .. i] = i end return obj end"
    )
    found = run(operation="ReviseReplica", code=code)
    assert (len(found.text), found.is_cut, len(found.diff)) == (MAX_SHOWN, True, 1)
    assert "not compared" in found.diff[0][1]


def test_hostile_texts_stay_texts() -> None:
    name = "<script>alert(1)</script>\u202e' onerror=x"
    document = json.dumps({"apiVersion": "a/v1", "kind": "K", "metadata": {"name": name}})
    code = f"function InterpretHealth(obj)\n  error({json.dumps(name, ensure_ascii=False)})\nend"
    found = run(desired=document, code=code)
    assert found.error is not None
    assert name in found.error.text


@pytest.mark.parametrize("operation", list(EXAMPLES))
def test_each_example_gives_a_result(operation: str) -> None:
    form = fill_form(operation)
    assert form.operation == operation
    found = run_form(form)
    assert (found.error, found.warnings) == (None, ())
    assert found.text
    assert found.files


def test_the_form_begins_with_the_health() -> None:
    assert fill_form("<script>") == fill_form("InterpretHealth")


def test_the_lines_around_an_error_are_numbered() -> None:
    code = "\n".join(f"line {number}" for number in range(1, 20))
    assert number_lines(code, 2) == ((1, "line 1"), (2, "line 2"), (3, "line 3"), (4, "line 4"), (5, "line 5"))
    assert [number for number, _ in number_lines(code, 10)] == [7, 8, 9, 10, 11, 12, 13]
    assert number_lines("", 3) == ()


def lua(body: str, operation: str = "InterpretHealth", desired: str = GAME) -> PlaygroundForm:
    """Return the form for a Lua function with a body on its second line."""
    return PlaygroundForm(operation, f"function InterpretHealth(obj)\n{body}\nend\n", desired)


def ask_of(question: Question, code: str) -> PlaygroundForm:
    """Return the form for the question of a fixture to a script."""
    observed = "" if question.observed is None else json.dumps(question.observed)
    items = json.dumps(list(question.items or ()))
    return PlaygroundForm(
        question.operation.value, code, json.dumps(question.object), observed, items, str(question.replicas)
    )


def export_to(directory: Path, files: Any) -> None:
    for name, text in files.items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def run_command(directory: Path, form: PlaygroundForm, *options: str) -> tuple[int, JSONObject, str]:
    """Ask ``fleethook interpret run`` the question; return exit code, output and standard error."""
    arguments = ["--operation", form.operation, *options]
    if form.operation == "ReviseReplica":
        arguments += ["--desired-replica", form.replicas]
    # The command refuses options that the operation does not use.
    unused = {
        "observed": bool(form.desired) and form.operation != "Retain",
        "status": form.operation != "AggregateStatus",
    }
    for name, text in {"desired": form.desired, "observed": form.observed, "status": form.items}.items():
        if text and not unused.get(name):
            path = directory / f"{name}.json"
            path.write_text(text, encoding="utf-8")
            arguments += [f"--{name}-file", str(path)]
    code, out, error = run_interpret("run", *arguments, "--output", "json")
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


RETAINED = list(read_examples())


@pytest.mark.parametrize(("fixture", "code"), [one[1:] for one in RETAINED], ids=[one[0] for one in RETAINED])
def test_the_playground_gives_the_answers_of_the_command_for_the_examples(
    tmp_path: Path, fixture: Fixture, code: str
) -> None:
    form = ask_of(fixture.question, code)
    (tmp_path / "customization.yaml").write_text(write_yaml(build_customization(code, fixture.question)))
    exit_code, printed, _ = run_command(tmp_path, form, "-f", str(tmp_path / "customization.yaml"))
    assert (exit_code, printed["results"], printed["layer"]) == (0, run_form(form).results, "lua")


def read_bundled() -> Iterator[tuple[str, PlaygroundForm]]:
    for kind in (one for one in read_bundle() if one.rules):
        # The program of a rule is rewritten; the customization has the source.
        path = Path("app/fleethook/engines/interpret/bundle") / kind.folder / "customization.yaml"
        document = yaml.safe_load((Path(__file__).parents[4] / path).read_text())
        scripts = {
            rule.function.operation: document["spec"]["customizations"][rule.function.member]["luaScript"]
            for rule in kind.rules
        }
        for number, case in enumerate(kind.cases()):
            if code := scripts.get(case.question.operation):
                yield f"{kind.folder} {number}", ask_of(case.question, code)


def test_the_playground_gives_the_answers_of_the_command_for_the_bundle(tmp_path: Path) -> None:
    """The command answers by the bundle itself, the playground by the same script as a customization.

    One question for each group and operation is asked: test_bundle.py has the others.
    """
    asked, differing = 0, []
    forms = {(name.partition("/")[0], form.operation): (name, form) for name, form in read_bundled()}
    for name, form in forms.values():
        answer = run_form(form)
        exit_code, printed, error = run_command(tmp_path, form)
        asked += 1
        if exit_code == 0 and printed["results"] != answer.results:
            differing.append((name, printed["results"], answer.results))
        if exit_code != 0 and (answer.error is None or not error):
            differing.append((name, error, answer.results))
        for path in tmp_path.iterdir():
            path.unlink()
    assert differing == []
    assert asked > 100


def test_an_export_passes_interpret_test(tmp_path: Path) -> None:
    export_to(tmp_path, run_form(lua("return obj.spec.players == 2")).files)
    exit_code, out, error = run_interpret("test", str(tmp_path))
    assert (exit_code, error) == (0, ""), out


def test_an_export_with_another_expectation_fails_interpret_test(tmp_path: Path) -> None:
    files = run_form(lua("return obj.spec.players == 2")).files
    export_to(tmp_path, {name: text.replace("healthy: true", "healthy: false") for name, text in files.items()})
    exit_code, out, _ = run_interpret("test", str(tmp_path))
    assert exit_code == 1
    assert "healthy" in out


def test_a_customization_keeps_the_script_readable() -> None:
    text = run_form(lua("return obj.spec.players == 2")).files["customization.yaml"]
    assert "luaScript: |\n" in text
    assert "\n          return" not in text.split("luaScript")[0]
    assert yaml.safe_load(text)["spec"]["target"] == {"apiVersion": "games.example.com/v1", "kind": "Game"}


def test_hostile_names_stay_values_in_the_export() -> None:
    document = {**yaml.safe_load(GAME), "kind": "<script>alert(1)</script>"}
    document["metadata"] = {"name": "\u202ex\u0000", "a: b": "#"}
    files = run_form(lua("return true", desired=json.dumps(document))).files
    customization = yaml.safe_load(files["customization.yaml"])
    assert customization["metadata"]["name"] == "script-alert-1-script-games-example-com"
    assert yaml.safe_load(files["testdata/playground-test.yaml"])["desiredObj"] == document


@pytest.mark.parametrize("operation", [one for one in Operation if one is not Operation.PRUNE])
def test_a_fixture_repeats_the_question(operation: Operation) -> None:
    items = [{"clusterName": "a", "status": {}}]
    form = PlaygroundForm(operation.value, "x", GAME, GAME, json.dumps(items), "3")
    _, given = read_form(form)
    exported = complete_fixture(given, read_question(given), {})
    question = next(read_fixtures(exported)).question
    assert question.operation is operation
    assert question.object == yaml.safe_load(GAME)
    assert question.items == (items if operation is Operation.AGGREGATE_STATUS else None)
    assert question.replicas == (3 if operation is Operation.REVISE_REPLICA else 0)


def test_a_lua_script_answers_with_its_cost() -> None:
    answer = run_form(lua('print("asked") return obj.spec.players == 2'))
    assert (answer.results, answer.error, answer.printed) == ({"healthy": True}, None, ("asked",))
    assert 0 < answer.usage.instructions < 10_000
    assert 0 < answer.usage.memory < 1 << 20


def test_more_work_costs_more_instructions_and_memory() -> None:
    little = run_form(lua("return true"))
    much = run_form(lua("local all = {} for i = 1, 20000 do all[i] = i end return #all == 20000"))
    assert much.results == {"healthy": True}
    assert much.usage.instructions > little.usage.instructions + 20_000
    assert much.usage.memory > little.usage.memory + 20_000 * 8


@pytest.mark.parametrize(
    ("body", "line"),
    [("return obj.spec.a.b", 2), ("\n\nreturn obj.spec.a.b", 4), ('error("no")', 2), ("return nil .. 1", 2)],
)
def test_an_error_of_a_lua_script_has_its_line(body: str, line: int) -> None:
    error = run_form(lua(body)).error
    assert error is not None
    assert (error.field, error.line) == ("code", line)


def test_a_syntax_error_has_its_line() -> None:
    error = run_form(lua("\nreturn return")).error
    assert error is not None
    assert (error.field, error.line) == ("code", 3)
    assert error.text.startswith("Lua script error: line 3")


def test_suspicious_code_is_a_warning_beside_the_answer() -> None:
    answer = run_form(lua("if obj then return true end"))
    assert answer.results == {"healthy": True}
    assert any("does not return a value on every path" in one for one in answer.warnings)


def test_members_of_the_result_that_karmada_drops_are_warnings() -> None:
    code = "function GetReplicas(obj) return 1, {requests = {cpu = 1}} end"
    answer = run_form(replace(fill_form("InterpretReplica"), code=code))
    assert answer.warnings == ("Karmada drops: requirements has no member requests; did you mean resourceRequest?",)


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
    answer = run_form(lua(body))
    assert answer.error is not None
    assert (answer.results, answer.error.field) == ({}, "code")
    assert text in answer.error.text


def test_a_large_result_is_refused() -> None:
    body = "local all = {} for i = 1, 6 do all['k' .. i] = ('x'):rep(2 ^ 20) end return all"
    answer = run_form(PlaygroundForm("InterpretStatus", f"function ReflectStatus(obj) {body} end", GAME))
    assert (answer.results, answer.error) == ({}, FieldError("code", "the result has more than 4 MiB"))
    assert answer.usage.instructions


@pytest.mark.parametrize(
    ("form", "field", "text"),
    [
        (lua("return true", desired=""), "desired", "needs a desired or an observed object"),
        (lua("return true", "Retain"), "desired", "Retain needs the desired and the observed object"),
        (lua("return true", "Guess"), "operation", "operation 'Guess' is unknown"),
        (lua("return true", "Prune"), "desired", "a customization has no rule for Prune"),
    ],
)
def test_an_incomplete_question_is_refused(form: PlaygroundForm, field: str, text: str) -> None:
    error = run_form(form).error
    assert error is not None
    assert error.field == field
    assert text in error.text


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


@pytest.mark.parametrize("spec", [None, [], {"customizations": []}, {"customizations": {"healthInterpretation": 1}}])
def test_a_customization_of_another_shape_has_no_script(spec: Any) -> None:
    assert find_script({"spec": spec}, "InterpretHealth") is None
