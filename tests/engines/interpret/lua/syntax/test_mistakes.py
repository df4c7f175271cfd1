import json

import pytest

from fleethook.engines.interpret.lua.rules import list_findings, read_config_map, read_customization


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
CONVERT = "convert a health check with `fleethook interpret convert --from argocd FILE`"


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


def test_the_object_of_argo_cd_within_a_function_is_a_warning_with_the_remedy() -> None:
    script = "function InterpretHealth(observedObj) return obj.status ~= nil and x end"
    target = {"apiVersion": "example.com/v1", "kind": "Foo"}
    scripts = {"healthInterpretation": {"luaScript": script}}
    [rule] = read_customization({"spec": {"target": target, "customizations": scripts}}).rules
    first, second = list_findings(rule)
    assert first == (
        "line 1: obj is undefined: the script reads a global that nothing sets. Scripts of Argo CD read it: here the "
        "parameter of the function has the resource"
    )
    assert second.endswith("reads a global that nothing sets")
