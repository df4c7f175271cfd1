"""Keeps the facts by which recorded reviews are found current: a thread reads the files that have changed."""

import asyncio
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from fleethook.model.gvk import GroupKind
from fleethook.recordings.recording_format import (
    BodyError,
    RecordEntry,
    RecordProblem,
    find_recordings,
    read_entries,
    unwrap_body,
)
from fleethook.recordings.replay.decision_changes import Outcome, read_outcome
from fleethook.work.threads_and_gc import Worker

VERDICTS: Final = ("patched", "allowed", "denied", "answered", "failed", "refused")
"""The verdicts of reviews. ``patched`` is allowed with changes, ``refused`` an HTTP error in place of a verdict."""


class _Kind(msgspec.Struct, frozen=True):
    group: str = ""
    kind: str = ""


class _Metadata(msgspec.Struct, frozen=True, rename="camel"):
    name: str = ""
    generate_name: str = ""
    namespace: str = ""


class _Object(msgspec.Struct, frozen=True):
    metadata: _Metadata = _Metadata()


class _Request(msgspec.Struct, frozen=True, rename="camel"):
    uid: str = ""
    operation: str = ""
    namespace: str = ""
    name: str = ""
    kind: _Kind = _Kind()
    object: _Object | None = None
    old_object: _Object | None = None


class _Review(msgspec.Struct, frozen=True):
    request: _Request = _Request()


_decode: Final = msgspec.json.Decoder(_Review).decode


class ReviewSummary(msgspec.Struct, frozen=True, gc=False):
    """The facts about one recorded review.

    Attributes:
        file: The index of its file in the list of files.
        line: Its line.
        time: The RFC 3339 time of its answer, in UTC.
        route: The template of its route.
        cluster: The logical cluster, ``""`` for a plain cluster.
        group: The API group of the object under review.
        kind: Its kind.
        namespace: Its namespace.
        name: Its name, or the beginning of a name that is generated.
        operation: The operation.
        verdict: One of `VERDICTS`.
        seconds: From the review to its answer.
        uid: The uid of the review.
    """

    file: int
    line: int
    time: str
    route: str
    cluster: str
    group: str
    kind: str
    namespace: str
    name: str
    operation: str
    verdict: str
    seconds: float
    uid: str

    @property
    def group_kind(self) -> GroupKind:
        """The kind of the object under review."""
        return GroupKind(self.group, self.kind)


def summarize(entry: RecordEntry, file: int) -> ReviewSummary:
    """Return the facts about a record. Those that its review does not have are ``""``.

    Args:
        entry: The record.
        file: The index of its file.
    """
    record = entry.record
    request = _read_request(entry)
    document = request.object or request.old_object or _Object()
    metadata = document.metadata
    return ReviewSummary(
        file,
        entry.line,
        record.time,
        record.route,
        record.cluster,
        request.kind.group,
        request.kind.kind,
        request.namespace or metadata.namespace,
        request.name or metadata.name or metadata.generate_name,
        request.operation,
        classify(read_recorded_outcome(entry)),
        record.seconds,
        request.uid,
    )


def _read_request(entry: RecordEntry) -> _Request:
    try:
        return _decode(unwrap_body(entry.record.review)).request
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, BodyError):
        return _Request()


def classify(outcome: Outcome) -> str:
    """Return the verdict of an outcome, one of `VERDICTS`."""
    if outcome.verdict == "allowed" and outcome.patch:
        return "patched"
    return outcome.verdict or ("answered" if outcome.status == 200 else "refused")


def read_recorded_outcome(entry: RecordEntry) -> Outcome:
    """Return the outcome in a record; that of a damaged answer has its problem as message."""
    record = entry.record
    try:
        return read_outcome(record.status, unwrap_body(record.answer))
    except BodyError as error:
        return Outcome(record.status, "failed", message=(str(error),))


MAX_REVIEWS: Final = 200_000
"""Reviews whose facts are kept, those of the newest files: about 100 MB."""
MAX_PROBLEMS: Final = 20
"""Problems of one file that are kept."""
# A page does not wait longer for files that are being read, and shows the former facts.
_PATIENCE_SECONDS: Final = 0.2


class FileFacts(NamedTuple):
    """The facts about the reviews of one file, and the state of the file that they were read from.

    Attributes:
        name: The path of the file below the directory.
        size: Its bytes.
        changed: Its modification time in nanoseconds.
        reviews: Its reviews, in their order.
        problems: Its first problems.
        problem_count: The number of all of them.
    """

    name: str
    size: int
    changed: int
    reviews: Sequence[ReviewSummary]
    problems: Sequence[RecordProblem]
    problem_count: int


class Indexed(NamedTuple):
    """The facts about all recorded reviews that are known.

    Attributes:
        files: The names of the files; a summary has the place of its file in this list.
        reviews: The facts, in the order of the files.
        problems: The first problems of each file.
        problem_count: The number of all of them.
        is_reading: Whether files are being read, so that facts are missing.
        left_out: The number of older files whose reviews are not kept.
    """

    files: Sequence[str] = ()
    reviews: Sequence[ReviewSummary] = ()
    problems: Sequence[RecordProblem] = ()
    problem_count: int = 0
    is_reading: bool = False
    left_out: int = 0


class ReviewIndex:
    """The recorded reviews below a directory."""

    def __init__(self, directory: Path, *, patience: float = _PATIENCE_SECONDS) -> None:
        """Prepare; the first call of `find` reads the files, and waits for them as long as ``patience``."""
        self._directory: Final = directory
        self._patience: Final = patience
        # A thread of its own: reading a large recording must not delay the work of other pages.
        self._worker: Final = Worker()
        self._numbers: Final[dict[str, int]] = {}
        self._facts: dict[str, FileFacts] = {}
        self._indexed = Indexed()
        self._reading: asyncio.Task[None] | None = None

    async def find(self) -> Indexed:
        """Return the known facts. Changed files are read in the background, and short ones are waited for."""
        if self._reading is None or self._reading.done():
            self._reading = asyncio.create_task(self._read())
        await asyncio.wait([self._reading], timeout=self._patience)
        return self._indexed._replace(is_reading=not self._reading.done())

    async def load(self, reviews: Iterable[ReviewSummary]) -> list[RecordEntry]:
        """Return the records of reviews, in the order of their files and lines; those that are gone are left out."""
        return await self._worker.run("", list, self.each(reviews))

    def each(self, reviews: Iterable[ReviewSummary]) -> Iterator[RecordEntry]:
        """Iterate over the records of reviews as `load` does. A thread must continue the iterator: it reads files."""
        lines: dict[str, set[int]] = {}
        for review in reviews:
            lines.setdefault(self._indexed.files[review.file], set()).add(review.line)
        return _each_entry(self._directory, lines)

    def locate(self, file: str, line: int) -> ReviewSummary | None:
        """Return the review at a line of a file; None if there is none, or the file is not in the directory."""
        facts = self._facts.get(file)
        summaries = () if facts is None else facts.reviews
        return next((summary for summary in summaries if summary.line == line), None)

    async def _read(self) -> None:
        newest_first, known = await self._worker.run("", _list_states, self._directory), dict[str, FileFacts]()
        total = left_out = 0
        for name, size, changed in newest_first:
            if total >= MAX_REVIEWS:
                left_out += 1
                continue
            facts = self._facts.get(name)
            if facts is None or (facts.size, facts.changed) != (size, changed):
                number = self._numbers.setdefault(name, len(self._numbers))
                facts = await self._worker.run("", _read_facts, self._directory, name, size, changed, number)
                await self._publish({**self._facts, name: facts}, left_out=0)
            known[name] = facts
            total += len(facts.reviews)
        if known.keys() != self._facts.keys() or left_out != self._indexed.left_out:
            await self._publish(known, left_out=left_out)

    async def _publish(self, facts: Mapping[str, FileFacts], *, left_out: int) -> None:
        self._facts = dict(sorted(facts.items()))
        indexed = await self._worker.run("", _join_facts, list(self._numbers), list(self._facts.values()))
        self._indexed = indexed._replace(left_out=left_out)


def _join_facts(files: Sequence[str], facts: Sequence[FileFacts]) -> Indexed:
    return Indexed(
        files,
        [review for fact in facts for review in fact.reviews],
        [problem for fact in facts for problem in fact.problems],
        sum(fact.problem_count for fact in facts),
    )


def _list_states(directory: Path) -> list[tuple[str, int, int]]:
    """Return name, size and modification time of the recordings below a directory, newest first."""
    found = []
    for path in find_recordings(directory):
        try:
            facts = path.stat()
        except OSError:  # deleted meanwhile
            continue
        found.append((path.relative_to(directory).as_posix(), facts.st_size, facts.st_mtime_ns))
    return sorted(found, key=lambda one: (one[2], one[0]), reverse=True)


def _read_facts(directory: Path, name: str, size: int, changed: int, number: int) -> FileFacts:
    reviews: deque[ReviewSummary] = deque(maxlen=MAX_REVIEWS)
    problems: list[RecordProblem] = []
    count = 0
    try:
        with (directory / name).open("rb") as stream:
            for entry in read_entries(stream, name):
                if isinstance(entry, RecordEntry):
                    reviews.append(summarize(entry, number))
                else:
                    count += 1
                    if len(problems) < MAX_PROBLEMS:
                        problems.append(entry)
    except OSError as error:
        problems, count = [RecordProblem(name, 1, f"the file cannot be read: {error.strerror}")], 1
    return FileFacts(name, size, changed, reviews, problems, count)


def _each_entry(directory: Path, lines: Mapping[str, set[int]]) -> Iterator[RecordEntry]:
    for name, wanted in sorted(lines.items()):
        left = set(wanted)
        try:
            with (directory / name).open("rb") as stream:
                for entry in read_entries(stream, name):
                    if entry.line in left and isinstance(entry, RecordEntry):
                        left.discard(entry.line)
                        yield entry
                    if not left:
                        break
        except OSError:  # deleted meanwhile
            continue
