"""The walk over a workload. tests/conformance/workload_rules.yaml has the violations that it finds."""

import copy
from collections.abc import Iterator
from typing import Any

from fleethook.engines.overrider.schema import check_workload
from fleethook.engines.overrider.schema.findings import Finding
from fleethook.engines.overrider.schema.rules.rules import find_violations
from tests.workload_samples import full_deployment, full_stateful_set

ODD: tuple[Any, ...] = (None, True, 0, -1, 1.5, "", "x", [], ["x", None, []], {}, {"a": {}}, [{}], [{"a": 1}])


def list_places(node: Any, tokens: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    if tokens:
        yield tokens
    if isinstance(node, dict | list):
        for token in node if isinstance(node, dict) else range(len(node)):
            yield from list_places(node[token], (*tokens, token))


def test_full_workloads_violate_no_rule() -> None:
    assert list(find_violations(full_deployment(), "Deployment")) == []
    assert list(find_violations(full_stateful_set(), "StatefulSet")) == []


def test_a_value_of_any_type_may_be_at_any_place() -> None:
    sample = full_deployment()
    tried = 0
    for number, (*parents, last) in enumerate(list_places(sample)):
        workload = copy.deepcopy(sample)
        node: Any = workload
        for token in parents:
            node = node[token]
        node[last] = ODD[number % len(ODD)]
        assert all(isinstance(found, Finding) for found in check_workload(workload, "Deployment"))
        tried += 1
    assert tried > 500


def test_a_finding_has_the_place_of_its_struct() -> None:
    workload = full_deployment()
    workload["spec"]["template"]["spec"]["containers"][0]["livenessProbe"]["exec"] = {"command": ["a"]}
    (found,) = find_violations(workload, "Deployment")
    assert found.pointer == "/spec/template/spec/containers/0/livenessProbe/exec"
