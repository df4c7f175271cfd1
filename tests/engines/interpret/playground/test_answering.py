import pytest

from fleethook.engines.interpret.playground.answering import answer_question, find_line
from fleethook.engines.interpret.playground.question import PlaygroundQuestion
from tests.engines.interpret.playground.scripts import GAME, lua


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
