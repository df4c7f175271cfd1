"""Long expressions compile in a child process, with the same result as in this one."""

import gc
from typing import Any

import pytest

from app.control.worker import Worker
from app.dispatch.cel import Activation, Program
from app.dispatch.cel.compiler import Compiler, Rejected, compile_here, is_short

LONG = " || ".join(f"object.name == 'x{number}'" for number in range(100))
INVALID = [
    f"({LONG}",
    f"[{LONG}]",
    f"({LONG}) && objekt.name == 'a'",
    "1" + "+1" * 2_000 + " > 0",
    f"({LONG}) || object.name == '\ud800'",
    "object.a" + ".optMap(x, x)" * 30,
    f"'{'x' * 100_000}' == object.name",
    "[1].all(a, " * 40 + "true" + ")" * 40 + f" || {LONG}",
]


def bind(name: str) -> Activation:
    return Activation(object_={"name": name}, old_object=None, request={})


async def test_a_long_expression_compiles_to_the_same_program() -> None:
    assert not is_short(LONG)
    compiled, expected = await Compiler(Worker()).compile(LONG, cluster="a"), compile_here(LONG)
    assert isinstance(compiled, Program)
    assert isinstance(expected, Program)
    assert compiled.size == expected.size
    for name in ("x0", "x99", "x100"):
        assert compiled.measure(bind(name)) == expected.measure(bind(name))


@pytest.mark.parametrize("expression", INVALID, ids=range(len(INVALID)))
async def test_an_invalid_long_expression_has_the_same_error(expression: str) -> None:
    compiled, expected = await Compiler(Worker()).compile(expression, cluster="a"), compile_here(expression)
    assert isinstance(compiled, Rejected)
    assert isinstance(expected, Rejected)
    assert str(compiled.error) == str(expected.error)


async def test_a_killed_child_process_is_restarted() -> None:
    compiler = Compiler(Worker())
    await compiler.compile(LONG, cluster="a")
    killed: Any = compiler._process._running
    killed.kill()
    killed.wait()
    assert isinstance(await compiler.compile(LONG, cluster="a"), Program)
    assert compiler._process._running is not killed


async def test_without_a_child_process_the_server_compiles_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.dispatch.cel.compiler._MODULE", "app.dispatch.cel.absent")
    assert isinstance(await Compiler(Worker()).compile(LONG, cluster="a"), Program)


async def test_the_child_process_ends_with_its_compiler() -> None:
    compiler = Compiler(Worker())
    await compiler.compile(LONG, cluster="a")
    process: Any = compiler._process._running
    del compiler
    gc.collect()
    assert process.poll() is not None


def test_the_length_of_an_expression_includes_the_expansion_of_macros() -> None:
    assert is_short("object.a.optMap(x, x).hasValue()")
    assert not is_short("object.a" + ".optMap(x, x)" * 6 + ".hasValue()")
