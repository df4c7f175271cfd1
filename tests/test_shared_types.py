"""msgspec knows each type before threads share it: its first use in two threads at once crashes the process.

The fault is in msgspec 0.22.0: it stores the description of a struct before it is complete.
"""

import re
from pathlib import Path

import pytest

APP = Path(__file__).parents[1] / "app"
MODULES = sorted(path for path in APP.rglob("*.py") if "msgspec." in path.read_text())
_PLAIN = re.compile(r"(dict|list|set|str|int|bool|float|bytes|Any|None)\b")


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(APP)))
def test_each_type_is_known_when_its_module_is_imported(path: Path) -> None:
    text = path.read_text()
    converted = re.findall(r"msgspec\.convert\((?:[^()]|\([^()]*(?:\([^()]*\))?[^()]*\))*, (\w+)[\[)]", text)
    given = re.findall(r"json\.decode\([^\n]*type=([\w\[\], |]+)", text)
    assert [one for one in given if set(re.findall(r"\w+", one)) - {"dict", "list", "str", "int", "Any", "None"}] == []
    assert [one for one in converted if not _PLAIN.match(one) and f"Decoder({one})" not in text] == []
