"""Long expressions are checked in another process, and become the same programs."""

import gc
from typing import Any

import pytest

from app.control.worker import Worker
from app.dispatch.cel import Activation, Program
from app.dispatch.cel.compiler import Compiler, Rejected, compile_here, is_short

LONG = " || ".join(f"object.name == 'x{number}'" for number in range(100))
WRONG = [
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


async def test_a_long_expression_means_the_same_as_when_it_is_compiled_here() -> None:
    assert not is_short(LONG)
    made, here = await Compiler(Worker()).compile(LONG, cluster="a"), compile_here(LONG)
    assert isinstance(made, Program)
    assert isinstance(here, Program)
    assert made.size == here.size
    for name in ("x0", "x99", "x100"):
        assert made.measure(bind(name)) == here.measure(bind(name))


@pytest.mark.parametrize("expression", WRONG, ids=range(len(WRONG)))
async def test_a_long_expression_is_wrong_in_the_same_words(expression: str) -> None:
    made, here = await Compiler(Worker()).compile(expression, cluster="a"), compile_here(expression)
    assert isinstance(made, Rejected)
    assert isinstance(here, Rejected)
    assert str(made.error) == str(here.error)


async def test_a_compiler_that_is_killed_is_started_again() -> None:
    compiler = Compiler(Worker())
    await compiler.compile(LONG, cluster="a")
    killed: Any = compiler._process._running
    killed.kill()
    killed.wait()
    assert isinstance(await compiler.compile(LONG, cluster="a"), Program)
    assert compiler._process._running is not killed


async def test_a_server_that_may_start_no_process_compiles_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.dispatch.cel.compiler._MODULE", "app.dispatch.cel.absent")
    assert isinstance(await Compiler(Worker()).compile(LONG, cluster="a"), Program)


async def test_the_process_ends_with_its_compiler() -> None:
    compiler = Compiler(Worker())
    await compiler.compile(LONG, cluster="a")
    process: Any = compiler._process._running
    del compiler
    gc.collect()
    assert process.poll() is not None


def test_macros_that_repeat_their_operand_count_as_what_they_become() -> None:
    assert is_short("object.a.optMap(x, x).hasValue()")
    assert not is_short("object.a" + ".optMap(x, x)" * 6 + ".hasValue()")
