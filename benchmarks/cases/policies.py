"""The latency and CPU of kube-apiserver with overriders as policies, in turns."""

import contextlib
import statistics
from typing import Final

from benchmarks.engines.admission_load import Writer
from benchmarks.engines.admission_planes import Setting, prepare
from benchmarks.engines.deployments import NoControlPlaneError
from benchmarks.harness.goals import at_most
from benchmarks.harness.rounds import Round, figure, ratio, turns
from benchmarks.harness.section import Context, Section
from benchmarks.harness.tables import NOTE, table

MEASURED = ("app/fleethook/engines/overrider/policies",)

TITLE: Final = "Policies in kube-apiserver"
NOTHING: Final = "nothing"
CONSTANT: Final = "one constant policy"
GOAL: Final = 1.15
"""The most that policies for 100 overriders may multiply the latency of a write with one constant policy by."""
COUNTS: Final = (10, 100, 1_000)
SMALL_COUNTS: Final = (2,)
REQUESTS_PER_SECOND: Final = 100
"""Writes of each kind for each second of a measurement: p99 needs a fixed number of them."""

OPERATIONS: Final = {"create": "CREATE", "update": "UPDATE", "template": "UPDATE with the bare template"}

ABOUT: Final = """Writes of Deployments that an overrider covers, by one client with one connection; {requests} of each in a turn. UPDATE changes a member that no
overrider sets. UPDATE with the bare template removes the overrides, as OpenYurt's controllers do after an edit of their template. Each row is a
kube-apiserver with an etcd of its own, and all of them share the cores with the client. All overriders select YurtAppSets v1beta1 with two pools,
set an image and add a container. *One constant policy* adds one annotation, without any condition: the least that the API costs. CPU is that of
kube-apiserver alone (user and system), and counts in steps of 10 ms. [The webhook](#added-latency-of-a-write) has a part of its own."""


def run(context: Context) -> Section:
    settings = list_settings(SMALL_COUNTS if context.small else COUNTS)
    requests = max(10, round(context.seconds * REQUESTS_PER_SECOND))
    try:
        with contextlib.ExitStack() as stack:
            writers = {
                name: Writer(stack.enter_context(prepare(setting, context.scratch / str(number))), requests)
                for number, (name, setting) in enumerate(settings.items())
            }
            found = turns({name: writer.measure for name, writer in writers.items()}, context.rounds)
    except NoControlPlaneError:
        return Section(TITLE, "Not measured: there is no control plane; `make controlplane` builds one.", {})
    tables = (*(_table(found, operation) for operation in OPERATIONS), tabulate_memory(found))
    text = "\n\n".join((ABOUT.format(requests=requests), *tables, NOTE))
    return Section(TITLE, text, {"rounds": found, "goals": compare_with_goals(found, settings)})


def list_settings(counts: tuple[int, ...]) -> dict[str, Setting]:
    settings = {NOTHING: Setting("nothing"), CONSTANT: Setting("constant")}
    for count in counts:
        settings[_policies(count)] = Setting("policies", count)
        settings[f"policies, {count:,} overriders in as many namespaces"] = Setting("policies", count, spread=True)
    return settings


def _policies(count: int) -> str:
    return f"policies, {count:,} overriders in one namespace"


def _table(found: list[Round], operation: str) -> str:
    """Return the table of an operation, whose name is the title of the first column."""
    header = [OPERATIONS[operation], "p50 ms", "p99 ms", "µs CPU / request", "p50: it : nothing", "CPU: it : nothing", "p50: it : constant"]  # fmt: skip
    p50, cpu = f"{operation}_p50_ms", f"{operation}_cpu_us"
    rows = [
        [
            name, f"{figure(found, name, p50).median:.2f}", f"{figure(found, name, f'{operation}_p99_ms').median:.2f}",
            f"{figure(found, name, cpu).median:,.0f}", ratio(found, p50, name, NOTHING).text(),
            ratio(found, cpu, name, NOTHING).text(), ratio(found, p50, name, CONSTANT).text(),
        ]
        for name in found[0]
    ]  # fmt: skip
    return table(header, rows)


def tabulate_memory(found: list[Round]) -> str:
    """Return the table of the memory of kube-apiserver, and its difference to the one without policies."""
    names = list(found[0])
    memory = {name: statistics.median(one[name]["memory_mib"] for one in found) for name in names}
    rows = [[name, f"{memory[name]:,.0f}", f"{memory[name] - memory[NOTHING]:,.0f}"] for name in names]
    return table(["kube-apiserver", "memory, MiB", "more than with nothing, MiB"], rows)


def compare_with_goals(found: list[Round], settings: dict[str, Setting]) -> list[dict[str, object]]:
    """Return the goals for 100 overriders, if these were measured."""
    names = [name for name, setting in settings.items() if setting.way == "policies" and setting.overriders == 100]
    return [
        at_most(f"{name}: p50 of {title} relative to {CONSTANT}", GOAL, ratio(found, f"{operation}_p50_ms", name, CONSTANT))
        for name in names
        for operation, title in OPERATIONS.items()
    ]  # fmt: skip
