"""Admission rules in Python: five rules for Pods, ours beside kopf, FastAPI and controller-runtime."""

import sys
from typing import Final

from benchmarks.engines.rule_checks import check_verdicts
from benchmarks.engines.rule_pods import RULES, pods, reviews
from benchmarks.harness import ROOT
from benchmarks.harness.goals import at_least, at_most
from benchmarks.harness.load import Load
from benchmarks.harness.rounds import Round, figure, ratio
from benchmarks.harness.section import Context, Section
from benchmarks.harness.server_group import Server, go, kopf, ours, run_servers
from benchmarks.harness.tables import NOTE, bullets, servers_table, table
from benchmarks.varied import size_of, write_lines

OURS: Final = "fleethook serve --rules"
INLINE: Final = "fleethook serve --rules, inline=True"
CONTROLLER_RUNTIME: Final = "Go, controller-runtime"
FASTAPI: Final = "FastAPI + pydantic + make_patch"
KOPF: Final = "kopf"
OPTIONS: Final = (f"--path={','.join(RULES.values())}", "--expect=any")

MEASURED = ("app/fleethook/admission", "app/fleethook/engines/rules", "app/fleethook/server", "app/fleethook/work")

ABOUT: Final = """The five rules of [examples/policies](../examples/policies/rules.py): required labels, image registries, no `latest`, resource limits and
seccomp. A thousand different reviews of the creation of Pods, the same for every server. The rules take turns, each with a path of its own, as
kube-apiserver calls webhooks. Every tenth Pod breaks a rule or changes the patch of seccomp. TLS 1.3 with an ECDSA P-256 certificate, keep-alive.
Before the measurement, all servers must give equal verdicts, codes and messages, and patches with an equal effect. Work of each server:"""

WORK: Final = {
    OURS: "the command with the file of the rules; plain functions, each in a thread. Metrics, a log line, limits.",
    INLINE: "the same, and each rule has the argument `inline=True`, so that the event loop calls it.",
    CONTROLLER_RUNTIME: "decodes each Pod into types; marshals it for seccomp and computes the difference of two texts. Metrics, a log line by zap.",
    FASTAPI: "decodes the body into models of the members that the rules read; python-json-patch for seccomp. Neither counts nor logs.",
    KOPF: "its admission server and its handlers (`async def`), without an operator. A log line, no metrics.",
}  # fmt: skip

ONE: Final = """### One connection

The same reviews, one after the other."""


def rows(context: Context) -> dict[str, Server]:
    rules, inline = ROOT / "examples" / "policies" / "rules.py", context.scratch / "inline_rules.py"
    inline.write_text(make_inline(rules.read_text()))
    command = (sys.executable, "-m", "fleethook", "serve", "--port=0", "--rules")
    servers = {
        OURS: Server((*command, rules)), INLINE: Server((*command, inline)), CONTROLLER_RUNTIME: go(context, "controller-runtime"), FASTAPI: ours("rules"),
        KOPF: kopf(context, "--rules"),
    }  # fmt: skip
    return {name: one._replace(options=OPTIONS) for name, one in servers.items()}


def make_inline(text: str) -> str:
    """Return the example with the argument `inline=True` in each decorator."""
    return text.replace('"v1", "Pod"', '"v1", "Pod", inline=True')


def run(context: Context) -> Section:
    body = write_lines(context.scratch / "pods.jsonl", reviews(pods()))
    with run_servers(context, rows(context)) as servers:
        ports = {name: one.port for name, one in servers.running.items()}
        checked = check_verdicts(ports, servers.generator.authority)
        many = servers.turns(Load(body), rounds=context.rounds, seconds=context.seconds)
        one = servers.turns(Load(body, connections=1), rounds=context.rounds, seconds=context.seconds)
    text = (
        ABOUT, bullets(WORK), f"### 16 connections, {size_of(body):,.0f} bytes", servers_table(many, OURS), ONE, one_table(one), NOTE,
    )  # fmt: skip
    figures = {"rounds": many, "one connection": one, "checked": checked, "goals": compare_with_goals(many, one)}
    return Section("Admission rules in Python", "\n\n".join(text), figures)


def one_table(rounds: list[Round]) -> str:
    """Return the latencies of one connection."""
    lines = [
        [
            name, *(f"{figure(rounds, name, key).median:.3f}" for key in ("p50_ms", "p99_ms")),
            *("" if name == OURS else ratio(rounds, key, OURS, name).text() for key in ("p50_ms", "p99_ms")),
        ]
        for name in rounds[0]
    ]  # fmt: skip
    return table(["server", "p50 ms", "p99 ms", "p50: fleethook : it", "p99: fleethook : it"], lines)


def compare_with_goals(many: list[Round], one: list[Round]) -> list[dict[str, object]]:
    def times(ours: str, other: str):
        return ratio(many, "requests_per_second", ours, other)

    return [
        at_least("admission rules: requests/s relative to kopf", 3.5, times(OURS, KOPF)),
        at_least("admission rules: requests/s relative to controller-runtime", 1.5, times(OURS, CONTROLLER_RUNTIME)),
        at_least("inline admission rules: requests/s relative to kopf", 7, times(INLINE, KOPF)),
        at_least("inline admission rules: requests/s relative to controller-runtime", 3.5, times(INLINE, CONTROLLER_RUNTIME)),
        at_most(
            "admission rules, one connection: p50 relative to controller-runtime", 1,
            ratio(one, "p50_ms", OURS, CONTROLLER_RUNTIME),
        ),
    ]  # fmt: skip
