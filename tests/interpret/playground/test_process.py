import subprocess
import sys

import msgspec
import pytest

from app.interpret.playground.process import MODULE, MODULES, find_imports
from app.interpret.playground.question import PlaygroundAnswer
from tests.interpret.playground.scripts import lua


def test_the_process_answers_one_question() -> None:
    question = msgspec.msgpack.encode(lua("return true"))
    done = subprocess.run([sys.executable, "-m", MODULE], input=question, capture_output=True, check=True)
    assert msgspec.json.decode(done.stdout, type=PlaygroundAnswer).results == {"healthy": True}


@pytest.mark.parametrize(
    ("code", "modules"),
    [
        ("import json\nfrom re import sub\n", ["json", "re"]),
        ("def f():\n    import math\n", ["math"]),
        ("from fleethook.interpret import interpreter", ["fleethook.interpret"]),
        ("import app.cli, tests.cli, antigravity, this, os, subprocess", []),
        ("from . import json\nfrom .json import x", []),
        ("import (", []),
        ("x = " + "(" * 5000, []),
        ("\0", []),
    ],
)
def test_only_listed_modules_are_loaded_for_a_script(code: str, modules: list[str]) -> None:
    assert list(find_imports(code)) == modules


def test_no_listed_module_opens_the_way_out() -> None:
    assert not {"os", "subprocess", "socket", "ctypes", "importlib", "pickle"} & set(MODULES)
