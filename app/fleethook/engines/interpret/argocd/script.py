"""Turns a health check of Argo CD into Karmada's function InterpretHealth.

Sources: argo-cd v3.1 util/lua/lua.go (ExecuteHealthLua), gitops-engine/pkg/health/health.go; karmada v1.16
pkg/resourceinterpreter/customized/declarative/luavm/lua.go (setLib).
"""

import re
import textwrap
from collections.abc import Iterator
from typing import Final, NamedTuple

from fleethook.engines.interpret.lua.rules import known_globals
from fleethook.engines.interpret.lua.syntax.mistakes import OBJECT
from fleethook.engines.interpret.lua.syntax.parser import Script, parse_script
from fleethook.engines.interpret.lua.syntax.portability import Finding

HEALTHY: Final = frozenset({"Healthy", "Suspended"})
"""The statuses that are healthy: Karmada must not move an object to another cluster that a user has suspended."""

_PARAMETERS: Final = "actionParams"
"""A global of Argo CD that is an empty table for health checks."""
_PREDEFINED: Final = frozenset({OBJECT, _PARAMETERS})
_REFUSED: Final = frozenset({
    "_G", "collectgarbage", "dofile", "getfenv", "getmetatable", "load", "loadfile", "loadstring", "module", "newproxy",
    "rawequal", "rawget", "rawset", "setfenv", "setmetatable",
})  # fmt: skip
"""Globals that Karmada and fleethook refuse; ``_G`` would show the globals of other scripts."""
# A function of Lua has at most 200 local variables, those of the script included.
_MAX_LOCALS: Final = 100
# Argo CD decodes the returned table with encoding/json, which ignores the case of names.
_STATUS: Final = re.compile(r"\b(status)\b(?=[\"']?\]?\s*=(?!=))", re.IGNORECASE)

_FUNCTION: Final = """\
function InterpretHealth(observedObj)
  -- As in Argo CD, the last value counts, and a table whose message is not a string has no status.
  local health = select(-1, nil, assess(observedObj))
  if health == nil then
    return false
  end
  assert(type(health) == "table", "the health check must return a table, not a " .. type(health))
  local status = {status}
  local has_status = health.message == nil or type(health.message) == "string"
  return has_status and (status == "Healthy" or status == "Suspended")
end
"""
# An indent would change strings of several lines.
_LONG_STRING: Final = re.compile(r"\[=*\[|\\\n")


class HealthScript(NamedTuple):
    """A converted health check.

    Attributes:
        text: The script that defines InterpretHealth.
        refused: Reasons why it fails in Karmada and in fleethook, with their lines in the health check.
        warnings: Code that may fail, with its lines in the health check.
    """

    text: str
    refused: list[Finding]
    warnings: list[Finding]


def convert_script(source: str) -> HealthScript:
    """Return a health check as a script that defines InterpretHealth.

    Its lines stay lines, but its globals become local variables: Karmada may keep globals for other scripts.

    Raises:
        LuaSyntaxError: The health check is not valid Lua 5.1.
    """
    source = source.replace("\r\n", "\n").rstrip()
    parsed = parse_script(source, known=known_globals() | _PREDEFINED)
    declared = "".join(f"  {line}\n" for line in _declare_globals(parsed))
    statuses = dict.fromkeys(["status", *_STATUS.findall(source)])
    function = _FUNCTION.replace("{status}", " or ".join(f"health.{name}" for name in statuses))
    body = source if _LONG_STRING.search(source) else textwrap.indent(source, "  ")
    text = f"local function assess({OBJECT})\n{declared}{body}\nend\n\n{function}"
    refused = [Finding(line, _explain_refusal(name)) for name, line in parsed.reads.items() if name in _REFUSED]
    undefined = [one for one in parsed.findings if "is undefined" in one.text]
    return HealthScript(text, sorted(refused), sorted([*undefined, *parsed.portability]))


def _explain_refusal(name: str) -> str:
    if name == "_G":
        return "_G shows the globals of other scripts in Karmada: name the variables"
    return f"{name} is not available to scripts of Karmada and fleethook"


def _declare_globals(parsed: Script) -> Iterator[str]:
    """Yield the declarations of local variables for the globals of a script."""
    names = sorted(parsed.assigned - {OBJECT})
    if len(names) > _MAX_LOCALS:
        return
    known = known_globals()
    if own := [name for name in names if name not in known]:
        yield from textwrap.wrap(f"local {', '.join(own)}", width=110, subsequent_indent="  ")
    yield from (f"local {name} = {name}" for name in names if name in known)
    if _PARAMETERS in parsed.reads and _PARAMETERS not in parsed.assigned:
        yield f"local {_PARAMETERS} = {{}}"
