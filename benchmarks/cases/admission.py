"""The latency that webhooks add to a write: one write to each row in turn, and differences of pairs."""

from collections.abc import Callable, Iterator
from statistics import median as middle
from typing import Any, Final, NamedTuple

from benchmarks.engines.admission_pairs import OPERATIONS, Found, measure_pairs
from benchmarks.engines.admission_rows import (
    CHANGED,
    NONE,
    NOOP,
    PATCH,
    SETTLED,
    WITHOUT,
    run_rows,
)
from benchmarks.engines.deployments import NoControlPlaneError
from benchmarks.harness.goals import at_most
from benchmarks.harness.pairs import Sequences, estimate, median, p99, ratio_of_medians, ratio_of_p99, subtract
from benchmarks.harness.rounds import Spread
from benchmarks.harness.section import Context, Section
from benchmarks.harness.tables import table

TITLE: Final = "Added latency of a write"
TITLES: Final = dict(zip(OPERATIONS, ("CREATE", "UPDATE of the spec", "UPDATE from the template"), strict=True))
MAX_SECONDS: Final = 45.0
"""Time for the sets of a control plane."""
PAIRS_PER_SECOND: Final = 75
"""Pairs for each second of a measurement of the other parts."""
GOALS: Final = (
    # A row, the row to compare it with, and the maximum of the ratio.
    (SETTLED, NOOP, 1.3),
    (CHANGED, PATCH, 1.5),
    (WITHOUT, NOOP, 0.3),
)

ABOUT: Final = """Writes of Deployments by one client with one connection. All rows are namespaces of one kube-apiserver, with an etcd.
One write goes to each row in turn, in another order each time: {pairs} sets. *Added* is the median of the differences to the write
of the same set to *no webhook*. The ranges are 95 % confidence ranges (bootstrap over the sets). kube-apiserver and the server of the row are idle before each write, so no
write waits for the watch events of the one before; the columns of CPU include these events, and are medians.
All programs share the cores with the client.
UPDATE of the spec changes a member that no overrider sets, and also the image where the row is *changed*. UPDATE from the template
writes the template without the overrides, as OpenYurt's controllers do. Rows:

- *no-op*: a webhook that admits everything, with the library's way of doing so, or with the least work in Go. No match conditions.
- *no-op, Python's event loop*: the same with the least work in Python: uvloop, TLS, and a search for the uid in the bytes.
- *no-op, fleethook's server*: the same in our app, which decodes, counts and logs the review, without an engine.
- *no-op, Go, fleethook's conditions*: the no-op in Go, registered as fleethook is: two webhooks with match conditions, one of which matches.
- *constant patch*: a webhook that adds one annotation to every workload.
- *no overrider*: the subject has no overrider, so kube-apiserver does not call fleethook. fleethook watches the workload.
- *settled*: the workload has the overrides before the write. UPDATE from the template is *changed* here, too.
- *changed*: the write lacks the overrides, or edits them.

Reads and writes are requests of fleethook to kube-apiserver, by its audit log; watches, leases and reviews of tokens and access are left out."""


class Rows(NamedTuple):
    """The measurements of a control plane, or of both."""

    found: Found

    def count_sets(self) -> int:
        """Return the number of sets."""
        return len(self.found.samples[NONE][OPERATIONS[0]])

    def values(self, name: str, operation: str, member: str) -> list[float]:
        """Return a member of the samples of a row."""
        return [getattr(one, member) for one in self.found.samples[name][operation]]

    def added(self, name: str, operation: str) -> list[float]:
        """Return the milliseconds that the writes of a row take more than those without a webhook."""
        base = self.values(NONE, operation, "milliseconds")
        return subtract(self.values(name, operation, "milliseconds"), base)

    def compare(self, name: str, operation: str, other: str) -> Spread:
        """Return the added latency of a row relative to that of another one."""
        return estimate(ratio_of_medians, (self.added(name, operation), self.added(other, operation)))

    def compare_member(
        self, name: str, operation: str, other: str, member: str, statistic: Callable[[Sequences], float]
    ) -> Spread:
        """Return a ratio of a member of the samples of two rows."""
        return estimate(statistic, [self.values(one, operation, member) for one in (name, other)])


def run(context: Context) -> Section:
    pairs = 6 if context.small else max(20, round(context.seconds * PAIRS_PER_SECOND))
    try:
        with run_rows(context) as running:
            found = Rows(measure_pairs(running, pairs, seconds=MAX_SECONDS))
    except NoControlPlaneError:
        return Section(TITLE, "Not measured: there is no control plane; `make controlplane` builds one.", {})
    tables = [tabulate(found, operation) for operation in OPERATIONS]
    text = "\n\n".join((ABOUT.format(pairs=found.count_sets()), *tables, tabulate_requests(found)))
    return Section(TITLE, text, {"medians": summarize(found), "goals": compare_with_goals(found)})


def summarize(rows: Rows) -> dict[str, Any]:
    """Return the medians of the samples: row, operation, member."""
    return {
        name: {
            operation: {member: middle(rows.values(name, operation, member)) for member in ("milliseconds", "cpu", "hook")}
            for operation in OPERATIONS
        }
        for name in rows.found.samples
    }  # fmt: skip


def tabulate(rows: Rows, operation: str) -> str:
    """Return the table of an operation, whose name is the title of the first column."""
    header = [TITLES[operation], "p50 ms", "p99 ms", "p50 added, ms", "added: it : no-op", "apiserver, µs CPU", "webhook, µs CPU"]  # fmt: skip
    return table(header, [_make_line(rows, name, operation) for name in rows.found.samples])


def _make_line(rows: Rows, name: str, operation: str) -> list[str]:
    times = rows.values(name, operation, "milliseconds")
    return [
        name,
        f"{middle(times):.2f}",
        f"{p99(times):.2f}",
        "" if name == NONE else estimate(median, [rows.added(name, operation)]).text(),
        "" if name in (NONE, NOOP) else rows.compare(name, operation, NOOP).text(),
        *(f"{middle(rows.values(name, operation, member)):,.0f}" for member in ("cpu", "hook")),
    ]


def tabulate_requests(rows: Rows) -> str:
    """Return the table of the requests of fleethook to kube-apiserver."""
    lines = [
        [name, f"{rows.found.reads[name]:.2f}", f"{rows.found.writes[name]:.2f}"]
        for name in (WITHOUT, SETTLED, CHANGED)
    ]
    return table(["fleethook", "reads / write", "writes / write"], lines)


def compare_with_goals(rows: Rows) -> list[dict[str, Any]]:
    """Return the goals; an UPDATE from the template changes a workload in each row."""
    made = [
        at_most(f"{name}, {TITLES[operation]}: p50 added, relative to {other}", most, rows.compare(name, operation, other))
        for name, other, most in GOALS
        for operation in _list_operations(name)
    ]  # fmt: skip
    return [
        *made,
        *_compare_loads(rows),
        at_most(f"{SETTLED}: reads for each write", 0, _constant(rows.found.reads[SETTLED]), unit="", places=2),
    ]


def _compare_loads(rows: Rows) -> Iterator[dict[str, Any]]:
    """Yield the goals of kube-apiserver's CPU and of p99."""
    members = (("CPU of kube-apiserver", 1.3, "cpu", ratio_of_medians), ("p99", 2, "milliseconds", ratio_of_p99))
    for what, most, member, statistic in members:
        for operation in _list_operations(SETTLED):
            found = rows.compare_member(SETTLED, operation, NOOP, member, statistic)
            yield at_most(f"{SETTLED}, {TITLES[operation]}: {what}, relative to {NOOP}", most, found)


def _list_operations(name: str) -> tuple[str, ...]:
    """Return the operations for which a row has goals."""
    return OPERATIONS[:2] if name == SETTLED else OPERATIONS


def _constant(value: float) -> Spread:
    return Spread(value, value, value)
