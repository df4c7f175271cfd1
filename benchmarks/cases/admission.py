"""The latency that webhooks and policies add to a write, beside a kube-apiserver without them, in turns."""

from collections.abc import Callable
from typing import Any, Final

from benchmarks.engines.admission_rows import POLICY, run_rows
from benchmarks.engines.deployments import NoControlPlaneError
from benchmarks.harness.goals import at_most
from benchmarks.harness.rounds import Round, Spread, figure, spread, turns
from benchmarks.harness.section import Context, Section
from benchmarks.harness.tables import NOTE, table

TITLE: Final = "Added latency of a write"
NONE, NOOP, PATCH, CONSTANT = "no webhook", "no-op, Go", "constant patch, Go", "one constant policy"
WITHOUT, SETTLED, CHANGED = "fleethook, no overrider", "fleethook, settled", "fleethook, changed"
OPERATIONS: Final = {"create": "CREATE", "update": "UPDATE of the spec", "template": "UPDATE from the template"}
REQUESTS_PER_SECOND: Final = 20
"""Writes of each kind for each second of a measurement."""
TURNS: Final = 3
"""Turns of each row for each round of the other parts. A turn is short, and an apiserver's latency varies."""
GOALS: Final = (
    # A row, the row to compare it with, and the maximum of the ratio.
    (SETTLED, NOOP, 1.3),
    (CHANGED, PATCH, 1.5),
    (WITHOUT, NOOP, 0.3),
)

ABOUT: Final = """Writes of Deployments by one client with one connection; {requests} of each kind in a turn of each row. All rows but *mode policy* are
namespaces of one kube-apiserver, with an etcd; *mode policy* has its own. All programs share the cores with the client, so compare figures
of one table only. UPDATE of the spec changes a member that no overrider sets, and also the image where the row is *changed*. UPDATE from the template
writes the template without the overrides, as OpenYurt's controllers do. Rows:

- *no-op*: a webhook that admits everything, with the library's way of doing so, or with the least work in Go. No match conditions.
- *constant patch*, *one constant policy*: a webhook or a policy that adds one annotation to every workload.
- *no overrider*: the subject has no overrider, so kube-apiserver does not call fleethook. fleethook watches the workload.
- *settled*: the workload has the overrides before the write. UPDATE from the template is *changed* here, too.
- *changed*: the write lacks the overrides, or edits them.
- *mode policy*: the same writes; a MutatingAdmissionPolicy makes the changes.

The columns *added* are relative to *no webhook*, by round. CPU is that of kube-apiserver and of the server of the webhook, user and system, in steps of 10 ms.
Reads and writes are requests of fleethook to kube-apiserver, by its audit log; watches, leases and reviews of tokens and access are left out."""


def run(context: Context) -> Section:
    requests = 10 if context.small else max(20, round(context.seconds * REQUESTS_PER_SECOND))
    try:
        with run_rows(context, requests) as writers:
            found = turns({name: writer.measure for name, writer in writers.items()}, context.rounds * TURNS)
    except NoControlPlaneError:
        return Section(TITLE, "Not measured: there is no control plane; `make controlplane` builds one.", {})
    tables = [tabulate(found, operation) for operation in OPERATIONS]
    text = "\n\n".join((ABOUT.format(requests=requests), *tables, tabulate_requests(found), NOTE))
    return Section(TITLE, text, {"rounds": found, "goals": compare_with_goals(found)})


def tabulate(found: list[Round], operation: str) -> str:
    """Return the table of an operation, whose name is the title of the first column."""
    header = [OPERATIONS[operation], "p50 ms", "p99 ms", "p50 added, ms", "added: it : no-op", "apiserver, µs CPU", "webhook, µs CPU"]  # fmt: skip
    rows = [
        [
            name,
            *(f"{figure(found, name, f'{operation}_{key}_ms').median:.2f}" for key in ("p50", "p99")),
            "" if name == NONE else spread(_added(one, operation, name) for one in found).text(),
            "" if name == NONE else _compare(found, operation, name, NOOP).text(),
            *(f"{figure(found, name, f'{operation}_{key}_us').median:,.0f}" for key in ("cpu", "hook")),
        ]
        for name in found[0]
    ]  # fmt: skip
    return table(header, rows)


def tabulate_requests(found: list[Round]) -> str:
    """Return the table of the requests of fleethook to kube-apiserver."""
    names = (WITHOUT, SETTLED, CHANGED, POLICY)
    rows = [[name, *(f"{figure(found, name, key).median:.2f}" for key in ("reads", "writes"))] for name in names]
    return table(["fleethook", "reads / write", "writes / write"], rows)


def _added(one: Round, operation: str, name: str) -> float:
    key = f"{operation}_p50_ms"
    return one[name][key] - one[NONE][key]


def _compare(found: list[Round], operation: str, name: str, other: str) -> Spread:
    """Return the added latency of a row relative to that of another one.

    A single round on a busy machine may be faster with a webhook than without one. So each round is compared with the
    median that the other row adds, a microsecond at least.
    """
    base = max(spread(_added(one, operation, other) for one in found).median, 1e-3)
    return spread(_added(one, operation, name) / base for one in found)


def compare_with_goals(found: list[Round]) -> list[dict[str, Any]]:
    """Return the goals; an UPDATE from the template changes a workload in each row."""
    made = [
        at_most(f"{name}, {title}: p50 added, relative to {other}", most, _compare(found, operation, name, other))
        for name, other, most in GOALS
        for operation, title in OPERATIONS.items()
        if name != SETTLED or operation != "template"
    ]
    by_key: list[tuple[str, float, Callable[[str], str]]] = [
        ("CPU of kube-apiserver", 1.3, "{}_cpu_us".format), ("p99", 2, "{}_p99_ms".format)
    ]  # fmt: skip
    made += [
        at_most(f"{SETTLED}, {title}: {what}, relative to {NOOP}", most, spread(one[SETTLED][key(operation)] / one[NOOP][key(operation)] for one in found))
        for what, most, key in by_key
        for operation, title in OPERATIONS.items()
        if operation != "template"
    ]  # fmt: skip
    reads = figure(found, SETTLED, "reads")
    return [*made, at_most(f"{SETTLED}: reads for each write", 0, reads, unit="", places=2)]
