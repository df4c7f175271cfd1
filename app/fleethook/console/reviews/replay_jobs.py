"""Asks the reviews of a search again, some at each request of the page that shows the progress.

A job works only while somebody asks for its page. So a job that nobody watches any more stops without a clock.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from fleethook.console.reviews.batch import ChangedReview, Example, describe_example
from fleethook.console.reviews.review_index import ReviewIndex
from fleethook.console.reviews.review_replay import ReviewReplay
from fleethook.console.reviews.search import Query
from fleethook.console.reviews.summary import ReviewSummary
from fleethook.model.gvk import GroupKind
from fleethook.recordings.read.reader import Entry
from fleethook.recordings.replay.replay import Replayed, batch
from fleethook.recordings.replay.report import GroupName, Report
from fleethook.work.worker import Worker

MAX_JOBS: Final = 8
"""Jobs of one console; each user has one. The job that was asked for least recently is dropped first."""
MAX_CHANGED: Final = 20_000
"""Changed reviews of a job that have a link, 5 MB; further ones are counted."""
PORTIONS_IN_A_REQUEST: Final = 8
_REVIEWS_IN_A_PORTION: Final = 64
_BYTES_IN_A_PORTION: Final = 8 << 20


class Start(NamedTuple):
    """The reviews of a job.

    Attributes:
        query: The search.
        reviews: The reviews that it found when the job started.
        version: The version of the objects then, as `ReviewReplay.version`.
        kinds: The kinds of the objects under review, which a user must be allowed to get to see the result.
    """

    query: Query
    reviews: Sequence[ReviewSummary]
    version: int
    kinds: frozenset[GroupKind]


class ReplayJob:
    """One search whose reviews are asked again, in the order of their files and lines.

    Attributes:
        start: The reviews.
        report: The result so far, which equals that of ``fleethook replay`` for the same reviews.
        examples: The example of each group of changes.
        changed: The changed reviews with a link.
        is_stopped: Whether the user stopped the job.
        is_done: Whether all reviews were asked, except those that are not in the files any more.
    """

    def __init__(self, start: Start, entries: Iterator[Entry]) -> None:
        """Prepare.

        Args:
            start: The reviews.
            entries: Reads their records; a thread continues it.
        """
        self.start: Final = start
        self.report: Final = Report()
        self.examples: Final[dict[GroupName, Example]] = {}
        self.changed: Final[list[ChangedReview]] = []
        self.is_stopped = False
        self.is_done = False
        self._portions: Iterator[list[Entry]] = batch(entries, count=_REVIEWS_IN_A_PORTION, size=_BYTES_IN_A_PORTION)
        self._turn: Final = asyncio.Lock()

    @property
    def is_running(self) -> bool:
        """Whether a further request asks further reviews."""
        return not (self.is_done or self.is_stopped)

    @property
    def gone(self) -> int:
        """The number of reviews that are not in the files any more."""
        return len(self.start.reviews) - self.report.reviews if self.is_done else 0

    async def advance(self, replay: ReviewReplay, worker: Worker) -> None:
        """Ask the next reviews: `PORTIONS_IN_A_REQUEST` portions."""
        async with self._turn:
            for _ in range(PORTIONS_IN_A_REQUEST):
                if not self.is_running:
                    return
                portion: list[Entry] = await worker.run("", next, self._portions, [])
                for one in await replay.replay(portion):
                    self._add(one)
                if not portion or self.report.reviews == len(self.start.reviews):
                    self.is_done = True
                    self._close()

    def stop(self) -> None:
        """Ask no further reviews."""
        self.is_stopped = not self.is_done
        self._close()

    def _close(self) -> None:
        """Drop the iterator, which closes its file as soon as no thread continues it."""
        self._portions = iter(())

    def _add(self, one: Replayed) -> None:
        known = len(self.report.groups)
        self.report.add(one)
        if (change := one.change) is None:
            return
        if len(self.report.groups) > known:
            self.examples[next(reversed(self.report.groups))] = describe_example(one.entry, change)
        if len(self.changed) < MAX_CHANGED:
            self.changed.append(ChangedReview(change.file, change.line, str(change.subject), change.kinds))


class ReplayJobs:
    """The jobs of a console, one for each user."""

    def __init__(self, index: ReviewIndex) -> None:
        """Prepare; ``index`` reads the records."""
        self._index: Final = index
        self._jobs: Final[OrderedDict[str, ReplayJob]] = OrderedDict()

    def find(self, owner: str, query: Query) -> ReplayJob | None:
        """Return the job of a user for a search; the page of the search does not matter."""
        job = self._jobs.get(owner)
        if job is None or job.start.query != query:
            return None
        self._jobs.move_to_end(owner)
        return job

    def begin(self, owner: str, start: Start) -> ReplayJob:
        """Return a new job, which takes the place of the user's former one."""
        self._jobs.pop(owner, None)
        if len(self._jobs) >= MAX_JOBS:
            self._jobs.popitem(last=False)
        job = self._jobs[owner] = ReplayJob(start, self._index.each(start.reviews))
        return job
