"""The queue against a model, for any order of events: no change is missed, and no back-off is shortened."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from fleethook.work.queue import Again, WorkQueue
from tests.hypothesis_profiles import examples
from tests.work.clock import FakeClock

KEYS = st.sampled_from("abc")
FIRST, LONGEST = 1.0, 64.0
WORKERS = 5


class Queue(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.clock = FakeClock(0.0)
        self.queue: WorkQueue[str] = WorkQueue(
            backoff=(FIRST, LONGEST), scheduler=self.clock, jitter=lambda: 1.0, workers=WORKERS
        )
        self.working: set[str] = set()
        # Keys that were added and not taken since.
        self.owed: set[str] = set()
        self.retried: set[str] = set()
        # Times at which a key is due, by cause.
        self.later: dict[str, float] = {}
        self.backoff: dict[str, float] = {}
        self.failures: dict[str, int] = {}

    @rule(key=KEYS)
    def add(self, key: str) -> None:
        self.queue.add(key)
        self.owed.add(key)

    @rule(key=KEYS)
    def add_retry(self, key: str) -> None:
        self.queue.add_retry(key)
        (self.owed if key in self.working else self.retried).add(key)

    @rule(key=KEYS, seconds=st.integers(0, 8))
    def add_after(self, key: str, seconds: int) -> None:
        self.queue.add_after(key, seconds)
        self.later[key] = min(self.later.get(key, float("inf")), self.clock.now + seconds)

    @rule(seconds=st.sampled_from([0.5, 1, 3, 10]))
    def advance(self, seconds: float) -> None:
        self.clock.advance(seconds)
        for key, when in list(self.later.items()):
            if when <= self.clock.now:
                del self.later[key]
                self.owed.add(key)

    @rule()
    def take(self) -> None:
        due = self.due()
        key = self.queue.take()
        if key is None:
            # One key in progress leaves room for another fresh one and another retry.
            assert len(self.working) > 1 or not (self.owed | due) - self.working, "a change was missed"
            return
        assert key not in self.working, "two workers have the same key"
        assert key in self.owed | due, "a key was given to a worker before its time"
        self.working.add(key)
        self.owed.discard(key)
        self.retried.discard(key)
        self.backoff.pop(key, None)

    def due(self) -> set[str]:
        """Return the keys that wait as retries."""
        return self.retried | {key for key, when in self.backoff.items() if when <= self.clock.now}

    @precondition(lambda self: self.working)
    @rule(data=st.data(), outcome=st.sampled_from([True, False, Again(4, retry=True), Again(4, retry=False)]))
    def finish(self, data: st.DataObject, outcome: bool | Again) -> None:
        key = data.draw(st.sampled_from(sorted(self.working)))
        self.working.discard(key)
        self.queue.finish(key, outcome)
        failures = self.failures.pop(key, 0)
        if outcome is False:
            self.failures[key] = failures + 1
            self.backoff[key] = self.clock.now + min(LONGEST, FIRST * 2**failures)
        elif isinstance(outcome, Again) and outcome.retry:
            self.backoff[key] = self.clock.now + outcome.seconds
        elif isinstance(outcome, Again):
            self.later[key] = min(self.later.get(key, float("inf")), self.clock.now + outcome.seconds)

    @invariant()
    def waits_only_for_a_reason(self) -> None:
        due = self.due()
        assert len(self.queue) == len((self.owed | due) - self.working)


TestQueue = Queue.TestCase
TestQueue.settings = settings(max_examples=examples(200), stateful_step_count=40)
