"""The longest time that one hostile request holds the event loop, per route: in process, in CPU time of its thread.

Other load of the machine does not count then, and neither does work in threads and child processes.
"""

import asyncio
import contextlib
import time
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any, NamedTuple

import msgspec

from benchmarks.engines.worst_documents import Around, Base, Hostile, around, choose
from benchmarks.harness.rounds import Spread, spread
from fleethook.cluster.registration import paths
from fleethook.engines.interpret.review.interpret_endpoint import decode_review as decode_question
from fleethook.server.reviews.review_codec import BadReviewError, decode_review

SEED = 19
INTERPRETING = (paths.INTERPRET, paths.EXPLORE)
_decode = msgspec.json.Decoder().decode


class Extent(NamedTuple):
    """The size of the search for a route."""

    documents: int
    """Of each search: one for each size that is answered on the event loop, and one among larger reviews."""
    small: tuple[int, ...]
    """Bytes of a review in the first searches; their worst are measured in these sizes."""
    medium: int
    """Bytes in the last search."""
    finalists: int
    """Number of documents that are measured again before the worst are kept."""
    kept: int
    """Number of documents of each search that reach the last measurement."""
    large: int
    """Bytes of a review in the measurement of the last search's worst."""
    rounds: int
    """Measurements of each of them."""


class Held(NamedTuple):
    """How long a document held the event loop, in ms."""

    hostile: Hostile
    size: int
    """Bytes of the body."""
    status: int
    """The HTTP status."""
    ms: Spread
    """The longest time between two turns of the loop, without the decoding of the body."""
    decode_ms: Spread
    answer: int
    """Bytes of the answer."""


class Answer(NamedTuple):
    """One answer, with its figures."""

    status: int
    size: int
    held_ms: float


async def ask(app: Any, route: str, text: bytes, extensions: Mapping[str, Any]) -> Answer:
    """Return the answer to a request, and the longest time that it held the event loop."""
    sent: list[Any] = []
    given = [{"type": "http.request", "body": text, "more_body": False}]

    async def receive() -> Any:
        return given.pop() if given else await asyncio.Event().wait()

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {
        "type": "http", "http_version": "1.1", "method": "POST", "path": route, "raw_path": route.encode(),
        "query_string": b"timeout=10s", "root_path": "", "scheme": "https", "server": ("localhost", 443),
        "client": ("127.0.0.1", 1), "headers": [(b"content-type", b"application/json")], "extensions": extensions,
    }  # fmt: skip
    asked = asyncio.create_task(app(scope, receive, send))
    longest, last = 0.0, time.thread_time()
    while not asked.done():
        await asyncio.sleep(0)
        last, before = time.thread_time(), last
        longest = max(longest, last - before)
    asked.result()
    return Answer(sent[0]["status"], sum(len(message.get("body", b"")) for message in sent), longest * 1000)


def decode_ms(text: bytes, *, interprets: bool) -> float:
    """Return the time of the application's decoders for a body and its objects, including their release.

    Args:
        text: The body.
        interprets: Whether it is sent to an interpreter.
    """
    began = time.thread_time()
    with contextlib.suppress(BadReviewError, msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        asked = (decode_question if interprets else decode_review)(text).request
        parts = () if asked is None else (getattr(asked, name) for name in asked.__struct_fields__)
        decoded = [_decode(part) for part in parts if isinstance(part, msgspec.Raw)]
        del asked, decoded
    return (time.thread_time() - began) * 1000


class Search:
    """Searches for the worst documents of one application."""

    def __init__(self, app: Any, extent: Extent, *, extensions: Mapping[str, Any]) -> None:
        """Prepare.

        Args:
            app: The application.
            extent: How much is measured.
            extensions: Of the ASGI scope; they name the caller.
        """
        self._app, self._extent, self._extensions = app, extent, extensions

    async def worst(self, bases: Sequence[Base]) -> list[Held]:
        """Return the worst documents of a route, the worst one first."""
        extent = self._extent
        found = list[Held]()
        sizes = [*((size, size) for size in extent.small), (extent.medium, extent.large)]
        for searched, measured in sizes:
            candidates = await self._searched(bases, searched)
            candidates = await self._again(_distinct(candidates, extent.finalists), searched)
            found += await self._again(_distinct(candidates, extent.kept), measured, rounds=extent.rounds)
        return _sort_worst_first(found)

    async def _searched(self, bases: Sequence[Base], size: int) -> list[Held]:
        found = list[Held]()
        chosen = choose(bases, self._extent.documents, seed=SEED + size)
        for (base, path), hostiles in groupby(chosen, key=lambda one: one[:2]):
            place = around(base, path)
            for one in hostiles:
                found += await self._measured(one, place, size)
        return found

    async def _again(self, found: Iterable[Held], size: int, *, rounds: int = 1) -> list[Held]:
        again = list[Held]()
        for hostile in (held.hostile for held in found):
            again += await self._measured(hostile, around(hostile.base, hostile.path), size, rounds=rounds)
        return again

    async def _measured(self, hostile: Hostile, place: Around, size: int, *, rounds: int = 1) -> list[Held]:
        """Return one figure, or none if the document does not grow like that."""
        text = place.body(hostile.growth, size)
        if text is None:
            return []
        answers, decodes = list[Answer](), list[float]()
        for _ in range(rounds):
            answers.append(await ask(self._app, hostile.base.route, text, self._extensions))
            decodes.append(decode_ms(text, interprets=hostile.base.route.startswith(INTERPRETING)))
        # A request that is refused before decoding takes 0 ms, not a negative time.
        beyond = [max(0.0, answer.held_ms - decode) for answer, decode in zip(answers, decodes, strict=True)]
        last = answers[-1]
        return [Held(hostile, len(text), last.status, spread(beyond), spread(decodes), last.size)]


def _sort_worst_first(found: Iterable[Held]) -> list[Held]:
    return sorted(found, key=lambda held: held.ms.median, reverse=True)


def _distinct(found: Iterable[Held], count: int) -> list[Held]:
    """Return the worst, of those with the same value at the same path only one."""
    kept: dict[tuple[str, str], Held] = {}
    for held in _sort_worst_first(found):
        kept.setdefault((held.hostile.pointer, held.hostile.growth), held)
    return list(kept.values())[:count]
