"""Workloads that kube-apiserver refuses. tests/e2e/test_workload_rules.py sends each of them to a kube-apiserver."""

from typing import Any

import pytest

from fleethook.workload_schema import check_workload
from tests.workload_rules import load_rows, make_workload, place


@pytest.mark.parametrize("row", load_rows("refused"), ids=lambda row: row["name"])
def test_refused_workloads_have_a_finding(row: dict[str, Any]) -> None:
    workload = make_workload(row)
    found = check_workload(workload, workload["kind"])
    assert [(one.pointer, one.message) for one in found] == [(place(row["pointer"]), row["finding"])]


@pytest.mark.parametrize("row", load_rows("accepted"), ids=lambda row: row["name"])
def test_accepted_workloads_have_none(row: dict[str, Any]) -> None:
    workload = make_workload(row)
    assert check_workload(workload, workload["kind"]) == []
