"""Attacks on the playground. Each runs in the real process; nothing of the machine may change or be read."""

import os
from pathlib import Path

import pytest

from app.interpret.playground.question import PlaygroundQuestion
from app.interpret.playground.sandbox import MAX_QUESTION_BYTES, Sandbox
from app.interpret.playground.system_call_filter import FilterError, find_architecture
from tests.interpret.playground.scripts import GAME, lua, python
from tests.waiting import NET

# A busy machine may need more than the usual 30 seconds for the 5 seconds of CPU time of a script.
SANDBOX = Sandbox(seconds=NET)


@pytest.fixture
def system_call_filter() -> None:
    """The filter that scripts in Python need; it knows some processors only."""
    try:
        find_architecture()
    except FilterError as error:
        pytest.skip(f"system call filter: {error}")


def test_a_lua_script_is_answered_with_its_cost() -> None:
    answer = SANDBOX.ask(lua("return obj.spec.players == 2"))
    assert (answer.results, answer.error) == ({"healthy": True}, "")
    assert answer.instructions
    assert answer.memory


@pytest.mark.usefixtures("system_call_filter")
def test_a_python_script_is_answered() -> None:
    answer = SANDBOX.ask(python("import json, statistics", 'return statistics.mean(json.loads("[1, 3]")) == 2'))
    assert (answer.results, answer.error) == ({"healthy": True}, "")


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
def test_an_attack_in_lua_is_an_error_of_the_script(body: str, text: str) -> None:
    answer = SANDBOX.ask(lua(body))
    assert (answer.results, answer.reason) == (None, "script")
    assert text in answer.error


@pytest.mark.usefixtures("system_call_filter")
@pytest.mark.parametrize(
    "lines",
    [
        pytest.param(['return bool(open("/etc/passwd").read())'], id="reading a file"),
        pytest.param(['open("MARK", "w")', "return True"], id="writing a file"),
        pytest.param(["import os", 'return bool(os.listdir("/"))'], id="listing a directory"),
        pytest.param(["import os", "os.fork()", "return True"], id="fork"),
        pytest.param(["import os", 'os.execv("/bin/true", ["true"])'], id="another program"),
        pytest.param(["import os", "os.kill(PARENT, 0)", "return True"], id="a signal to the server"),
        pytest.param(["import os", "os.killpg(0, 0)", "return True"], id="a signal to the group"),
        pytest.param(["import sys", "sys.modules['_socket'].socket()", "return True"], id="a socket"),
        pytest.param(["import threading", "threading.Thread(target=print).start()", "return True"], id="a thread"),
        pytest.param(["import signal", "signal.signal(24, signal.SIG_IGN)", "return True"], id="ignoring a limit"),
        pytest.param(["import resource", "resource.setrlimit(resource.RLIMIT_CPU, (99, 99))"], id="raising a limit"),
        pytest.param(["import ctypes", 'return ctypes.CDLL(None).open(b"/etc/passwd", 0) >= 0'], id="native code"),
        pytest.param(["import tarfile", "return True"], id="a module that is not loaded"),
    ],
)
def test_python_can_only_compute(lines: list[str], tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    filled = [one.replace("PARENT", str(os.getpid())).replace("MARK", str(mark)) for one in lines]
    answer = SANDBOX.ask(python(*filled))
    assert answer.results in (None, {"healthy": False}), "the attack succeeded"
    if answer.results is None:
        refusals = (
            "PermissionError",
            "not allowed to raise maximum limit",
            "Operation not permitted",
            "ModuleNotFoundError",
            "can't start new thread",
        )
        assert any(one in answer.error for one in (*refusals, "KeyError")), answer.error
    assert not mark.exists()


@pytest.mark.usefixtures("system_call_filter")
@pytest.mark.parametrize(
    ("lines", "reason", "text"),
    [
        pytest.param(["while True: pass"], "limit", "more than 5 s of CPU time", id="infinite loop"),
        pytest.param(
            ["import os", "os.close(1)", "while True: pass"], "limit", "5 s of CPU time", id="loop without an output"
        ),
        pytest.param(["return bytearray(1 << 34)"], "script", "MemoryError", id="memory"),
        pytest.param(["held = []", "while True: held.append(bytearray(1 << 20))"], "script", "MemoryError", id="leak"),
        pytest.param(["return healthy(observed)"], "script", "RecursionError", id="recursion"),
        pytest.param(
            ["import os", "while True: os.write(1, b'x' * 65536)"], "limit", "more than 4 MiB", id="endless output"
        ),
        pytest.param(["import os", "os._exit(0)"], "script", "ended the process", id="exit"),
        pytest.param(["import ctypes", "ctypes.string_at(0)"], "script", "ended the process", id="crash"),
        pytest.param(
            ["import os", "os.write(1, b'{\"results\": 3}')", "os._exit(0)"], "script", "wrote to its output",
            id="forged answer",
        ),
    ],
)  # fmt: skip
def test_python_reaches_a_limit(lines: list[str], reason: str, text: str) -> None:
    answer = SANDBOX.ask(python(*lines))
    assert (answer.results, answer.reason) == (None, reason), answer
    assert text in answer.error


@pytest.mark.usefixtures("system_call_filter")
def test_the_environment_and_the_arguments_tell_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLEETHOOK_TEST_SECRET", "hunter2")
    answer = SANDBOX.ask(python("import os, sys", 'raise ValueError(f"{dict(os.environ)} {sys.argv[1:]}")'))
    assert "hunter2" not in answer.error
    assert answer.error.endswith("{'LC_CTYPE': 'C.UTF-8'} []")


@pytest.mark.usefixtures("system_call_filter")
def test_open_files_of_the_server_are_not_inherited(tmp_path: Path) -> None:
    with (tmp_path / "held").open("w") as held:
        os.set_inheritable(held.fileno(), True)
        lines = ["import os", "for one in range(3, 256):", "    try: os.write(one, b'x')", "    except OSError: pass"]
        answer = SANDBOX.ask(python(*lines, "return True"))
    assert answer.results == {"healthy": True}
    assert (tmp_path / "held").read_text() == ""


def test_a_process_that_sleeps_ends_at_the_wall_clock_limit() -> None:
    # The limit is over before the process has started.
    answer = Sandbox(seconds=0).ask(lua("return true"))
    assert (answer.reason, answer.error) == ("limit", "the script takes more than 0 s")


def test_a_question_that_is_too_large_starts_no_process() -> None:
    answer = SANDBOX.ask(PlaygroundQuestion("lua", "-" * MAX_QUESTION_BYTES, "InterpretHealth", desired=GAME))
    assert (answer.reason, answer.error) == (
        "input", "script and objects have more than 2 MiB: shorten them"
    )  # fmt: skip


def test_a_result_of_a_lua_script_is_limited() -> None:
    body = "local all = {} for i = 1, 6 do all['k' .. i] = ('x'):rep(2 ^ 20) end return all"
    code = f"function ReflectStatus(obj) {body} end"
    answer = SANDBOX.ask(PlaygroundQuestion("lua", code, "InterpretStatus", desired=GAME))
    assert (answer.results, answer.reason, answer.error) == (None, "limit", "the result has more than 4 MiB")


def test_questions_beyond_the_slots_are_told_to_come_again() -> None:
    sandbox = Sandbox(at_once=1)
    with sandbox._slots:
        answer = sandbox.ask(lua("return true"), wait=0)
    assert (answer.reason, answer.error) == ("busy", "other scripts are running: try again in a few seconds")
    assert sandbox.ask(lua("return true"), wait=0).results == {"healthy": True}
