"""The rows of tests/conformance/workload_rules.yaml."""

import copy
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from fleethook.patch import apply

_FILE = Path(__file__).parent / "conformance" / "workload_rules.yaml"
_PLACES = {"$app": "/spec/template/spec/containers/0", "$pod": "/spec/template/spec"}


@cache
def _load() -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load(_FILE.read_text())
    return loaded


def load_rows(group: str) -> list[dict[str, Any]]:
    """The rows that kube-apiserver has ``refused`` or ``accepted``."""
    rows: list[dict[str, Any]] = _load()[group]
    return rows


def place(pointer: str) -> str:
    """The JSON pointer of a path in a row."""
    return _PLACES.get(pointer[:4], pointer[:4]) + pointer[4:]


def make_workload(row: dict[str, Any]) -> dict[str, Any]:
    workload: dict[str, Any] = copy.deepcopy(_load()["workloads"][row.get("kind", "Deployment")])
    for path, value in row["set"].items():
        operation = {"op": "remove"} if value is None else {"op": "add", "value": value}
        workload = apply(workload, [{"path": place(path), **operation}])
    return workload
