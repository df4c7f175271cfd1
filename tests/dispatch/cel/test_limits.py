"""What hostile conditions and objects may use: each runs in a process of its own, with bounded memory and time."""

import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import resource, sys
resource.setrlimit(resource.RLIMIT_AS, (3_000_000_000, 3_000_000_000))
from app.dispatch.cel import CostError, Scope, compile_condition
big = {
    "items": [{"a": i, "b": "x" * 20, "c": {"d": True, "e": None}} for i in range(45_000)],
    "text": "a" * 3_000_000,
    "numbers": list(range(9_000)),
}
program = compile_condition(sys.argv[1])
try:
    print(program.evaluate(Scope(object_=big, old_object=None, request={})))
except CostError:
    print("too dear")
"""


@pytest.mark.parametrize(
    "expression",
    [
        "object.numbers.all(x, object.numbers.all(y, object.numbers.all(z, x + y + z >= 0)))",
        "object.numbers.all(x, object.items == object.items)",
        " || ".join(["object.items != object.items"] * 300),
        " || ".join(["object.text.contains('b')"] * 2_000 + ["false == (object.text == '')"]),
        "object.numbers.map(x, object.items) == object.numbers.map(x, object.items)",
        "object.numbers.map(x, object.numbers).flatten().size() == 1",
        "[object.text]" + ".map(x, x + x)" * 25 + ".size() == 1",
        "[object.numbers]" + ".map(x, x + x)" * 25 + ".size() == 1",
        "object.text.replace('a', object.text).size() == 1",
        "object.numbers.map(x, object.text).join().size() == 1",
        "sets.equivalent(object.items, object.items)",
        "object.items.distinct().size() == 1",
        "lists.range(1000000000).size() == 1",
        "object.text.matches('((a?){30}){30}b')",
        "object.numbers.all(x, object.text.find('(.*a){10}b') == '')",
        "object.text.findAll('a').size() == 1",
    ],
)
def test_an_expression_that_takes_too_much_ends_as_too_dear(expression: str) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM, expression],
        cwd=Path(__file__).parents[3],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert (ran.stdout, ran.stderr, ran.returncode) == ("too dear\n", "", 0)
