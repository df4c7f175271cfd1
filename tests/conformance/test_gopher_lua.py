"""Scripts answer as gopher-lua answered them (tests/conformance/gopher_lua/README.md)."""

import gzip
import json
from pathlib import Path
from typing import Any, Final

import pytest

from fleethook.engines.interpret.lua.lua_documents import expect_list
from fleethook.engines.interpret.lua.lua_machine import LoadedScript, Machine
from fleethook.engines.interpret.lua.script_parser import parse_script
from tests.engines.interpret.lua.machines import LONG

FOLDER: Final = Path(__file__).parent / "gopher_lua"
PRELUDE: Final = (FOLDER / "prelude.lua").read_text("utf-8")
CASES: Final[list[dict[str, Any]]] = json.loads(gzip.decompress((FOLDER / "answers.json.gz").read_bytes()))
SUBJECTS: Final = sorted({case["id"].rpartition("-")[0] for case in CASES})


def answer(machine: Machine, script: str) -> list[str]:
    """Return the lines that a script writes."""
    runnable = parse_script(f"function F()\n{PRELUDE}\n{script}\nreturn lines\nend").runnable
    found = machine.call(LoadedScript(script, "script", runnable), "F", [{}], results=1, limits=LONG)
    return expect_list(found[0], "F")


def test_there_are_scripts_about_all_subjects() -> None:
    assert len(CASES) == 2400
    assert SUBJECTS == [
        "arithmetic", "bytes", "calls", "comparison", "concatenation", "conversion", "dates", "format", "ipairs", "iteration",
        "length", "library", "math", "pairs", "replicas", "selection", "sorting", "string", "texts", "times",
    ]  # fmt: skip


@pytest.mark.parametrize("subject", SUBJECTS)
def test_answers_are_those_of_gopher_lua(subject: str) -> None:
    machine = Machine()
    different = []
    for case in CASES:
        if case["id"].startswith(f"{subject}-"):
            found = answer(machine, case["script"])
            if found != case["answer"]:
                different.append((case["id"], case["script"], found, case["answer"]))
    assert different == []
