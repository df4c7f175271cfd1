"""Warnings about scripts: suspicious code, and code that Karmada does not run."""

from collections.abc import Callable

import pytest

from fleethook.engines.interpret.lua.script_warnings import Portability, list_findings, list_unportable
from tests.engines.interpret.lua.test_customization_rules_and_configmap import ENTRY, config, customization


def warn(*checks: Callable[[Portability], None]) -> list[tuple[int, str]]:
    found = Portability()
    for check in checks:
        check(found)
    return [(one.line, one.text.removeprefix("does not run on Karmada: ")) for one in found.findings()]


def test_a_warning_has_its_first_line_and_warnings_are_sorted_by_line() -> None:
    found = warn(lambda to: to.jump(7), lambda to: to.method("rep", 5), lambda to: to.field("string.rep", 9))
    assert found == [(5, "Karmada refuses string.rep"), (7, "goto needs Karmada v1.18 or later")]


def test_findings_are_about_the_users_script() -> None:
    script = "function InterpretHealth(o)\n  seen = true\n  if o.status then return true end\nend"
    [rule] = customization(healthInterpretation=script).rules
    assert list(list_findings(rule)) == [
        "line 2: seen is set as a global: declare it `local`, because Karmada may keep globals for other calls",
        "line 1: InterpretHealth does not return a value on every path",
    ]
    [body] = config(f"{ENTRY}health.lua: if runtimeObj.x then desiredObj.x = 1 end").rules
    assert list(list_findings(body)) == []


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("return true", []),
        ("local kube = require('kube') return unpack({o:find('a')})", []),
        ("local t = {rep = 1} return t.rep and string.sub('a', 1)", []),
        ("local f = require('fleet')", ["line 1: does not run on Karmada: Karmada has no module fleet"]),
        ("local f = require 'fleet'", ["line 1: does not run on Karmada: Karmada has no module fleet"]),
        ("\nlocal x = string.rep('a', 2)", ["line 2: does not run on Karmada: Karmada refuses string.rep"]),
        ("return o.name:gsub('a', 'b')", ["line 1: does not run on Karmada: Karmada refuses string.gsub"]),
        ("return table.unpack({})", ["line 1: does not run on Karmada: gopher-lua has no table.unpack: write unpack"]),
        ("return o.name:find('%f[%a]a')", ["line 1: does not run on Karmada: gopher-lua's patterns have no %f"]),
        ("goto out ::out::", ["line 1: does not run on Karmada: goto needs Karmada v1.18 or later"]),
        (
            "return tonumber(string.match(o.name, '%d+'))",
            [
                (
                    "line 1: does not run on Karmada: tonumber(...match(...)) fails where nothing matches: "
                    "write tonumber((...match(...)))"
                )
            ],
        ),
        ("return tonumber((o.name:match('%d+'))), tonumber(o.name:match('%d+') or '0')", []),
        ("local string = {rep = print} string.rep('a')", []),
    ],
)
def test_unportable_code_is_listed(body: str, expected: list[str]) -> None:
    [rule] = customization(healthInterpretation=f"function InterpretHealth(o) {body} end").rules
    assert list(list_unportable(rule)) == expected
