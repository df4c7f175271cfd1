"""When a breaker opens, and which breakers there are."""

from app.outbound.breaker import FAILURES, REST_SECONDS, Breaker, Breakers


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def failing(breaker: Breaker, times: int = FAILURES) -> Breaker:
    for _ in range(times):
        assert breaker.allow()
        breaker.record(ok=False)
    return breaker


def test_it_opens_after_failures_in_a_row_and_not_before() -> None:
    breaker = failing(Breaker(), FAILURES - 1)
    assert breaker.allow()
    breaker.record(ok=True)
    failing(breaker, FAILURES - 1)
    assert not breaker.open
    failing(breaker, 1)
    assert breaker.open
    assert not breaker.allow()


def test_after_a_rest_one_call_decides() -> None:
    clock = Clock()
    breaker = failing(Breaker(clock=clock))
    clock.now += REST_SECONDS
    assert [breaker.allow(), breaker.allow()] == [True, False]
    breaker.record(ok=False)
    assert not breaker.allow(), "it rests again"
    clock.now += REST_SECONDS
    assert breaker.allow()
    breaker.record(ok=True)
    assert not breaker.open


def test_a_call_that_tells_nothing_leaves_the_decision_to_the_next() -> None:
    clock = Clock()
    breaker = failing(Breaker(clock=clock))
    clock.now += REST_SECONDS
    assert breaker.allow()
    breaker.forget()
    assert breaker.open
    assert breaker.allow()


def test_what_was_used_longest_ago_is_forgotten() -> None:
    breakers = Breakers(limit=2)
    failing(breakers.of(b"a"))
    failing(breakers.of(b"b"))
    assert breakers.of(b"a").open
    breakers.of(b"c")
    assert len(breakers) == 2
    assert breakers.of(b"a").open
    assert not breakers.of(b"b").open
