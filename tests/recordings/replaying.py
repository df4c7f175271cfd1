"""Servers that record, and replays of their recordings with other objects."""

import io
import json
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import Any

from fleethook.app import Fleethook, create_app
from fleethook.recordings.recorder import encode_line
from fleethook.recordings.recording_format import RecordEntry, read_entries
from fleethook.recordings.redaction import make_redactor
from fleethook.recordings.replay.review_replay import Replayed, replay_reviews
from fleethook.server.reviews.records_and_traces import AnsweredReview
from fleethook.settings import Settings
from tests.asgi_client import call
from tests.recordings.recordings import header
from tests.server.kept_reviews import KeptReviews

LOOPBACK: dict[str, Any] = {"dispatch_open": "loopback"}


class Recording:
    """A server that records in memory."""

    def __init__(self, app: Fleethook, reviews: list[AnsweredReview]) -> None:
        self.app = app
        self.reviews = reviews

    async def ask(self, path: str, review: Any, **headers: str) -> Any:
        body = review if isinstance(review, bytes) else json.dumps(review).encode()
        given = {name.replace("_", "-"): text for name, text in headers.items()}
        return await call(self.app, path, body, headers={"content-type": "application/json", **given})

    def text(self, *redact: str) -> bytes:
        """Return the file of the recording."""
        redactor = make_redactor(list(redact))
        return b"".join([header(), b"\n", *(encode_line(one, redactor) for one in self.reviews)])

    def entries(self, *redact: str) -> list[RecordEntry]:
        found = list(read_entries(io.BytesIO(self.text(*redact)), "file"))
        return [one for one in found if isinstance(one, RecordEntry)]


@asynccontextmanager
async def recording(*documents: dict[str, Any], **settings: Any) -> AsyncIterator[Recording]:
    reviews = KeptReviews()
    app = create_app(Settings(**LOOPBACK, **settings), log=None, record=reviews)
    for document in documents:
        app.store.put(document)
    async with app.router.lifespan_context(app):
        yield Recording(app, reviews)


async def replay(
    entries: Sequence[RecordEntry], documents: Iterable[dict[str, Any]], **settings: Any
) -> list[Replayed]:
    """Replay records with these objects."""
    app = Fleethook(Settings(**LOOPBACK, **settings), log=None, is_replay=True)
    for document in documents:
        app.store.put(document)
    found: list[Replayed] = []
    try:
        await replay_reviews(entries, app.find_endpoint, found.append)
    finally:
        await app.close()
    return found


def kinds(found: Iterable[Replayed]) -> list[tuple[str, ...]]:
    """Return the kinds of change of each review, nothing for the same outcome."""
    return [() if one.change is None else one.change.kinds for one in found]
