"""The rate of replaying recordings: reviews in a second of one core."""

import asyncio
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks import varied
from benchmarks.harness.goals import at_least
from benchmarks.harness.rounds import Spread, spread
from benchmarks.harness.section import Context, Section
from benchmarks.harness.tables import table
from benchmarks.reviews import review
from fleethook.app import Fleethook
from fleethook.cli.replay.replay import replay_all
from fleethook.cli.replay.replay_input import list_recordings, read_recordings
from fleethook.recordings.record.files import RecordFiles
from fleethook.recordings.record.recorder import make_encoder
from fleethook.recordings.replay.replay import OFFLINE
from fleethook.recordings.replay.report import Report
from fleethook.server.engine_server import Replay
from fleethook.server.protocol.sending import Reply
from fleethook.server.reviews.recording import AnsweredReview
from fleethook.settings import Settings
from fleethook.work.garbage import settle_garbage_collector

MEASURED = (
    "app/fleethook/server",
    "app/fleethook/engines/overrider",
    "app/fleethook/recordings",
    "app/fleethook/model",
    "app/fleethook/cluster/store.py",
)


PATH = "/mutate-apps-v1-deployment"
OPERATIONS = ("UPDATE", "CREATE")
WANTED = 10_000
COUNT = 20_000
SMALL_COUNT = 2_000
RATES = ("replayed", "read", "decided")
_BLOCK = 100

ABOUT = f"""{COUNT:,} reviews of Deployments, answered and recorded by our endpoints, and replayed with the same objects: the files are read and decompressed,
each review is rendered again, and the answers are compared. The figures are reviews in a second of CPU time of the one process, so other processes change
them little. Reading alone is the part without rendering; deciding alone are the endpoints without recordings. 100 subjects in turn are the worst order for the cache of filled plans, which has 64."""


def run(context: Context) -> Section:
    count = SMALL_COUNT if context.small else COUNT
    found: dict[str, dict[str, Spread]] = {}
    for name, bodies in list_loads():
        directory = context.scratch / name.replace(" ", "-").replace(",", "")
        size = asyncio.run(record(directory, bodies, count))
        measured = [measure(directory, bodies, count) for _ in range(context.rounds)]
        found[name] = {key: spread(one[key] for one in measured) for key in RATES} | {"bytes": spread([size / count])}
    goals = [
        at_least(f"{name}: replayed", WANTED, one["replayed"], unit="reviews/s", places=0)
        for name, one in found.items()
    ]
    header = ["reviews", "replayed/s", "read alone/s", "decided alone/s", "bytes of a record"]
    rows = [[name, *(one[key].text(0) for key in (*RATES, "bytes"))] for name, one in found.items()]
    return Section("Replay", f"{ABOUT}\n\n{table(header, rows)}", {"loads": found, "goals": goals})


def list_loads() -> Iterator[tuple[str, Sequence[bytes]]]:
    """Yield names and reviews."""
    for operation in OPERATIONS:
        yield f"{operation}, one Deployment", [review(operation)]
        yield f"{operation}, 100 subjects in turn", varied.reviews(operation)


def make_app() -> Fleethook:
    """Return the app of a replay, with the objects of the reviews."""
    app = Fleethook(Settings(**OFFLINE), log=None, replay=Replay.RECORDED)
    for document in varied.stored():
        app.store.put(document)
    return app


async def record(directory: Path, bodies: Sequence[bytes], count: int) -> int:
    """Record the answers to so many reviews; return the bytes of all lines."""
    endpoint = make_app().find_endpoint(PATH)
    assert endpoint is not None
    encode, size = make_encoder([]).encode, 0
    files = RecordFiles(directory, max_bytes=1 << 30).start()
    for start in range(0, count, _BLOCK):
        answered: list[AnsweredReview] = []
        for number in range(start, start + _BLOCK):
            body = bodies[number % len(bodies)]
            reply = endpoint.answer({"path": PATH, "query_string": b"", "headers": []}, body)
            reply = reply if isinstance(reply, Reply) else await reply
            answered.append(
                AnsweredReview(1.0, PATH, PATH.encode(), b"", "", "", 0.001, 200, {}, "u", body, reply.body, ())
            )
        text = encode(answered).text
        size += len(text)
        files.write(text)
    files.close()
    return size


def measure(directory: Path, bodies: Sequence[bytes], count: int) -> dict[str, float]:
    """Return reviews in a second of CPU time: replayed, only read, and only decided."""
    files, report = list_recordings([directory]), Report()
    started = time.process_time()
    read = sum(1 for _ in read_recordings(files, report.add_problem))
    reading = time.process_time() - started
    app = make_app()
    settle_garbage_collector()
    started = time.process_time()
    replay_all(app, read_recordings(files, report.add_problem), lambda one: bool(report.add(one)), call=False)
    replaying = time.process_time() - started
    deciding = asyncio.run(decide(bodies, count))
    assert (read, report.same, report.problem_count) == (count, count, 0), vars(report)
    return {"replayed": count / replaying, "read": count / reading, "decided": count / deciding}


async def decide(bodies: Sequence[bytes], count: int) -> float:
    """Return the CPU time of the answers to so many reviews."""
    endpoint = make_app().find_endpoint(PATH)
    assert endpoint is not None
    started = time.process_time()
    for number in range(count):
        reply = endpoint.answer({"path": PATH, "query_string": b"", "headers": []}, bodies[number % len(bodies)])
        if not isinstance(reply, Reply):
            await reply
    return time.process_time() - started
