"""The report of a replay: counts, groups of changes with one example each, and the problems of the input.

Its size does not grow with the recordings, because recordings have any size.
"""

from collections import Counter
from collections.abc import Iterable
from typing import Final, NamedTuple

from fleethook.recordings.reader import Problem
from fleethook.recordings.replay.decision_changes import UNDECIDABLE, Change
from fleethook.recordings.replay.recorded_calls import CallName
from fleethook.recordings.replay.replay import Replayed

MAX_GROUPS: Final = 1_000
"""Groups of changes with an example; further changes count in one group for each kind and route."""
MAX_PROBLEMS: Final = 20
"""Problems that are shown; all of them are counted."""
_MAX_NAMES: Final = 1_000
_OTHERS: Final = "others"


class GroupName(NamedTuple):
    """The common facts of changes that probably have one cause."""

    kinds: tuple[str, ...]
    route: str
    cluster: str
    about: str


class Group:
    """Changes of one cause.

    Attributes:
        name: Their common facts.
        example: The first of them.
        count: Their number.
        expected: The number of those that were expected.
    """

    def __init__(self, name: GroupName, example: Change) -> None:
        self.name: Final = name
        self.example = example
        self.count = 0
        self.expected = 0

    @property
    def unexpected(self) -> int:
        """The number of changes that were not expected."""
        return self.count - self.expected


class Report:
    """Collects the results of a replay.

    Attributes:
        reviews: The number of records that were read and selected.
        same: The number of reviews with the same outcome.
        changed: The number of reviews with another outcome.
        undecidable: The number of reviews whose outcome depends on an answer that was not recorded.
        expected: The number of those two that were expected.
        skipped: The number of reviews that were not compared, by reason.
        groups: The changes.
        unasked: The number of reviews by webhook that is not asked any more.
        problems: The first problems of the input.
        problem_count: The number of all problems.
        routes: The number of reviews by route.
        is_complete: Whether all input was replayed.
    """

    def __init__(self, expected: Iterable[str] = ()) -> None:
        """Prepare; ``expected`` are keys of changes."""
        self.reviews = 0
        self.same = 0
        self.changed = 0
        self.undecidable = 0
        self.expected = 0
        self.skipped: Final[Counter[str]] = Counter()
        self.groups: Final[dict[GroupName, Group]] = {}
        self.unasked: Final[Counter[CallName]] = Counter()
        self.problems: Final[list[Problem]] = []
        self.problem_count = 0
        self.routes: Final[Counter[str]] = Counter()
        self.is_complete = False
        self._expected: Final = dict.fromkeys(expected)
        self._absent: Final = dict(self._expected)

    def add(self, one: Replayed) -> bool:
        """Count the result of a review; return whether it is a change that was expected."""
        self.reviews += 1
        record = one.entry.record
        if one.unknown_route:
            self.add_problem(Problem(one.entry.file, one.entry.line, f"this fleethook has no route {record.route}"))
            self.skipped["this fleethook lacks the route"] += 1
            return False
        if one.skipped:
            self.skipped[one.skipped] += 1
            return False
        self.routes[record.route] += 1
        for name in one.unasked:
            if name in self.unasked or len(self.unasked) < _MAX_NAMES:
                self.unasked[name] += 1
        if one.change is None:
            self.same += 1
            return False
        return self._add_change(one.change)

    def add_problem(self, problem: Problem) -> None:
        """Count a problem of the input."""
        self.problem_count += 1
        if len(self.problems) < MAX_PROBLEMS:
            self.problems.append(problem)

    def list_absent(self) -> list[str]:
        """Return the keys of expected changes that did not happen."""
        return list(self._absent)

    @property
    def unexpected(self) -> int:
        """The number of changes that were not expected."""
        return self.changed + self.undecidable - self.expected

    @property
    def passes(self) -> bool:
        """Whether exactly the expected changes happened; those that were not reached are none that did not happen."""
        return not self.unexpected and not (self.is_complete and self._absent)

    def _add_change(self, change: Change) -> bool:
        is_undecidable = change.kinds == (UNDECIDABLE,)
        self.undecidable += is_undecidable
        self.changed += not is_undecidable
        group = self._find_group(change)
        group.count += 1
        if change.key not in self._expected:
            if group.expected == group.count - 1:
                group.example = change  # the first one that the reader does not know
            return False
        self._absent.pop(change.key, None)
        self.expected += 1
        group.expected += 1
        return True

    def _find_group(self, change: Change) -> Group:
        name = GroupName(change.kinds, change.route, change.cluster, change.about)
        if name not in self.groups and len(self.groups) >= MAX_GROUPS:
            name = GroupName(change.kinds, change.route, _OTHERS, _OTHERS)
        return self.groups.setdefault(name, Group(name, change))
