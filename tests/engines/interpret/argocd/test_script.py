import pytest

from fleethook.engines.interpret.argocd.script import HealthScript, convert_script
from fleethook.engines.interpret.lua.rules import read_customization
from fleethook.engines.interpret.lua.runner import Call, Runner
from fleethook.engines.interpret.lua.syntax.lexer import LuaSyntaxError
from fleethook.engines.interpret.lua.vm import LuaError
from fleethook.model.json import JSON, JSONObject

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
    [answer] = Runner().run_now(Call(found.rules[0].program, "InterpretHealth", [document]))
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
