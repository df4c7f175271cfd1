import asyncio
import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from fleethook.console.forms_and_guard import FormError
from fleethook.engines.interpret.lua.bundled_and_crossplane_kinds import read_bundle
from fleethook.engines.interpret.pages.playground import (
    EXAMPLES,
    MAX_DIFF_LINES,
    MAX_SHOWN,
    MAX_TEXT,
    PlaygroundForm,
    PlaygroundResult,
    fill_form,
    find_script,
    number_lines,
    run_form,
)
from fleethook.interpret.interpreter import Question
from fleethook.model.json import JSONObject
from tests.cli.interpreting import run as run_interpret
from tests.console.pages.reading import Page, submit
from tests.console.visits import console_of, visit

GAME = "apiVersion: games.example.com/v1\nkind: Game\nmetadata: {name: chess}\nspec: {players: 2}\n"
HEALTHY = "function InterpretHealth(obj)\n  print('asked')\n  return obj.spec.players == 2\nend\n"
REVISE = "function ReviseReplica(obj, n)\n  obj.spec.players = n\n  return obj\nend\n"
FORM = {"operation": "ReviseReplica", "code": REVISE, "desired": GAME, "replicas": "5"}
CUSTOMIZATION = """
apiVersion: config.karmada.io/v1alpha1
kind: ResourceInterpreterCustomization
metadata: {name: foo}
spec:
  target: {apiVersion: foo.example.com/v1alpha1, kind: Foo}
  customizations:
    healthInterpretation: {luaScript: "function InterpretHealth(obj) return true end"}
"""


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


REVISING = {"operation": "ReviseReplica"}


@pytest.mark.parametrize(
    ("members", "error"),
    [
        ({"code": " "}, FormError("code", "the script is empty")),
        ({"code": "function InterpretHealth(obj)\n  return obj.a.b\nend"}, ("code", 2)),
        ({"code": "function InterpretHealth(obj)\n  return (\nend"}, ("code", 3)),
        ({"desired": ""}, ("desired", 0)),
        ({"desired": "a: 1\nb: ["}, ("desired", 3)),
        ({"observed": "a: 1\n---\nb: 2"}, FormError("observed", "the text has 2 documents, expected one")),
        ({"desired": "x" * (MAX_TEXT + 1)}, FormError("desired", "the text has more than 512 KiB: shorten it")),
        ({"operation": "Guess"}, ("operation", 0)),
        ({"operation": "Prune"}, ("desired", 0)),
        ({**REVISING, "replicas": "many"}, FormError("replicas", "'many' is not a number of replicas")),
        ({**REVISING, "replicas": str(1 << 31)}, ("replicas", 0)),
        ({**REVISING, "replicas": "-1"}, ("replicas", 0)),
    ],
)
def test_an_error_names_its_field_and_its_line(members: dict[str, Any], error: Any) -> None:
    found = run(**members)
    assert found.error is not None
    assert (found.text, found.files) == ("", {})
    if isinstance(error, FormError):
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

    One question for each group and operation is asked: test_bundled_and_crossplane_kinds.py has the others.
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


def test_hostile_names_stay_values_in_the_export() -> None:
    document = {**yaml.safe_load(GAME), "kind": "<script>alert(1)</script>"}
    document["metadata"] = {"name": "\u202ex\u0000", "a: b": "#"}
    files = run_form(lua("return true", desired=json.dumps(document))).files
    customization = yaml.safe_load(files["customization.yaml"])
    assert customization["metadata"]["name"] == "script-alert-1-script-games-example-com"
    assert yaml.safe_load(files["testdata/playground-test.yaml"])["desiredObj"] == document


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
    assert (answer.results, answer.error) == ({}, FormError("code", "the result has more than 4 MiB"))
    assert answer.usage.instructions


@pytest.mark.parametrize("spec", [None, [], {"customizations": []}, {"customizations": {"healthInterpretation": 1}}])
def test_a_customization_of_another_shape_has_no_script(spec: Any) -> None:
    assert find_script({"spec": spec}, "InterpretHealth") is None


async def test_the_playground_shows_result_changes_cost_and_export() -> None:
    status, page = await submit(console_of(), "/interpreters/playground", FORM)
    assert status == 200
    assert "Instructions" in page.text
    assert "- players: 2" in page.text
    assert "+ players: 5" in page.text
    assert "customization.yaml" in page.text


async def test_the_shown_export_passes_interpret_test(tmp_path: Any) -> None:
    """The files are taken from the page."""
    app = console_of()
    first = await visit(app, "/interpreters/playground")
    assert first.status == 200
    _, page = await submit(app, "/interpreters/playground", FORM)
    files = read_files(page)
    assert sorted(files) == ["customization.yaml", "testdata/playground-test.yaml"]
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    # The command runs its own event loop, so it needs a thread.
    code, out, error = await asyncio.to_thread(run_interpret, "test", str(tmp_path))
    assert (code, error) == (0, ""), out


def read_files(page: Page) -> dict[str, str]:
    """Return the exported files of a page: each path, and the text that follows the button."""
    text = "".join(page.words)
    parts = re.split(r"(customization\.yaml|testdata/playground-test\.yaml)Copy", text)
    return {name: body.split("\n\n\n")[0] for name, body in zip(parts[1::2], parts[2::2], strict=True)}


async def test_an_error_is_shown_at_its_line() -> None:
    code = REVISE.replace("obj.spec.players", "obj.no.players")
    status, page = await submit(console_of(), "/interpreters/playground", {**FORM, "code": code})
    assert status == 422
    assert "Line 2: game-games-example-com/replicaRevision:2:" in page.text
    assert "2 obj.no.players = n" in page.text


@pytest.mark.parametrize("query", ["customization=nothing", "operation=InterpretStatus&customization=NAME"])
async def test_a_script_that_is_not_stored_is_not_found(query: str) -> None:
    customization = yaml.safe_load(CUSTOMIZATION)
    query = query.replace("NAME", customization["metadata"]["name"])
    assert (await visit(console_of(customization), "/interpreters/playground", query=query)).status == 404
