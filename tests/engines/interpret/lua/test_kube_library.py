"""The functions of the library kube: quantities, and the requirements and dependencies of Pods."""

from typing import Any

import pytest

from fleethook.engines.interpret.lua.kube_library import (
    FUNCTIONS,
    pod_dependencies,
    pod_requirements,
    quantity_number,
    resource_add,
)
from fleethook.engines.interpret.lua.lua_machine import LuaError
from fleethook.interpret.interpreter import InterpretError
from tests.engines.interpret.lua.machines import call

TEMPLATE = {
    "spec": {
        "containers": [{"name": "c", "resources": {"requests": {"cpu": "250m"}}}],
        "volumes": [{"name": "v", "configMap": {"name": "settings"}}],
    }
}


@pytest.mark.parametrize(
    ("amounts", "total"),
    [
        (("100m", "900m"), "1"),
        (("1Gi", None, "512Mi"), "1536Mi"),
        ((1, 0.5), "1500m"),
        ((), "0"),
        (("9007199254740993", "1"), "9007199254740994"),
    ],
)
def test_quantities_are_added_exactly(amounts: tuple[Any, ...], total: str) -> None:
    assert resource_add(*amounts) == total


@pytest.mark.parametrize(
    ("amount", "number"), [(None, 0), ("2", 2), ("250m", 0.25), ("1Ki", 1024), (3, 3), ("10E", 2**63 - 1)]
)
def test_a_quantity_is_an_integer_if_it_is_whole_and_small_enough(amount: Any, number: float) -> None:
    found = quantity_number(amount)
    assert found == number
    assert type(found) is type(number)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: resource_add("1", True), "resourceAdd: argument 2 is not a quantity"),
        (lambda: resource_add({}), "resourceAdd: argument 1 is not a quantity"),
        (lambda: resource_add("much"), "resourceAdd: "),
        (lambda: quantity_number("-1"), "getResourceQuantity: -1 is negative"),
        (lambda: pod_requirements("x"), "accuratePodRequirements takes a pod template"),
        (lambda: pod_dependencies(None), "getPodDependencies takes a pod template and a namespace"),
    ],
)
def test_a_wrong_argument_is_an_error_of_the_function(call: Any, message: str) -> None:
    with pytest.raises(InterpretError, match=message):
        call()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("accuratePodRequirements({}, nil, 1)", "accuratePodRequirements takes 1 argument, not 3"),
        ("getResourceQuantity('1', 2)", "getResourceQuantity takes 1 argument, not 2"),
        ("getPodDependencies({}, 'a', 'b')", "getPodDependencies takes 2 arguments, not 3"),
    ],
)
def test_too_many_arguments_are_an_error_of_the_script(arguments: str, message: str) -> None:
    with pytest.raises(LuaError, match=message):
        call(f"function F() return require('kube').{arguments} end")


def test_a_template_has_requirements_and_dependencies() -> None:
    assert pod_requirements(TEMPLATE)["resourceRequest"] == {"cpu": "250m"}
    (reference,) = pod_dependencies(TEMPLATE, "shop")
    assert (reference["kind"], reference["namespace"], reference["name"]) == ("ConfigMap", "shop", "settings")
    for missing in (None, ""):
        assert pod_dependencies(TEMPLATE, missing)[0]["namespace"] == "default"


def test_empty_tables_of_a_template_have_no_type_as_in_karmada() -> None:
    spec = {**TEMPLATE["spec"], "volumes": {}, "nodeSelector": [], "initContainers": [None, []], "imagePullSecrets": {}}
    template = {"metadata": [], "spec": spec}
    assert pod_requirements(template) == pod_requirements(TEMPLATE)
    assert pod_dependencies(template) == []
    assert pod_requirements([]) == pod_requirements({})
    with pytest.raises(InterpretError, match="containers"):
        pod_requirements({"spec": {"containers": {"name": "x"}}})


def test_scripts_get_the_functions_of_karmada() -> None:
    assert set(FUNCTIONS) == {"resourceAdd", "getResourceQuantity", "accuratePodRequirements", "getPodDependencies"}
