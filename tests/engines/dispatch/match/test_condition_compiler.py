"""Long expressions compile in a thread, with the same result."""

import pytest

from fleethook.cel import Activation, Program
from fleethook.engines.dispatch.match.condition_compiler import Compiler, Rejected, compile_here, is_short
from fleethook.work.worker import Worker

LONG = " || ".join(f"object.name == 'x{number}'" for number in range(100))
INVALID = [
    f"({LONG}",
    f"[{LONG}]",
    f"({LONG}) && objekt.name == 'a'",
    "1" + "+1" * 2_000 + " > 0",
    "object.a" + ".optMap(x, x)" * 30,
    f"'{'x' * 100_000}' == object.name",
    "[" * 240 + "]" * 240 + f" == [] || {LONG}",
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


def test_the_length_of_an_expression_includes_the_expansion_of_macros() -> None:
    assert is_short("object.a.optMap(x, x).hasValue()")
    assert not is_short("object.a" + ".optMap(x, x)" * 6 + ".hasValue()")
