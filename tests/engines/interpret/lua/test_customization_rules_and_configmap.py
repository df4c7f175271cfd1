import json

import pytest

from fleethook.engines.interpret.lua.customization_rules_and_configmap import (
    ParsedRules,
    read_config_map,
    read_customization,
)
from fleethook.model.gvk import GroupVersionKind
from fleethook.model.karmada import Operation


def read(**scripts: str) -> list[str]:
    """Return the problems of a customization with these scripts."""
    rules = {name: {"luaScript": script} for name, script in scripts.items()}
    target = {"apiVersion": "example.com/v1", "kind": "Foo"}
    found = read_customization({"metadata": {"name": "foo"}, "spec": {"target": target, "customizations": rules}})
    return [one.text for one in found.problems]


def read_retention(script: str) -> list[str]:
    """Return the problems of a ``karmada-config`` with this script."""
    entry = json.dumps({"apiVersion": "example.com/v1", "kind": "Foo", "health.lua": script})
    return [one.text for one in read_config_map({"data": {"retention.customizations": entry}}).problems]


HEALTH = "hs = {}\nif obj.status then hs.status = 'Healthy' end\nreturn hs"
CONVERT = "convert the health.lua or the argocd-cm with `fleethook interpret convert --from argocd`"


@pytest.mark.parametrize(
    ("script", "mistake"),
    [
        (HEALTH, f"is one of Argo CD, because it reads the global obj (line 2): {CONVERT}"),
        ("obj.spec.paused = true\nreturn obj", "because it reads the global obj (line 1)"),
        ("return {status = 'Degraded'}", f"is one of Argo CD, because it sets a status of Argo CD: {CONVERT}"),
        ('local hs = {}\nhs["status"] = "Healthy"\nreturn hs', "is one of Argo CD"),
        (
            "function GetReplicas(desiredObj) return 1 end",
            "the script defines GetReplicas: move it to spec.customizations.replicaResource.luaScript",
        ),
    ],
)
def test_a_script_in_the_wrong_place_is_refused_with_the_remedy(script: str, mistake: str) -> None:
    found = read(healthInterpretation=script, retention=script)
    assert [mistake in text for text in found] == [True, True]
    [problem] = read_retention(script)
    assert problem.startswith("not found function Retain: the script ")
    assert mistake in problem


@pytest.mark.parametrize(
    "script",
    [
        "local obj = runtimeObj\ndesiredObj.spec.x = obj.spec.x",
        "obj = runtimeObj\ndesiredObj.status = 'Healthy'",
        "function GetReplicas(o) return o.spec.replicas end\ndesiredObj.spec.replicas = GetReplicas(runtimeObj)",
        "-- nothing",
    ],
)
def test_a_body_of_retain_is_not_mistaken_for_another_script(script: str) -> None:
    assert read_retention(script) == []


def test_a_body_of_retain_that_returns_another_object_is_refused() -> None:
    text = "not found function Retain: the script has to define it, or be its body and use desiredObj"
    assert read_retention("return nil") == read_retention("local t = {}\nt.pause = {}\nreturn t") == [text]


def test_a_body_without_its_function_is_refused_with_the_function() -> None:
    found = read(
        healthInterpretation="return observedObj.status ~= nil",
        replicaRevision="desiredObj.spec.replicas = desiredReplica\nreturn desiredObj",
        statusReflection="return 1",
    )
    place = "the script is only the body of the function: write `function {}` before it and `end` after it"
    assert [text.partition(": ")[2] for text in found] == [
        place.format("InterpretHealth(observedObj)"),
        place.format("ReviseReplica(desiredObj, desiredReplica)"),
        "the script has to define it",
    ]


FOO = GroupVersionKind("example.com", "v1", "Foo")


def config(text: str) -> ParsedRules:
    return read_config_map(
        {"kind": "ConfigMap", "metadata": {"name": "karmada-config"}, "data": {"retention.customizations": text}}
    )


def customization(**scripts: object) -> ParsedRules:
    rules = {name: {"luaScript": script} for name, script in scripts.items()}
    target = {"apiVersion": "example.com/v1", "kind": "Foo"}
    return read_customization({"metadata": {"name": "foo"}, "spec": {"target": target, "customizations": rules}})


BOMB = "\n".join([f"a{i}: &a{i} [" + ", ".join([f"*a{i - 1}" if i else "x"] * 10) + "]" for i in range(10)])
"""A short document that is huge after its aliases are resolved."""
ENTRY = "apiVersion: example.com/v1\nkind: Foo\n"
WHOLE = '"function Retain(desiredObj, runtimeObj) return desiredObj end"'


@pytest.mark.parametrize(
    "text",
    [
        f"{ENTRY}health.lua: {WHOLE}",
        f"{ENTRY}retention.lua: {WHOLE}",
        f"{ENTRY}retention.lua: {WHOLE}\nhealth.lua: {WHOLE}",
        f"- apiVersion: example.com/v1\n  kind: Foo\n  health.lua: {WHOLE}",
        f"---\n{ENTRY}health.lua: {WHOLE}\n---\napiVersion: v1\nkind: Pod\nhealth.lua: {WHOLE}\n",
        f"{ENTRY}health.lua: desiredObj.x = runtimeObj.x",
        f"{ENTRY}health.lua: return desiredObj",
        f"{ENTRY}health.lua: Retain = function(a, b) return a end",
    ],
)
def test_retention_as_a_mapping_a_sequence_or_documents(text: str) -> None:
    found = config(text)
    assert found.problems == []
    assert found.rules[0].kind == FOO
    assert found.rules[0].function.operation is Operation.RETAIN
    assert found.rules[0].source == "ConfigMap karmada-config"


@pytest.mark.parametrize("text", ["", "---\n", "[]"])
def test_empty_config_map_has_no_rules(text: str) -> None:
    assert config(text) == ParsedRules([], [])
    assert read_config_map({"data": None}) == ParsedRules([], [])


@pytest.mark.parametrize(
    ("text", "place", "problem"),
    [
        ("\na: [", "data[retention.customizations]", "line 3: "),
        (BOMB, "data[retention.customizations]", "line "),
        ("- 7", "data[retention.customizations][0]", "is not a RuntimeValueRetention"),
        (f"kind: Foo\nhealth.lua: {WHOLE}", "data[retention.customizations][0].apiVersion", "Required value"),
        (ENTRY, "data[retention.customizations][0]", "has no script: give one as retention.lua"),
        (f"{ENTRY}health.lua: a.b = 1\nretention.lua: a.b = 2", "data[retention.customizations][0]", "has two scripts that differ, health.lua and retention.lua"),
        (f"{ENTRY}health.lua: {WHOLE}\nhealth.lau: x", "data[retention.customizations][0]", "unknown members: health.lau"),
        (f"{ENTRY}health.lua: 7", "data[retention.customizations][0].health.lua", "must be a string"),
        (f"{ENTRY}health.lua: 'function Retain('", "data[retention.customizations][0].health.lua", "Lua script error: line 1: a name is expected near '<eof>'"),
        (f"{ENTRY}health.lua: |\n  local x = 1\n  x +", "data[retention.customizations][0].health.lua", "Lua script error: line 2:"),
        (f"{ENTRY}health.lua: 'goto nowhere'", "data[retention.customizations][0].health.lua", "no visible label 'nowhere'"),
        (f"- {{apiVersion: v1, kind: Pod, health.lua: {WHOLE}}}\n- {{apiVersion: v1, kind: Pod, health.lua: {WHOLE}}}", "data[retention.customizations][1]", "v1 Pod is already defined at data[retention.customizations][0]"),
    ],
)  # fmt: skip
def test_problem_of_a_config_map_has_its_path(text: str, place: str, problem: str) -> None:
    found = config(text)
    assert [one.field for one in found.problems] == [place]
    assert problem in found.problems[0].text


def test_customization_has_a_rule_for_each_script() -> None:
    found = customization(
        retention="function Retain(d, o) return d end",
        healthInterpretation="function InterpretHealth(o) return true end",
        statusReflection="",
    )
    assert found.problems == []
    assert [(rule.kind, rule.function.operation) for rule in found.rules] == [
        (FOO, Operation.RETAIN), (FOO, Operation.HEALTH),
    ]  # fmt: skip
    assert found.rules[0].place == "spec.customizations.retention.luaScript"


@pytest.mark.parametrize(
    ("scripts", "place", "problem"),
    [
        ({"retention": "function Keep(d, o) return d end"}, "retention.luaScript", "not found function Retain"),
        ({"retention": "function Retain("}, "retention.luaScript", "Lua script error: line 1"),
        ({"retention": 7}, "retention.luaScript", "must be a string"),
        ({"retain": "function Retain() end"}, "retain", "unknown rule: use one of retention, replicaResource"),
    ],
)
def test_problem_of_a_customization_has_its_path(scripts: dict[str, object], place: str, problem: str) -> None:
    found = customization(**scripts)
    assert [one.field for one in found.problems] == [f"spec.customizations.{place}"]
    assert problem in found.problems[0].text
    assert found.rules == []


def test_customization_needs_a_target_and_rules() -> None:
    found = read_customization({"metadata": {"name": "x"}, "spec": {"target": {"kind": ""}}})
    assert [one.field for one in found.problems] == [
        "spec.target.apiVersion",
        "spec.target.kind",
        "spec.customizations",
    ]
