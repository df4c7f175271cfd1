"""Match conditions, as kube-apiserver compiles, evaluates and charges them: see cel/README.md."""

import json
import math
import re
import struct
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from fleethook.cel.compile_error_list import ExpressionError
from fleethook.cel.cost_and_length_limits import CURRENT, MAX_COST, Evaluation, LimitReachedError
from fleethook.cel.library.network_and_formats import CIDR, IP, URL
from fleethook.cel.library.quantities_and_semver import QuantityValue, Semver
from fleethook.cel.plan.calls_literals_loops import ABSENT, COST
from fleethook.cel.plan.planner import FIRST_LOCAL
from fleethook.cel.program import Activation, EvaluationError, compile_condition, plan_expression
from fleethook.cel.values.times import SECOND, Duration, Timestamp
from fleethook.cel.values.values_and_overloads import NONE, CelError, CelType, IdentityKey, Optional, Uint

_DIRECTORY: Final = Path(__file__).parent / "cel"
_SYNTAX_ERROR: Final = "Syntax error: "
_RANDOM: Final = {"object.map(k, k)", "object.map(k,k)"}
"""Go returns the keys of a map in random order."""


_UNCHECKED: Final = re.compile(
    r"error during formatting|string\.format|formatting clause|end of string|index 0 out of range"
)
"""Errors about the arguments of a format. kube-apiserver finds them when it compiles, fleethook when it evaluates."""
_MESSAGE: Final = "google.protobuf.Int32Value{value: 1}"
"""The only case with a literal of a message, which fleethook refuses."""


def _load(name: str) -> Any:
    return json.loads((_DIRECTORY / name).read_text(encoding="utf-8"))


def _read_rows() -> Iterator[dict[str, Any]]:
    for line in (_DIRECTORY / "kubernetes_1_36.jsonl").read_text(encoding="utf-8").splitlines():
        yield json.loads(line)


def _encode_double(value: float) -> str:
    return "nan" if math.isnan(value) else f"{struct.unpack('>Q', struct.pack('>d', value))[0]:016x}"


_ENCODINGS: Final[dict[type, Callable[[Any], Any]]] = {
    Uint: lambda value: {"u": str(int(value))},
    int: lambda value: {"i": str(value)},
    float: lambda value: {"d": _encode_double(value)},
    bytes: lambda value: {"b": value.hex()},
    Duration: lambda value: {"dur": str(value.nanos)},
    Timestamp: lambda value: {"ts": f"{value.seconds}.{value.nanos % SECOND:09d}"},
    Optional: lambda value: {"opt": "none" if value is NONE else _encode(value.value)},
    CelType: lambda value: {"type": value.name},
    IdentityKey: lambda value: _encode(value.value),
    list: lambda value: [_encode(one) for one in value],
    dict: lambda value: {"map": [[_encode(key), _encode(one)] for key, one in value.items()]},
    IP: lambda value: {"ip": str(value.address)},
    CIDR: lambda value: {"cidr": f"{value.prefix.address}/{value.prefix.bits}"},
    URL: lambda value: {"url": value.text},
    Semver: lambda value: {"semver": value.text},
    QuantityValue: lambda _: {"q": ""},
}


def _encode(value: Any) -> Any:
    """Return a value in the form of the cases."""
    return value if type(value) in (str, bool, type(None)) else _ENCODINGS.get(type(value), _name_type)(value)


def _name_type(_value: Any) -> Any:
    return {"other": ""}


def _normalize(value: Any) -> Any:
    """Return a value without the order of maps, and without the text of quantities, which no condition can see."""
    if isinstance(value, list):
        return [_normalize(one) for one in value]
    if not isinstance(value, dict):
        return value
    if "q" in value or "other" in value:
        return dict.fromkeys(value, "")
    if "map" in value:
        return {"map": sorted((_normalize(row) for row in value["map"]), key=json.dumps)}
    return {key: _normalize(one) for key, one in value.items()}


def _measure(expression: str, activation: Activation) -> dict[str, Any]:
    plan = plan_expression(expression)
    frame = [0, MAX_COST, *activation.variables, *([ABSENT] * (plan.slots - FIRST_LOCAL))]
    token = CURRENT.set(Evaluation())
    try:
        value = plan.code(frame)
    except LimitReachedError:
        value = CelError("limit")
    finally:
        CURRENT.reset(token)
    if type(value) is CelError or frame[COST] > MAX_COST:
        return {"error": True, "cost": frame[COST]}
    return {"value": _normalize(_encode(value)), "cost": frame[COST]}


def _expect(result: Mapping[str, Any]) -> dict[str, Any]:
    if "error" in result:
        return {"error": True, "cost": result["cost"]}
    return {"value": _normalize(result.get("value")), "cost": result["cost"]}


def _find_compile_error(expression: str, *, condition: bool) -> str | None:
    try:
        if condition:
            compile_condition(expression)
        else:
            plan_expression(expression)
    except ExpressionError as error:
        return str(error)
    return None


def test_expressions_compile_as_in_kube_apiserver() -> None:
    """The texts of errors are equal, too, but those of syntax errors: ANTLR words them."""
    different, other = [], set()
    for row in _read_rows():
        for member, condition in (("compile", False), ("boolcompile", True)):
            expected = row.get(member)
            found = _find_compile_error(row["expr"], condition=condition)
            both = found is not None and expected is not None
            if row["expr"] == _MESSAGE or _UNCHECKED.search(row.get("compile", "")):
                other.add(row["expr"])
            elif found != expected and not (both and _SYNTAX_ERROR in str(expected)):
                different.append((row["expr"], member, found, expected))
    assert (different, len(other)) == ([], 16)


def test_expressions_have_the_results_and_costs_of_kube_apiserver() -> None:
    inputs = _load("kubernetes_1_36_inputs.json")
    activations = [Activation(object_=one, old_object=None, request=inputs["request"]) for one in inputs["objects"]]
    different, count = [], 0
    for row in _read_rows():
        if row["expr"] == _MESSAGE:
            continue
        for activation, result in zip(activations, row.get("results", ()), strict="results" in row):
            count += 1
            found, expected = _measure(row["expr"], activation), _expect(result)
            if row["expr"] in _RANDOM and "value" in expected:
                found["value"], expected["value"] = sorted(found["value"]), sorted(expected["value"])
            if found != expected:
                different.append((row["expr"], found, expected))
    assert different == []
    assert count > 10_000


def test_costs_of_conditions_are_those_of_kube_apiserver() -> None:
    inputs, measured = _load("expressions.json"), _load("costs.json")
    assert [one["expression"] for one in measured] == inputs["expressions"]
    scope = Activation(object_=inputs["object"], old_object=None, request=inputs["request"])
    different = []
    for one in measured:
        if "authorizer" in one["expression"]:
            continue  # Its evaluation is an error here.
        answer: object
        try:
            answer, cost, _ = compile_condition(one["expression"]).measure(scope)
        except EvaluationError as error:
            answer, cost = "error", error.cost
        expected = "error" if "error" in one else one["value"]
        if (answer, cost) != (expected, one["cost"]):
            different.append((one["expression"], answer, cost, expected, one["cost"]))
    assert different == []
