import pytest

from app.interpret.playground.answering import answer_question, find_line
from app.interpret.playground.question import PlaygroundQuestion
from tests.interpret.playground.scripts import FIRST_LINE, GAME, lua, python


def test_a_lua_script_answers_with_its_cost() -> None:
    answer = answer_question(lua('print("asked") return obj.spec.players == 2'))
    assert (answer.results, answer.reason, answer.printed) == ({"healthy": True}, "", ("asked",))
    assert answer.instructions is not None
    assert answer.memory is not None
    assert 0 < answer.instructions < 10_000
    assert 0 < answer.memory < 1 << 20


def test_more_work_costs_more_instructions_and_memory() -> None:
    little = answer_question(lua("return true"))
    much = answer_question(lua("local all = {} for i = 1, 20000 do all[i] = i end return #all == 20000"))
    assert much.results == {"healthy": True}
    assert (much.instructions or 0) > (little.instructions or 0) + 20_000
    assert (much.memory or 0) > (little.memory or 0) + 20_000 * 8


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


def test_a_python_script_answers() -> None:
    answer = answer_question(python('return observed["spec"]["players"] == 2'))
    assert (answer.results, answer.instructions) == ({"healthy": True}, None)


@pytest.mark.parametrize(
    ("line", "text"),
    [("return 1 / 0", "ZeroDivisionError"), ('return observed["no"]', "KeyError")],
)
def test_an_error_of_a_python_script_has_its_line(line: str, text: str) -> None:
    answer = answer_question(python("pass", line))
    assert (answer.results, answer.reason, answer.line) == (None, "script", FIRST_LINE + 1)
    assert text in answer.error


@pytest.mark.parametrize(
    ("code", "line", "text"),
    [
        ("x = (", 1, "'(' was never closed"),
        ("import sys\n\nsys.exit(3)", 3, "SystemExit: 3"),
        ("import numpy_that_is_missing", 1, "ModuleNotFoundError"),
        ("x = 1", 0, "defines no interpreter"),
    ],
)
def test_a_python_script_that_cannot_be_loaded_says_why(code: str, line: int, text: str) -> None:
    answer = answer_question(PlaygroundQuestion("python", code, "InterpretHealth", desired=GAME))
    assert (answer.reason, answer.line) == ("script", line)
    assert text in answer.error


def test_a_script_without_the_asked_function_is_an_error() -> None:
    question = python("return True")
    other = PlaygroundQuestion("python", question.code, "InterpretStatus", desired=GAME)
    assert "no function for InterpretStatus of games.example.com/v1 Game" in answer_question(other).error


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
        ("playground.py:7: KeyError: 'a:1:'", 7),
        ("Lua script error: line 3: near end", 3),
        ("returned at 12:30: nothing", 0),
        ("nothing", 0),
    ],
)
def test_the_line_of_a_message_is_found(message: str, line: int) -> None:
    assert find_line(message) == line
