"""Circuit breakers: their states, and their number."""

from fleethook.outbound.breaker import MAX_FAILURES, Breakers


def fail(breakers: Breakers, consumer: str, key: bytes = b"k", *, times: int = MAX_FAILURES) -> Breakers:
    for _ in range(times):
        probe = breakers.begin(consumer, key)
        breakers.end(consumer, key, answered=False, probe=probe)
    return breakers


def test_a_breaker_opens_after_consecutive_failures() -> None:
    breakers = fail(Breakers(), "a", times=MAX_FAILURES - 1)
    breakers.end("a", b"k", answered=True, probe=False)
    fail(breakers, "a", times=MAX_FAILURES - 1)
    assert not breakers.is_open("a", b"k")
    fail(breakers, "a", times=1)
    assert breakers.is_open("a", b"k")
    assert not breakers.is_open("b", b"k")
    assert not breakers.is_open("a", b"l")


def test_an_open_breaker_allows_one_probe_at_a_time() -> None:
    breakers = fail(Breakers(), "a")
    assert not breakers.refuses("a", b"k")
    assert breakers.begin("a", b"k")
    assert breakers.refuses("a", b"k")
    assert not breakers.begin("a", b"k")
    breakers.end("a", b"k", answered=None, probe=False)
    assert breakers.refuses("a", b"k"), "another call that ends does not end the one that is tried"
    breakers.end("a", b"k", answered=False, probe=True)
    assert not breakers.refuses("a", b"k")
    assert breakers.is_open("a", b"k")


def test_any_response_closes_a_breaker() -> None:
    breakers = fail(Breakers(), "a")
    breakers.begin("a", b"k")
    breakers.end("a", b"k", answered=True, probe=False)
    assert not breakers.refuses("a", b"k")
    assert not breakers.is_open("a", b"k")
    assert len(breakers) == 0


def test_a_call_without_evidence_does_not_change_the_breaker() -> None:
    breakers = fail(Breakers(), "a", times=MAX_FAILURES - 1)
    breakers.end("a", b"k", answered=None, probe=False)
    assert not breakers.is_open("a", b"k")
    fail(breakers, "a", times=1)
    breakers.end("a", b"k", answered=None, probe=breakers.begin("a", b"k"))
    assert breakers.is_open("a", b"k")
    assert not breakers.refuses("a", b"k")


def test_many_endpoints_of_one_consumer_do_not_evict_breakers_of_another() -> None:
    breakers = fail(Breakers(limit=10), "ws3")
    for number in range(100):
        fail(breakers, "ws2", str(number).encode())
    assert breakers.is_open("ws3", b"k")
    assert breakers.is_open("ws2", b"99")
    assert not breakers.is_open("ws2", b"0")
    assert len(breakers) == 10
