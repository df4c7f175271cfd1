"""Dispatch: matching among 10 to 1,000 hooks, and a chain of three, beside kube-apiserver's own webhook plugins."""

import asyncio
import base64
import functools
import json
import sys
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import uvloop

from benchmarks.engines.dispatch_chain import BARE, DISPATCH, PHASES, WHOLE, chains, reviews
from benchmarks.engines.dispatch_hooks import AUTHORITY
from benchmarks.engines.dispatch_matching import CHANGED, LOOK_UP, MATCH, Matching
from benchmarks.engines.dispatch_worlds import HOOKS, SAME, SIZES
from benchmarks.engines.measure import Measured, cpu_us, go, pin_to_core, ratio, text
from benchmarks.harness.goals import at_most
from benchmarks.harness.processes import serving
from benchmarks.harness.rounds import spread
from benchmarks.harness.section import Context, Section
from benchmarks.harness.tables import table

MEASURED = ("app/fleethook/engines/dispatch", "app/fleethook/outbound")


REQUESTS = 300
DISPATCHES = 60
GO = "k8s.io/apiserver"
UNIT = "JSON"
Chain = dict[tuple[str, str], Measured]
"""Microseconds of CPU and of time beside the calls, by phase and size of the review."""

MATCHING = """**Matching** one request, in µs of CPU. Both sides decode the objects within that time. Three of the hooks match the request: one by an exact
rule, one by an equivalent version and a namespaceSelector, one by an objectSelector and a CEL condition. k8s.io/apiserver is its mutating plugin without the calls, but with the conversion of apiextensions-apiserver. It does not look up the
owner and the schema of an object, which ours does."""
CHAIN = """**A chain** of three hooks over TLS on loopback. The hooks run in their own process on the other core; values are µs for each call. *Beside the calls* is
the time during which no call was in progress. *CPU* is that of the complete process, including HTTP and TLS. *Bare aiohttp* makes the same calls one
after the other with bodies that were encoded before. Validating hooks are called concurrently, mutating hooks in turn. k8s.io/apiserver's plugins
get an object that is decoded within the measurement. *The whole app* decodes a review and encodes an answer."""


def run(context: Context) -> Section:
    """Measure matching, then the chain."""
    matching = _measure_matching(context)
    chain = _measure_chain(context)
    of_go = {
        title: {
            count: ratio(matching.found[title, GO, count], matching.found[title, MATCH, count])._asdict()
            for count in SIZES
        }
        for title in (case.title for case in matching.cases)
    }
    figures = {
        "matching us": {
            f"{title}, {way}, {count} hooks": spread(values)._asdict() | {"rounds": values}
            for (title, way, count), values in matching.found.items()
        },
        "matching, times of ours": of_go,
        "chain us": {f"{phase}, {size}": measured.figures() for (phase, size), measured in chain.items()},
    }
    goals = [
        at_most(
            f"dispatch, {SAME}: CPU of matching among {SIZES[-1]:,} webhooks relative to {SIZES[0]}", 1.2,
            ratio(matching.found[SAME, MATCH, SIZES[-1]], matching.found[SAME, MATCH, SIZES[0]]),
        )
    ]  # fmt: skip
    parts = (MATCHING, _matching_table(matching), _changes(matching), CHAIN, _chain_table(chain))
    return Section("Dispatch", "\n\n".join(parts), figures | {"goals": goals})


def _run(work: Coroutine[Any, Any, Any]) -> Any:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(work)


# Matching.


def _measure_matching(context: Context) -> Matching:
    matching = Matching(REQUESTS)
    _run(matching.warm())
    arguments = ("--inputs", str(context.inputs / "dispatch.json"), "--rounds", "1", "--turn", "150ms")
    for _ in range(context.rounds):
        with pin_to_core(context.server_core):
            _run(matching.round())
        lines = go(context, "dispatch", *arguments)
        decoding = {line["name"]: line["cpu_ns_per_op"] for line in lines if line["part"] == "decode"}
        for line in lines:
            if line["part"] == "match":
                key = line["name"], GO, line["hooks"]
                value = (line["cpu_ns_per_op"] + decoding[line["name"]]) / 1e3
                matching.found.setdefault(key, []).append(value)
    return matching


def _matching_table(matching: Matching) -> str:
    head = (
        "request",
        "",
        *(f"{count:,} hooks" for count in SIZES),
        f"{SIZES[-1]:,} : {SIZES[0]}",
        f"of ours, {SIZES[-1]:,} hooks",
    )
    rows = []
    for case in matching.cases:
        for way in (MATCH, LOOK_UP, GO):
            found = [matching.found[case.title, way, count] for count in SIZES]
            ours = matching.found[case.title, MATCH, SIZES[-1]]
            label = way if way == GO else f"fleethook, {way}"
            beside = "" if way == MATCH else text(ratio(found[-1], ours))
            rows.append(
                (case.title, label, *(text(spread(one)) for one in found), text(ratio(found[-1], found[0])), beside)
            )
    return table(head, rows)


def _changes(matching: Matching) -> str:
    title, each = matching.cases[0].title, matching.changed_per_hook()
    rows = [
        (f"{count:,} hooks", text(spread(matching.found[title, CHANGED, count])), f"{each[count]:.1f}")
        for count in SIZES
    ]
    return table((f"fleethook, {CHANGED}", "µs", "µs for each hook"), rows)


# The chain.


def _measure_chain(context: Context) -> Chain:
    directory = context.scratch / "hooks"
    directory.mkdir(exist_ok=True)
    command = [sys.executable, "-m", "benchmarks.engines.dispatch_hooks", directory]
    with serving(command, cores=[context.load_core]) as hooks:
        authority = directory / AUTHORITY
        ca_bundle = base64.b64encode(authority.read_bytes()).decode()
        return _run(_rounds(context, f"https://127.0.0.1:{hooks.port}", authority, ca_bundle))


async def _rounds(context: Context, base: str, authority: Path, ca_bundle: str) -> Chain:
    found: Chain = {(phase, size): Measured() for phase in PHASES.values() for size in reviews()}
    documents = {size: json.dumps(review) for size, review in reviews().items()}
    arguments = (
        "--inputs", str(context.inputs / "dispatch.json"), "--hooks", base, "--ca", str(authority),
        "--rounds", "1", "--turn", "250ms",
    )  # fmt: skip
    with pin_to_core(context.server_core):
        async with chains(base, ca_bundle) as turns:
            for _ in range(context.rounds):
                for (phase, size, way), turn in turns.items():
                    cost = await turn.cost(DISPATCHES)
                    for name, value in cost._asdict().items():
                        found[phase, size].add(f"{way}, {name}", value)
                for (_, size), measured in found.items():
                    measured.add(UNIT, cpu_us(functools.partial(_unit, documents[size]), 0.05))
                for line in await asyncio.to_thread(go, context, "dispatch", *arguments):
                    if line["phase"] in PHASES.values():
                        _note(found[line["phase"], line["review"]], line)
    return found


def _unit(document: str) -> None:
    json.dumps(json.loads(document))


def _note(measured: Measured, line: dict[str, Any]) -> None:
    measured.add(f"{GO}, wall", line["ns_per_op"] / HOOKS / 1e3)
    measured.add(f"{GO}, cpu", line["cpu_ns_per_op"] / HOOKS / 1e3)
    measured.add(f"{GO}, beside", line["beside_calls_ns_per_op"] / HOOKS / 1e3)


def _chain_table(chain: Chain) -> str:
    head = (
        "phase, bytes of the review",
        "",
        "beside the calls",
        "CPU",
        "of bare's CPU",
        "of the CPU of k8s.io/apiserver",
    )
    sizes = {size: len(json.dumps(review)) for size, review in reviews().items()}
    rows = []
    for (phase, size), measured in chain.items():
        for way in (BARE, DISPATCH, WHOLE, GO):
            cpu = f"{way}, cpu"
            rows.append(
                (
                    f"{phase}, {sizes[size]:,}", way if way in (BARE, GO) else f"fleethook, {way}",
                    "" if way == BARE else measured.text(f"{way}, beside"), measured.text(cpu),
                    "" if way == BARE else text(measured.ratio(cpu, f"{BARE}, cpu")),
                    "" if way == GO else text(measured.ratio(cpu, f"{GO}, cpu")),
                )
            )  # fmt: skip
    return table(head, rows)
