"""JSON Patch beside python-json-patch, on one Deployment: `python benchmarks/patch_micro.py`.

Both run in turns in one process, so that what else the machine does falls on both. A webhook still needs the document
it was sent, so both leave it as it is: here that is how apply works, python-json-patch copies the document first.
"""

import copy
import json
import statistics
import time
from collections.abc import Callable
from typing import Any

import jsonpatch
from reviews import deployment, overrider

from app.model.merge_keys import WORKLOAD
from app.patch import apply, compile_patch, diff, identical, strategic_merge

ROUNDS = 40
CALLS = 100
SIZE = 6000

OPERATIONS: list[dict[str, Any]] = [
    {"op": operation["operation"], "path": operation["path"], "value": operation["value"]}
    for operation in overrider()["entries"][1]["patches"]
] + [{"op": "replace", "path": "/spec/replicas", "value": 5}]


def received() -> dict[str, Any]:
    """The Deployment as an apiserver sends it, managed fields and all, as large as they usually are."""
    # Through text: nothing is shared inside a decoded document.
    document: dict[str, Any] = json.loads(json.dumps(deployment()))
    fields = document["metadata"].setdefault("managedFields", [])
    while len(json.dumps(document)) < SIZE:
        fields.append({"manager": f"m{len(fields)}", "operation": "Update", "fieldsV1": {"f:spec": {"f:replicas": {}}}})
    return document


def microseconds(call: Callable[[], object]) -> float:
    started = time.perf_counter()
    for _ in range(CALLS):
        call()
    return (time.perf_counter() - started) / CALLS * 1e6


def compare(title: str, ours: Callable[[], object], theirs: Callable[[], object]) -> None:
    pairs = [(microseconds(ours), microseconds(theirs)) for _ in range(ROUNDS)]
    left, right = (statistics.median(column) for column in zip(*pairs, strict=True))
    ratio = statistics.median(theirs / ours for ours, theirs in pairs)
    print(f"{title:44}{left:10.1f} µs{right:12.1f} µs{ratio:9.1f} x")


def main() -> None:
    before = received()
    after = apply(before, OPERATIONS)
    stranger = copy.deepcopy(after)
    compiled, theirs = compile_patch(OPERATIONS), jsonpatch.JsonPatch(OPERATIONS)
    made = diff(before, after)
    assert identical(theirs.apply(before), after)
    assert identical(apply(before, made), after)
    assert identical(jsonpatch.make_patch(before, after).apply(before), after)
    patch = {"spec": {"template": {"spec": {"containers": [{"name": "app", "image": "x:2"}]}}}}
    print(f"Deployment of {len(json.dumps(before))} bytes, {len(OPERATIONS)} operations, {len(made)} differences")
    print(f"{'median':44}{'fleethook':>13}{'jsonpatch':>15}{'ratio':>11}")
    compare("apply, compiled once", lambda: compiled.apply(before), lambda: theirs.apply(before))
    compare(
        "apply, from the operations",
        lambda: apply(before, OPERATIONS),
        lambda: jsonpatch.apply_patch(before, OPERATIONS),
    )
    compare("diff, branches shared", lambda: diff(before, after), lambda: jsonpatch.make_patch(before, after))
    compare("diff, nothing shared", lambda: diff(before, stranger), lambda: jsonpatch.make_patch(before, stranger))
    compare(
        "strategic merge, beside jsonpatch's apply",
        lambda: strategic_merge(before, patch, WORKLOAD),
        lambda: theirs.apply(before),
    )


if __name__ == "__main__":
    main()
