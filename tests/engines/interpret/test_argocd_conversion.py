from collections.abc import Sequence

import pytest

from fleethook.engines.interpret.argocd_configmap import HealthCheck, ScriptPlace
from fleethook.engines.interpret.argocd_conversion import (
    Conversion,
    HealthScript,
    HealthTest,
    convert_checks,
    convert_script,
)
from fleethook.engines.interpret.interpreter_fixtures import read_fixtures
from fleethook.engines.interpret.lua.customization_rules_and_configmap import read_customization
from fleethook.engines.interpret.lua.lua_machine import LuaError
from fleethook.engines.interpret.lua.script_layer_and_runner import Runner, ScriptCall
from fleethook.engines.interpret.lua.script_scanner_and_rewriter import LuaSyntaxError
from fleethook.model.gvk import GroupVersionKind, parse_api_version
from fleethook.model.json import JSON, JSONObject
from fleethook.model.karmada import Operation

WIDGET: JSONObject = {
    "apiVersion": "example.com/v1",
    "kind": "Widget",
    "metadata": {"name": "x", "generation": 3, "annotations": {"generation": "3"}},
    "spec": {"replicas": 2, "list": []},
    "status": {
        "ready": True,
        "observedGeneration": 3,
        "null": None,
        "conditions": [{"type": "Ready", "status": "True"}],
    },
}
HEALTHY = "{status = 'Healthy'}"


def ask(script: HealthScript, document: JSONObject = WIDGET) -> JSON:
    """Return the answer of a converted health check."""
    scripts = {"healthInterpretation": {"luaScript": script.text}}
    target = {"apiVersion": "example.com/v1", "kind": "Widget"}
    found = read_customization({"metadata": {"name": "x"}, "spec": {"target": target, "customizations": scripts}})
    assert found.problems == []
    [answer] = Runner().run_now(ScriptCall(found.rules[0].program, "InterpretHealth", [document]))
    return answer


@pytest.mark.parametrize(
    ("script", "healthy"),
    [
        # The status is a boolean. Argo CD knows no other statuses.
        *((f"return {{status = '{status}'}}", True) for status in ("Healthy", "Suspended")),
        *((f"return {{status = '{one}'}}", False) for one in ("Progressing", "Degraded", "Missing", "Unknown", "Fine")),
        ("return {}", False),
        ("return {status = 5}", False),
        ("return {'Healthy'}", False),
        # Argo CD decodes the table as JSON: the case of names is ignored, and a message must be text.
        ("return {Status = 'Healthy'}", True),
        ("local hs = {} hs.STATUS = 'Suspended' return hs", True),
        ("return {['status'] = 'Healthy', message = 'ready'}", True),
        ("return {status = 'Healthy', message = 5}", False),
        # No value is an empty status, and the last of several values counts.
        ("return", False),
        ("return nil", False),
        ("local x = 1", False),
        ("if not obj.status.ready then return {status = 'Healthy'} end", False),
        ("return {status = 'Degraded'}, {status = 'Healthy'}", True),
        ("local function both() return {status = 'Healthy'}, nil end return both()", False),
        # Values arrive and change as in Argo CD.
        ("return {status = obj.status.null == nil and 'Healthy' or 'Degraded'}", True),
        ("return {status = obj.status.observedGeneration == obj.metadata.generation and 'Healthy'}", True),
        ("return {status = tonumber(obj.metadata.annotations.generation) == 3 and 'Healthy'}", True),
        ("return {status = 'g' .. obj.metadata.generation == 'g3' and 'Healthy'}", True),
        ("table.insert(obj.spec.list, 'x') return {status = #obj.spec.list == 1 and 'Healthy'}", True),
        ("obj = {phase = 'Healthy'} return {status = obj.phase}", True),
        ("actionParams.x = 1 return {status = actionParams.x == 1 and 'Healthy'}", True),
        # Code of all kinds.
        ("hs = {} function set(s) hs.status = s end set('Healthy') return hs", True),
        ("function a(n) return n == 0 and 'Healthy' or b(n - 1) end function b(n) return a(n) end return {status = a(3)}", True),
        ("local _, hs = pcall(function() return {status = 'Healthy'} end) return hs", True),
        ("pcall(function() return {status = 'Healthy'} end)", False),
        ("local ok = pcall(function() return obj.nothing.x end) return {status = ok and 'Degraded' or 'Healthy'}", True),
        ("type = obj.kind select = nil assert = nil return {status = type == 'Widget' and 'Healthy'}", True),
        ("return {status = string.match('2020-01', '(%d+)-') == '2020' and 'Healthy'}", True),
        ("local os = require('os') return {status = os.time{year=2020, month=1, day=1} > 0 and 'Healthy'}", True),
        ("local s = [[\n\ta ]] return {status = #s == 3 and 'Healthy'}", True),
        ("local s = 'a\\\nb' return {status = #s == 3 and 'Healthy'}", True),
        ("\r\nlocal hs = {}\r\nhs.status = 'Healthy'\r\nreturn hs\r\n", True),
        ("return {status = 'Healthy'}; -- done", True),
        ("".join(f"g{number} = {number} " for number in range(250)) + f"return {HEALTHY}", True),
    ],
)  # fmt: skip
def test_a_health_check_answers_as_in_argo_cd(script: str, healthy: bool) -> None:
    assert ask(convert_script(script)) is healthy


@pytest.mark.parametrize(
    "script", ["return 'Healthy'", "return false", "return 5", "error('no')", "return obj.nothing.x"]
)
def test_an_error_in_argo_cd_stays_an_error(script: str) -> None:
    with pytest.raises(LuaError):
        ask(convert_script(script))


def test_globals_of_a_health_check_do_not_reach_another_one() -> None:
    found = convert_script("count = (count or 0) + 1\nfunction name() end\nreturn {status = count == 1 and 'Healthy'}")
    assert "local count, name\n" in found.text
    assert read_globals(found.text) == {"InterpretHealth"}


def read_globals(script: str) -> set[str]:
    """Return the globals that a script sets."""
    scripts = {"healthInterpretation": {"luaScript": script}}
    target = {"apiVersion": "example.com/v1", "kind": "Widget"}
    [rule] = read_customization({"spec": {"target": target, "customizations": scripts}}).rules
    return set(rule.script.assigned)


def test_code_that_does_not_run_is_named_with_its_line() -> None:
    found = convert_script("local t = {}\nsetmetatable(t, {})\nio.write(string.rep('x', 3))\n_G.x = 1\nreturn t")
    assert [(one.line, one.text) for one in found.refused] == [
        (2, "setmetatable is not available to scripts of Karmada and fleethook"),
        (4, "_G shows the globals of other scripts in Karmada: name the variables"),
    ]
    assert [(one.line, one.text) for one in found.warnings] == [
        (3, "does not run on Karmada: Karmada refuses string.rep"),
        (3, "io is undefined: the script reads a global that nothing sets"),
    ]
    with pytest.raises(LuaSyntaxError) as caught:
        convert_script("local hs = {}\nreturn hs.")
    assert caught.value.line == 2


SCRIPT = "return {status = obj.status.health}"


def check(pattern: str, script: str = SCRIPT, *, source: str = "health.lua") -> HealthCheck:
    return HealthCheck(pattern, script, ScriptPlace(source, 1, 1))


def kind(name: str) -> GroupVersionKind:
    api_version, _, short = name.rpartition("/")
    return GroupVersionKind(*parse_api_version(api_version), short)


def make_test(name: str, status: str) -> HealthTest:
    found = kind(name)
    document = {"apiVersion": found.api_version, "kind": found.kind, "status": {"health": status}}
    return HealthTest(f"{status}.yaml", found, document, status, ScriptPlace("health_test.yaml", 2))


def convert(
    checks: Sequence[HealthCheck], tests: Sequence[HealthTest] = (), kinds: Sequence[str] = ()
) -> tuple[list[str], list[tuple[str, str, str]]]:
    """Return the converted kinds, and level, code and kind of each remark except the one about the mapping."""
    found = convert_checks(checks, tests, [kind(one) for one in kinds])
    remarks: list[tuple[str, str, str]] = [
        (one.level, one.code, one.subject) for one in found.remarks if one.code != "mapping"
    ]
    return list_kinds(found), remarks


def list_kinds(found: Conversion) -> list[str]:
    return [f"{one.kind.api_version}/{one.kind.kind}" for one in found.converted]


def test_each_version_of_a_kind_gets_a_customization_with_its_tests() -> None:
    tests = [make_test("a.io/v1/A", "Suspended"), make_test("a.io/v2/A", "Degraded"), make_test("a.io/v1/A", "")]
    found = convert_checks([check("a.io/A")], tests, [kind("a.io/v3/A"), kind("a.io/v1/A"), kind("a.io/v1/B")])
    assert list_kinds(found) == ["a.io/v1/A", "a.io/v2/A", "a.io/v3/A"]
    assert [one.folder for one in found.converted] == ["a.io/v1/A", "a.io/v2/A", "a.io/v3/A"]
    assert [one.customization["metadata"]["name"] for one in found.converted] == ["a-v1.a.io", "a-v2.a.io", "a-v3.a.io"]
    [rule] = read_customization(found.converted[0].customization).rules
    assert (rule.kind, rule.function.operation) == (kind("a.io/v1/A"), Operation.HEALTH)
    fixtures = list(read_fixtures(found.converted[0].build_fixtures()))
    assert [(one.name, one.output, one.question.object) for one in fixtures] == [
        ("Suspended.yaml is Suspended", {"healthy": True}, tests[0].object),
        (".yaml is without status", {"healthy": False}, tests[2].object),
    ]
    assert [one.code for one in found.remarks] == ["mapping"]


def test_a_script_outside_of_a_directory_of_its_kind_is_for_the_given_kinds() -> None:
    given = HealthCheck("a.io/A", SCRIPT, ScriptPlace("mine.lua", 1, 1), (kind("a.io/v1/A"), kind("b.io/v1/B")))
    found = convert_checks([given], [make_test("b.io/v1/B", "Healthy")], [kind("a.io/v2/A")])
    assert list_kinds(found) == ["a.io/v1/A", "b.io/v1/B"]
    assert [len(one.tests) for one in found.converted] == [0, 1]
    assert [one.code for one in found.remarks] == ["mapping"]


def test_wildcards_are_converted_for_the_kinds_of_the_input_without_a_check_of_their_own() -> None:
    checks = [check("*.io/*"), check("a.io/A"), check("{b,c}.io/C?t"), check("*.org/*")]
    tests = [make_test("a.io/v1/A", "Healthy"), make_test("b.io/v1/Cat", "Healthy"), make_test("d.com/v1/D", "Healthy")]
    kinds, remarks = convert(checks, tests, ["b.io/v1/Dog", "c.io/v2/Cut", "v1/Pod"])
    # The pattern *.io/* comes before {b,c}.io/C?t.
    assert kinds == ["a.io/v1/A", "b.io/v1/Cat", "b.io/v1/Dog", "c.io/v2/Cut"]
    assert remarks == [
        ("warning", "wildcard", "*.io/*"),
        ("error", "wildcard", "*.org/*"),
        ("error", "wildcard", "{b,c}.io/C?t"),
        ("warning", "other-kind", "d.com/D"),
    ]


def test_a_kind_without_a_known_version_is_an_error_and_known_kinds_have_theirs() -> None:
    kinds, remarks = convert([check("a.io/A"), check("Pod"), check("cert-manager.io/Certificate")])
    assert kinds == ["v1/Pod", "cert-manager.io/v1/Certificate"]
    assert remarks == [
        ("error", "no-version", "a.io/A"),
    ]


def test_a_script_that_cannot_run_is_an_error_at_its_line_and_others_are_converted() -> None:
    checks = [
        check("a.io/Syntax", "local x =\nreturn x"),
        check("a.io/Refused", "return\nsetmetatable({}, {})"),
        check("a.io/Locals", "".join(f"local a{number}\n" for number in range(201))),
        check("a.io/Fine", "local s = string.rep('x', 2)\nreturn {status = s}"),
        check("a.io/../../etc", SCRIPT),
        check("a.io/Fine", SCRIPT, source="other.lua"),
    ]
    kinds = [f"a.io/v1/{name}" for name in ("Syntax", "Refused", "Locals", "Fine")]
    found = convert_checks(checks, [make_test("a.io/v1/Fine", "Healthy")], [*map(kind, kinds), kind("../x/v1/Fine")])
    assert list_kinds(found) == ["a.io/v1/Fine"]
    assert [(one.level, one.code, one.subject, one.place) for one in found.remarks if one.code != "mapping"] == [
        ("error", "invalid-kind", "a.io/../../etc", ScriptPlace("health.lua", 1, 1)),
        ("warning", "duplicate", "a.io/Fine", ScriptPlace("other.lua", 1, 1)),
        ("warning", "unportable", "a.io/Fine", ScriptPlace("health.lua", 1)),
        ("error", "refused", "a.io/Locals", ScriptPlace("health.lua", 1, 1)),
        ("error", "refused", "a.io/Refused", ScriptPlace("health.lua", 2)),
        ("error", "syntax", "a.io/Syntax", ScriptPlace("health.lua", 2)),
    ]
    assert found.converted[0].tests == []  # The test may be about either script.
