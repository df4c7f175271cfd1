"""JSON Patch: applying and making patches, beside python-json-patch and Go's libraries."""

import copy
import functools
import json
from collections.abc import Callable
from typing import Any

import jsonpatch

from app.model.merge_keys import WORKLOAD
from app.patch import apply, compile_patch, diff, identical, strategic_merge
from benchmarks.engines.measure import Measured, cpu_us, go, pin_to_core, text
from benchmarks.engines.patch_documents import OPERATIONS, STRATEGIC, build_document
from benchmarks.harness.section import Context, Section
from benchmarks.harness.tables import table

ONCE, EACH = "apply, patch decoded once", "apply, from the operations"
SHARED, STRANGER, MERGE = "diff, branches shared", "diff, nothing shared", "strategic merge"
DECODE, ENCODE = "decode", "encode"
OURS, PYTHON, GO = "fleethook", "python-json-patch", "Go"
# Go's library has one function for the difference of two texts; both of ours are compared with it.
IN_GO = {ONCE: ONCE, EACH: EACH, SHARED: "diff", STRANGER: "diff"}

ABOUT = """µs of CPU for a Deployment of {size:,} bytes, {operations} operations, {differences} differences. A webhook still needs the document that it
received, so no library may change it: ours shares the untouched branches, python-json-patch copies the document first. In Go, evanphx/json-patch v5 applies
patches and gomodules.xyz/jsonpatch v2 makes them. Both take and return text, so the second column of Go excludes
decoding the document (and, for applying, encoding it), each measured by itself. *Branches shared* is the difference to a document that our own
patch made. python-json-patch has no strategic merge, so its `apply` is in that row."""


def run(context: Context) -> Section:
    """Measure our functions and the peers' in turns."""
    before = build_document()
    made = diff(before, apply(before, OPERATIONS))
    ways, measured = _ways(before), Measured()
    arguments = ("--inputs", str(context.inputs / "patch.json"), "--rounds", "1", "--turn", "200ms")
    for _ in range(context.rounds):
        with pin_to_core(context.server_core):
            for name, way in ways.items():
                measured.add(name, cpu_us(way, 0.15))
        for line in go(context, "patch", *arguments):
            measured.add(f"{GO}, {line['name']}", line["cpu_ns_per_op"] / 1e3)
    for name in IN_GO.values():
        values = zip(*(measured[f"{GO}, {part}"] for part in (name, DECODE, ENCODE)), strict=True)
        # The difference decodes two documents, and its operations are encoded by the caller.
        taken = [
            (all_of_it - 2 * decode) if name == "diff" else (all_of_it - decode - encode)
            for all_of_it, decode, encode in values
        ]
        measured[f"{GO} without text, {name}"] = [max(value, 1e-3) for value in taken]
    about = ABOUT.format(size=len(json.dumps(before)), operations=len(OPERATIONS), differences=len(made))
    figures = {
        "us": measured.figures(),
        "times of ours": {
            name: {PYTHON: measured.ratio(f"{PYTHON}, {name}", f"{OURS}, {name}")._asdict()}
            | ({GO: measured.ratio(f"{GO}, {IN_GO[name]}", f"{OURS}, {name}")._asdict()} if name in IN_GO else {})
            for name in (ONCE, EACH, SHARED, STRANGER)
        },
    }
    return Section("JSON Patch", f"{about}\n\n{_table(measured)}", figures)


def _ways(before: dict[str, Any]) -> dict[str, Callable[[], Any]]:
    after = apply(before, OPERATIONS)
    stranger = copy.deepcopy(after)
    compiled, theirs = compile_patch(OPERATIONS), jsonpatch.JsonPatch(OPERATIONS)
    assert identical(theirs.apply(before), after)
    assert identical(apply(before, diff(before, after)), after)
    assert identical(jsonpatch.make_patch(before, after).apply(before), after)
    pairs: dict[str, tuple[Callable[[], Any], Callable[[], Any]]] = {
        ONCE: (lambda: compiled.apply(before), lambda: theirs.apply(before)),
        EACH: (lambda: apply(before, OPERATIONS), lambda: jsonpatch.apply_patch(before, OPERATIONS)),
        SHARED: (lambda: diff(before, after), lambda: jsonpatch.make_patch(before, after)),
        STRANGER: (lambda: diff(before, stranger), lambda: jsonpatch.make_patch(before, stranger)),
        MERGE: (lambda: strategic_merge(before, STRATEGIC, WORKLOAD), lambda: theirs.apply(before)),
    }
    return {
        f"{who}, {name}": way for name, pair in pairs.items() for who, way in zip((OURS, PYTHON), pair, strict=True)
    }


def _table(measured: Measured) -> str:
    rows = []
    for name in (ONCE, EACH, SHARED, STRANGER, MERGE):
        ours, python = f"{OURS}, {name}", f"{PYTHON}, {name}"
        of = functools.partial(measured.ratio, under=ours)
        row = [name, measured.text(ours), measured.text(python), f"**{text(of(python))}**"]
        if name in IN_GO:
            both = f"{GO}, {IN_GO[name]}", f"{GO} without text, {IN_GO[name]}"
            row += [cell for one in both for cell in (measured.text(one), f"**{text(of(one))}**")]
        rows.append(row + [""] * (8 - len(row)))
    head = ("", OURS, PYTHON, "of ours", GO, "of ours", "Go without text", "of ours")
    return table(head, rows)
