"""Converts health checks of Argo CD to ResourceInterpreterCustomizations with fixtures.

Argo CD selects a script by group and kind. A script of ``argocd-cm`` takes precedence over a built-in one, and a script
for the exact kind over one with wildcards. Karmada selects by apiVersion and kind, so each version of a kind gets a
customization.

Source: argo-cd v3.1 util/lua/lua.go (GetHealthScript).
"""

import re
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from fnmatch import fnmatchcase
from typing import Final, NamedTuple

from fleethook.engines.interpret.argocd_configmap import (
    ConversionRemark,
    HealthCheck,
    Level,
    ScriptPlace,
    format_pattern,
)
from fleethook.engines.interpret.lua.bundled_and_crossplane_kinds import read_bundle
from fleethook.engines.interpret.lua.customization_rules_and_configmap import (
    FUNCTION_OF,
    OBJECT,
    known_globals,
    read_customization,
)
from fleethook.engines.interpret.lua.script_parser import Script, parse_script
from fleethook.engines.interpret.lua.script_scanner_and_rewriter import LuaSyntaxError
from fleethook.engines.interpret.lua.script_warnings import ScriptWarning
from fleethook.engines.interpret.native.native_kinds import NATIVE
from fleethook.model.gvk import GroupVersionKind
from fleethook.model.json import JSONObject
from fleethook.model.karmada import API_VERSION, CUSTOMIZATION, Operation

HEALTHY: Final = frozenset({"Healthy", "Suspended"})
"""The statuses that are healthy. Karmada must not move an object that a user has suspended to another cluster."""

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
    refused: list[ScriptWarning]
    warnings: list[ScriptWarning]


def convert_script(source: str) -> HealthScript:
    """Return a health check as a script that defines InterpretHealth.

    The lines of the health check do not change. Its globals become local variables, because Karmada may keep globals
    for other scripts.

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
    refused = [ScriptWarning(line, _explain_refusal(name)) for name, line in parsed.reads.items() if name in _REFUSED]
    undefined = [finding for finding in parsed.findings if "is undefined" in finding.text]
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


_WILDCARDS: Final = re.compile(r"[*?\[{]")
_GROUP: Final = r"(?:[a-z0-9](?:[-.a-z0-9]*[a-z0-9])?/)?"
_PATTERN: Final = re.compile(rf"{_GROUP}[A-Za-z][A-Za-z0-9]*")
_KIND: Final = re.compile(rf"{_GROUP}[a-z0-9]+/[A-Za-z][A-Za-z0-9]*")
_MAPPING: Final = (
    "InterpretHealth is a boolean: Healthy and Suspended are healthy; Progressing, Degraded, Missing, Unknown and no "
    "status are not. Messages are dropped"
)


class HealthTest(NamedTuple):
    """A test of Argo CD: an object, and the status that its health check must return."""

    name: str
    kind: GroupVersionKind
    object: JSONObject
    status: str
    place: ScriptPlace


class Converted(NamedTuple):
    """A converted health check.

    Attributes:
        check: The health check.
        kind: The kind that it is for.
        customization: The ResourceInterpreterCustomization.
        tests: The tests of Argo CD for this kind.
    """

    check: HealthCheck
    kind: GroupVersionKind
    customization: JSONObject
    tests: list[HealthTest]

    @property
    def folder(self) -> str:
        """The path of its files, as in Karmada's directory of customizations."""
        return f"{self.kind.group or 'core'}/{self.kind.version}/{self.kind.kind}"

    def build_fixtures(self) -> JSONObject:
        """Return the document with its fixtures."""
        return {
            "tests": [
                {
                    "name": f"{test.name} is {test.status or 'without status'}",
                    "operation": Operation.HEALTH.value,
                    "observedObj": test.object,
                    "output": {"healthy": test.status in HEALTHY},
                }
                for test in self.tests
            ]
        }


class Conversion(NamedTuple):
    """The result of a conversion."""

    converted: list[Converted]
    remarks: list[ConversionRemark]


def convert_checks(
    checks: Sequence[HealthCheck], tests: Sequence[HealthTest], kinds: Iterable[GroupVersionKind]
) -> Conversion:
    """Convert health checks.

    Args:
        checks: The health checks. Of two checks for a kind, the earlier one counts.
        tests: The tests of these health checks.
        kinds: The versions of kinds that CustomResourceDefinitions, objects and options name. Tests add theirs.
    """
    selected, duplicates, remarks = _select_checks(checks)
    # The tests of a replaced script do not apply to the script that replaces it.
    replaced = {check.pattern for check in duplicates}
    tests = [test for test in tests if _is_valid(test.kind) and format_pattern(test.kind.group_kind) not in replaced]
    converter = _Converter(selected, tests, list(filter(_is_valid, dict.fromkeys(kinds))), remarks)
    converted = [one for check in selected for one in converter.convert(check)]
    converter.check_tests()
    if converted:
        remarks.append(ConversionRemark("note", "mapping", "all kinds", _MAPPING, ScriptPlace("", 0)))
    return Conversion(converted, remarks)


def _select_checks(
    checks: Sequence[HealthCheck],
) -> tuple[list[HealthCheck], list[HealthCheck], list[ConversionRemark]]:
    """Return the health checks that count (with wildcards last), the health checks that they replace, and remarks."""
    used: dict[str, HealthCheck] = {}
    duplicates: list[HealthCheck] = []
    remarks: list[ConversionRemark] = []
    for check in checks:
        name = check.pattern
        is_pattern = _WILDCARDS.search(name) or _PATTERN.fullmatch(name)
        if not is_pattern or not all(map(_is_valid, check.kinds)):
            text = "the name is not GROUP/KIND, or KIND for the core group"
            remarks.append(ConversionRemark("error", "invalid-kind", name, text, check.place))
        elif name in used:
            place = used[name].place
            text = f"not converted: {place.source}:{place.line} has another health check for the same kind"
            remarks.append(ConversionRemark("warning", "duplicate", name, text, check.place))
            duplicates.append(check)
        else:
            used[name] = check
    ordered = sorted(used.values(), key=lambda check: (bool(_WILDCARDS.search(check.pattern)), check.pattern))
    return ordered, duplicates, remarks


class _Converter:
    """Converts the health checks of one input."""

    def __init__(
        self,
        checks: Sequence[HealthCheck],
        tests: Sequence[HealthTest],
        kinds: Sequence[GroupVersionKind],
        remarks: list[ConversionRemark],
    ) -> None:
        self._checks: Final = checks
        self._tests: Final = tests
        self._kinds: Final = kinds
        self._remarks: Final = remarks
        bundled = [kind for bundled_kind in read_bundle() for kind in sorted(bundled_kind.kinds)]
        self._known: Final = [*dict.fromkeys([*bundled, *NATIVE])]

    def convert(self, check: HealthCheck) -> Iterator[Converted]:
        """Yield the customizations for the kinds of a health check."""
        script = self._convert_script(check)
        kinds = self._find_kinds(check)
        if script is None or not kinds:
            return
        for kind in kinds:
            tests = [test for test in self._tests if test.kind == kind]
            customization = _build_customization(kind, script)
            problems = read_customization(customization).problems
            if problems:
                self._add("error", "refused", check, problems[0].text, check.place)
                return
            yield Converted(check, kind, customization, tests)

    def _convert_script(self, check: HealthCheck) -> HealthScript | None:
        """Return the converted script, None if it cannot run."""
        try:
            script = convert_script(check.script)
        except LuaSyntaxError as error:
            self._add_line("error", "syntax", check, ScriptWarning(error.line, str(error)))
            return None
        for warning in script.warnings:
            self._add_line("warning", "unportable", check, warning)
        for script_warning in script.refused:
            self._add_line("error", "refused", check, script_warning)
        return None if script.refused else script

    def _find_kinds(self, check: HealthCheck) -> list[GroupVersionKind]:
        """Return the kinds of a health check in all known versions."""
        if check.kinds:
            return list(check.kinds)
        known = dict.fromkeys([*(test.kind for test in self._tests), *self._kinds])
        found = [kind for kind in known if self._select(kind) is check]
        if _WILDCARDS.search(check.pattern):
            names = ", ".join(sorted(map(_name, found)))
            text = (
                f"converted for the kinds in the input: {names}"
                if found
                else ("add the CustomResourceDefinitions, or objects of the kinds, to the input")
            )
            text = f"wildcards have no counterpart in Karmada: {text}"
            self._add("warning" if found else "error", "wildcard", check, text, check.place)
            return found
        if not found:
            found = [kind for kind in self._known if format_pattern(kind.group_kind) == check.pattern]
        if not found:
            text = (
                "Karmada needs a version: add the CustomResourceDefinition or an object to the input, or give "
                f"--kind {check.pattern.replace('/', '/VERSION/') if '/' in check.pattern else 'v1/' + check.pattern}"
            )
            self._add("error", "no-version", check, text, check.place)
        return found

    def _select(self, kind: GroupVersionKind) -> HealthCheck | None:
        """Return the health check that Argo CD uses for a kind."""
        name = format_pattern(kind.group_kind)
        for check in self._checks:
            if kind in check.kinds or check.pattern == name:
                return check
            if _WILDCARDS.search(check.pattern) and _matches(check.pattern, name):
                return check
        return None

    def check_tests(self) -> None:
        """Report tests of kinds without a health check."""
        for test in self._tests:
            if self._select(test.kind) is None:
                text = f"{test.name}: no health check of the input is for {_name(test.kind)}"
                self._remarks.append(
                    ConversionRemark("warning", "other-kind", format_pattern(test.kind.group_kind), text, test.place)
                )

    def _add_line(self, level: Level, code: str, check: HealthCheck, found: ScriptWarning) -> None:
        text = f"line {found.line} of the script: {found.text}"
        self._add(level, code, check, text, check.place.at(found.line))

    def _add(self, level: Level, code: str, check: HealthCheck, text: str, place: ScriptPlace) -> None:
        self._remarks.append(ConversionRemark(level, code, check.pattern, text, place))


def _build_customization(kind: GroupVersionKind, script: HealthScript) -> JSONObject:
    return {
        "apiVersion": API_VERSION,
        "kind": CUSTOMIZATION.kind,
        "metadata": {"name": f"{kind.kind}-{kind.version}.{kind.group or 'core'}".lower()},
        "spec": {
            "target": {"apiVersion": kind.api_version, "kind": kind.kind},
            "customizations": {FUNCTION_OF[Operation.HEALTH].member: {"luaScript": script.text}},
        },
    }


def _is_valid(kind: GroupVersionKind) -> bool:
    """Return whether an apiserver could serve a kind; its names become names of files."""
    return _KIND.fullmatch(f"{kind.api_version}/{kind.kind}") is not None


def _name(kind: GroupVersionKind) -> str:
    return f"{kind.api_version} {kind.kind}"


def _matches(pattern: str, name: str) -> bool:
    """Return whether a pattern matches a kind, as in github.com/gobwas/glob without separators."""
    if (start := pattern.find("{")) >= 0 and (end := pattern.find("}", start)) > 0:
        parts = pattern[start + 1 : end].split(",")
        return any(_matches(f"{pattern[:start]}{part}{pattern[end + 1 :]}", name) for part in parts)
    return fnmatchcase(name, pattern)
