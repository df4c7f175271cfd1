"""The longest time for which one hostile request holds the event loop, by route."""

import asyncio
import contextlib
import sys
from collections.abc import Iterable
from itertools import groupby
from typing import Any

import uvloop

from benchmarks.engines.measure import pin_to_core
from benchmarks.engines.worst_app import EXTENSIONS, application
from benchmarks.engines.worst_bases import bases
from benchmarks.engines.worst_documents import GROWTHS, Base
from benchmarks.engines.worst_search import SEED, Extent, Held, Search
from benchmarks.harness.goals import at_most
from benchmarks.harness.processes import serving
from benchmarks.harness.section import Context, Section
from benchmarks.harness.tables import table
from fleethook.server.reviews.review_endpoint import MAX_ON_LOOP
from fleethook.settings import Settings

GOAL_MS = 50
BODY_LIMIT: int = Settings.model_fields["body_limit"].default
MAX_ROUNDS = 3
# Checking routes answer less on the loop than rendering ones (`AdmissionEndpoint`), so both edges are searched.
SMALL_REVIEWS = (MAX_ON_LOOP // 4, MAX_ON_LOOP)
# These counts bound the run to 135 reviews of each route, three of them of 8 MiB.
WHOLE = Extent(
    documents=40, small=SMALL_REVIEWS, medium=1 << 16, finalists=2, kept=1, large=BODY_LIMIT, rounds=MAX_ROUNDS
)
SMALL = Extent(documents=6, small=SMALL_REVIEWS, medium=1 << 15, finalists=1, kept=1, large=1 << 20, rounds=1)

ABOUT = """One request at a time, in process. A hostile document is an ordinary review in which a long value replaces one value, at any path. There are
{growths} kinds of long values (numbers and texts, deep nesting, wide objects, equal keys, copies of a list's element). For each route, {documents:,} documents of
{small} KiB are tried, the largest reviews that checking and rendering routes answer on the event loop, and {documents:,} of {medium} KiB, chosen with seed {seed}. The worst of
the latter are measured again with {large:,} KiB, the largest accepted body. *Held* is the longest time between two turns of the event loop,
in CPU time of its thread, without the time for decoding the body. Ranges are over {rounds} measurements of the same document. Webhooks
answer from another process."""


def run(context: Context) -> Section:
    """Search for the worst document of each route."""
    extent = SMALL if context.small else WHOLE._replace(rounds=min(context.rounds, MAX_ROUNDS))
    command = (sys.executable, "-m", "benchmarks.engines.dispatch_hooks", context.scratch)
    with serving(command, cores=[context.load_core]) as hooks, pin_to_core(context.server_core):
        runner = asyncio.Runner(loop_factory=uvloop.new_event_loop)
        with contextlib.closing(runner):
            found = runner.run(_search(context, hooks.port, extent))
    about = ABOUT.format(
        growths=len(GROWTHS), documents=extent.documents, seed=SEED,
        small=" and ".join(str(size >> 10) for size in extent.small), medium=extent.medium >> 10, large=extent.large >> 10, rounds=extent.rounds,
    )  # fmt: skip
    worst = max(found, key=lambda held: held.ms.median)
    goal = at_most("event loop, held by one request beyond decoding it", GOAL_MS, worst.ms, unit="ms", places=0)
    figures = {"routes": [_figures(held) for held in found], "goals": [goal]}
    return Section("The worst request of each route", f"{about}\n\n{_table(found)}", figures)


async def _search(context: Context, port: int, extent: Extent) -> list[Held]:
    found = list[Held]()
    async with application(context.scratch, port) as app:
        search = Search(app, extent, extensions=EXTENSIONS)
        for route, of_route in groupby(sorted(bases(), key=_route), key=_route):
            worst = await search.worst(list(of_route))
            found += worst[:1]
            print(f"{route}: {worst[0].ms.median:.0f} ms", file=sys.stderr, flush=True)
    return sorted(found, key=lambda held: held.ms.median, reverse=True)


def _route(base: Base) -> str:
    return base.route


def _table(found: Iterable[Held]) -> str:
    rows = [
        (
            f"`{held.hostile.base.route}`", held.hostile.base.name, f"`{held.hostile.pointer}`", held.hostile.growth,
            f"{held.size:,}", f"{held.status}", f"**{held.ms.text(0)}**", held.decode_ms.text(0), f"{held.answer:,}",
        )
        for held in found
    ]  # fmt: skip
    head = ("route", "review", "long value", "filled with", "bytes", "HTTP", "held ms", "decoding ms", "answer bytes")
    return table(head, rows, words=4)


def _figures(held: Held) -> dict[str, Any]:
    hostile = held.hostile
    return {
        "route": hostile.base.route, "review": hostile.base.name, "path": hostile.pointer, "growth": hostile.growth,
        "bytes": held.size, "status": held.status, "held_ms": held.ms._asdict(), "decode_ms": held.decode_ms._asdict(),
        "answer_bytes": held.answer,
    }  # fmt: skip
