"""Warnings about scripts: suspicious code, and code that runs in fleethook but not in Karmada.

Source: karmada v1.16 pkg/util/lifted/lua (its libraries).
"""

from collections.abc import Collection, Iterable, Iterator
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from fleethook.engines.interpret.lua.customization_rules_and_configmap import CustomizationRule

_FIELDS: Final = {
    "string.rep": "Karmada refuses string.rep",
    "string.gsub": "Karmada refuses string.gsub",
    "table.unpack": "gopher-lua has no table.unpack: write unpack",
}
_METHODS: Final = {"rep": "Karmada refuses string.rep", "gsub": "Karmada refuses string.gsub"}
_MODULES: Final = frozenset({"kube", "string", "table", "math", "os"})
_NEEDS_A_VALUE: Final = frozenset({"tonumber", "tostring", "type"})


class ScriptWarning(NamedTuple):
    """A warning about a line of a script."""

    line: int
    text: str


class Portability:
    """Collects unportable code while the parser reads a script."""

    def __init__(self) -> None:
        self._found: Final[dict[str, int]] = {}
        self._match_end = -1

    def findings(self) -> Iterator[ScriptWarning]:
        """Yield the findings, each with its first line."""
        for text, line in sorted(self._found.items(), key=lambda found: found[1]):
            yield ScriptWarning(line, f"does not run on Karmada: {text}")

    def field(self, path: str, line: int) -> None:
        """Check the member of a library, such as ``string.rep``."""
        if path in _FIELDS:
            self._found.setdefault(_FIELDS[path], line)
        elif path.startswith("os.") and path not in {"os.time", "os.date"}:
            self._found.setdefault("scripts have only os.time and os.date of the library os", line)

    def method(self, name: str, line: int) -> None:
        """Check the name of a method; for these names, the object is probably a string."""
        if name in _METHODS:
            self._found.setdefault(_METHODS[name], line)

    def literal(self, text: str, line: int) -> None:
        """Check a string literal."""
        if "%f[" in text:
            self._found.setdefault("gopher-lua's patterns have no %f", line)

    def jump(self, line: int) -> None:
        """Check a goto statement."""
        self._found.setdefault("goto needs Karmada v1.18 or later", line)

    def call(self, name: str, argument: str, ends: tuple[int, int], line: int) -> None:
        """Check a call of a function or method.

        Args:
            name: The last name before the arguments, such as ``match``.
            argument: The first argument if it is a string literal, otherwise ``""``.
            ends: The end offsets of the last argument and of the call.
            line: The line of the call.
        """
        if name == "require" and argument and argument[1:-1] not in _MODULES:
            self._found.setdefault(f"Karmada has no module {argument[1:-1]}", line)
        if name in _NEEDS_A_VALUE and self._match_end == ends[0] > 0:
            text = f"{name}(...match(...)) fails where nothing matches: write {name}((...match(...)))"
            self._found.setdefault(text, line)
        if name == "match":
            self._match_end = ends[1]


def find_global_variables(
    leaks: Iterable[tuple[int, str, bool]], reads: Iterable[tuple[int, str]], defined: Collection[str]
) -> Iterator[ScriptWarning]:
    """Yield a warning for each global that a script sets, or reads although nothing sets it.

    Args:
        leaks: Line and name of each global that the script sets, and whether it is a function.
        reads: Line and name of each global that it reads.
        defined: The globals that it sets at any place, and the predefined ones.
    """
    seen = set[str]()
    for line, name, is_function in leaks:
        if name in seen:
            continue
        seen.add(name)
        what = f"function {name} is global" if is_function else f"{name} is set as a global"
        yield ScriptWarning(line, f"{what}: declare it `local`, because Karmada may keep globals for other calls")
    for line, name in reads:
        if name not in defined and name not in seen:
            seen.add(name)
            yield ScriptWarning(line, f"{name} is undefined: the script reads a global that nothing sets")


def list_findings(rule: "CustomizationRule") -> Iterator[str]:
    """Yield the warnings about a script, each with its line."""
    for finding in rule.script.findings:
        if finding.text.startswith(f"function {rule.function.name} is global"):
            continue
        yield f"line {finding.line}: {finding.text}"
    finished = rule.script.functions.get(rule.function.name)
    if finished is not None and not finished.returns:
        yield f"line {finished.line}: {rule.function.name} does not return a value on every path"


def list_unportable(rule: "CustomizationRule") -> Iterator[str]:
    """Yield the code of a script that does not run in Karmada, each with its line."""
    yield from (f"line {finding.line}: {finding.text}" for finding in rule.script.portability)
