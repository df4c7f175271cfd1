import json
from typing import Any

import pytest
import yaml

from fleethook.console.forms import FieldError
from fleethook.engines.interpret.pages.playground import (
    EXAMPLES,
    MAX_DIFF_LINES,
    MAX_SHOWN,
    MAX_TEXT,
    PlaygroundForm,
    PlaygroundResult,
    fill_form,
    number_lines,
    run_form,
)
from fleethook.engines.interpret.pages.playground_answer import PlaygroundAnswer

GAME = "apiVersion: games.example.com/v1\nkind: Game\nmetadata: {name: chess}\nspec: {players: 2}\n"
HEALTHY = "function InterpretHealth(obj)\n  print('asked')\n  return obj.spec.players == 2\nend\n"
REVISE = "function ReviseReplica(obj, n)\n  obj.spec.players = n\n  return obj\nend\n"


def run(**members: Any) -> PlaygroundResult:
    return run_form(PlaygroundForm(**{"code": HEALTHY, "desired": GAME, **members}))


def test_the_result_has_its_cost_and_its_files() -> None:
    found = run()
    assert (found.error, found.result, found.diff, found.printed) == (None, "healthy: true\n", (), ("asked",))
    assert found.milliseconds > 0
    assert found.instructions
    assert found.memory_kib
    assert [one.path for one in found.files] == ["customization.yaml", "testdata/playground-test.yaml"]


def test_a_changed_object_is_compared() -> None:
    found = run(operation="ReviseReplica", code=REVISE, replicas="7")
    assert yaml.safe_load(found.result)["revised"]["spec"] == {"players": 7}
    assert [(one.sign, one.text) for one in found.diff if one.sign in "+-"] == [
        ("-", "  players: 2"), ("+", "  players: 7"),
    ]  # fmt: skip


def test_an_unchanged_object_has_no_difference() -> None:
    assert run(operation="ReviseReplica", code=REVISE, replicas="2").diff == ()


def test_retain_compares_with_the_desired_object() -> None:
    code = "function Retain(desired, observed)\n  desired.spec.players = observed.spec.players\n  return desired\nend"
    found = run(operation="Retain", code=code, observed=GAME.replace("2", "5"))
    assert [one.text for one in found.diff if one.sign in "+-"] == ["  players: 2", "  players: 5"]


@pytest.mark.parametrize(
    ("items", "count"), [("", 0), ("- clusterName: a\n- clusterName: b", 2), ("clusterName: a", 1),
                         ("clusterName: a\n---\nclusterName: b", 2)],
)  # fmt: skip
def test_items_are_documents_or_a_list(items: str, count: int) -> None:
    code = "function AggregateStatus(obj, items)\n  obj.status = {clusters = #items}\n  return obj\nend"
    found = run(operation="AggregateStatus", code=code, items=items)
    assert yaml.safe_load(found.result)["aggregatedStatus"]["status"] == {"clusters": count}


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
    assert found.result == ""
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
    assert "luaScript: |\n" in files[0].text
    assert "\\r" not in files[0].text


def test_a_large_result_is_cut_and_not_compared() -> None:
    answer = PlaygroundAnswer({"revised": {f"k{number}": number for number in range(MAX_DIFF_LINES + 40_000)}})
    found = run_form(PlaygroundForm(code="x", desired=GAME, operation="ReviseReplica"), lambda _: answer)
    assert (len(found.result), found.is_cut, len(found.diff)) == (MAX_SHOWN, True, 1)
    assert "not compared" in found.diff[0].text


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
    assert found.result
    assert found.files


def test_the_form_begins_with_the_health() -> None:
    assert fill_form("<script>") == fill_form("InterpretHealth")


def test_the_lines_around_an_error_are_numbered() -> None:
    code = "\n".join(f"line {number}" for number in range(1, 20))
    assert [(one.number, one.text, one.is_wrong) for one in number_lines(code, 2)] == [
        (1, "line 1", False), (2, "line 2", True), (3, "line 3", False), (4, "line 4", False), (5, "line 5", False),
    ]  # fmt: skip
    assert [one.number for one in number_lines(code, 10)] == [7, 8, 9, 10, 11, 12, 13]
    assert number_lines("", 3) == ()
