"""The start of an informer on a real apiserver beside client-go and kubernetes-asyncio, and recovery from faults."""

import asyncio
import sys
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.engines.deployments import NoControlPlaneError, fill, kubeconfig, plane
from benchmarks.engines.list_readers import READERS
from benchmarks.engines.measure import Measured, lines, text
from benchmarks.engines.watch_faults import Recovery, recoveries
from benchmarks.harness.processes import output
from benchmarks.harness.rounds import spread
from benchmarks.harness.section import Context, Section
from benchmarks.harness.tables import table
from tests.e2e.cluster import ControlPlane

OBJECTS = 20_000
ROUNDS = 3
"""At most: a round takes some 30 s, and the readers differ by factors."""
FAULTS = 3
JSON, PROTOBUF = "application/json", "application/vnd.kubernetes.protobuf"
PEERS = {
    "client-go, typed, protobuf": ("typed", PROTOBUF),
    "client-go, typed, JSON": ("typed", JSON),
    "client-go, dynamic": ("dynamic", ""),
    "client-go, metadata only": ("metadata", ""),
}
MEMBERS = {"seconds": "time to sync, s", "cpu": "CPU of the reader, s", "bytes": "memory per object, KB"}
TITLE = "Informer"

ABOUT = """{count:,} Deployments on a real apiserver and etcd. Each reader is its own process on the load generator's core; the apiserver uses
both cores. Memory is resident memory after garbage collection. *Whole*, *typed* and *dynamic* keep all of each object, decoded. Ours
drops managedFields, client-go keeps them. *As rendering keeps them* receives complete objects and decodes their metadata; *metadata
only* requests only metadata from the apiserver. kubernetes-asyncio has no informer: it lists pages of 500 as typed models."""
FAULTED = """A store follows the apiserver through a proxy, with writes during each fault. *Time to recover* is the time from the end of the fault until
the store has a write made at that moment:

{table}"""


class _Reader(NamedTuple):
    title: str
    command: list[Any]


def run(context: Context) -> Section:
    """Fill an apiserver, let the readers take turns, then inject faults."""
    try:
        with plane(context.scratch / "plane") as running:
            return _measure(context, running)
    except NoControlPlaneError:
        return Section(TITLE, "Not measured: there is no control plane; `make controlplane` builds one.", {})


def _measure(context: Context, running: ControlPlane) -> Section:
    config = kubeconfig(running, running.port)
    asyncio.run(fill(config, OBJECTS))
    found: dict[str, Measured] = {}
    for _ in range(min(context.rounds, ROUNDS)):
        for reader in _readers(context, config):
            (line,) = lines(output(reader.command, cores=[context.load_core]))
            if line["count"] != OBJECTS:
                raise RuntimeError(f"{reader.title} has read {line['count']} objects")
            for member in MEMBERS:
                found.setdefault(reader.title, Measured()).add(member, line[member])
    faults = asyncio.run(recoveries(running, FAULTS))
    figures = {
        "informers": {title: measured.figures() for title, measured in found.items()},
        "faults": {one.title: one._asdict() for one in faults},
    }
    parts = (ABOUT.format(count=OBJECTS), _table(found), FAULTED.format(table=_faults(faults)))
    return Section(TITLE, "\n\n".join(parts), figures)


def _readers(context: Context, config: Path) -> list[_Reader]:
    module = [sys.executable, "-m", "benchmarks.engines.list_readers"]
    ours = [_Reader(title, [*module, mode, config]) for mode, title in READERS.items()]
    informer = [context.binaries / "informer", "--kubeconfig", config]
    theirs = [
        _Reader(title, [*informer, "--kind", kind, *(("--content-type", accept) if accept else ())])
        for title, (kind, accept) in PEERS.items()
    ]
    return ours + theirs


def _table(found: dict[str, Measured]) -> str:
    whole, narrow = READERS["whole"], READERS["narrow"]
    rows = []
    for title, measured in found.items():
        row = [title]
        for member in MEMBERS:
            scale = 1e-3 if member == "bytes" else 1.0
            row.append(text(spread(value * scale for value in measured[member])))
        base = found[narrow if title in (narrow, "client-go, metadata only") else whole]
        of = [spread(a / b for a, b in zip(measured[member], base[member], strict=True)) for member in MEMBERS]
        rows.append([*row, " / ".join(f"{one.median:.2f}" for one in of)])
    return table(("", *MEMBERS.values(), "time / CPU / memory of ours (whole; metadata: narrow)"), rows)


def _faults(found: list[Recovery]) -> str:
    rows = [(one.title, len(one.seconds), one.lists, f"{text(spread(one.seconds))} s", one.wrong) for one in found]
    return table(("fault", "times", "lists read", "time to recover", "lost or wrong objects"), rows)
