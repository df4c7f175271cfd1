"""Long work in slices: its result."""

import pytest

from fleethook.work.slices import Pauses, Slice, Sliced, run_at_once, run_until_pause


def work(name: str, slices: int, seen: list[str]) -> Sliced[str]:
    for number in range(slices):
        seen.append(f"{name}{number}")
        yield
    return name


def failing() -> Sliced[str]:
    yield
    raise ValueError("broken")


def test_run_at_once_returns_the_result() -> None:
    seen: list[str] = []
    assert run_at_once(work("a", 3, seen)) == "a"
    assert seen == ["a0", "a1", "a2"]
    with pytest.raises(ValueError, match="broken"):
        run_at_once(failing())


def test_run_until_pause_does_marked_slices_at_once() -> None:
    def marked(pauses: int) -> Sliced[str]:
        yield Slice.READS_STORE
        for _ in range(pauses):
            yield
        yield Slice.PURE
        return "done"

    assert run_until_pause(marked(0)) == "done"
    rest = run_until_pause(marked(2))
    assert not isinstance(rest, str)
    assert run_at_once(rest) == "done"


def test_a_pause_is_due_at_the_limit_of_units() -> None:
    pauses = Pauses(3)
    assert [pauses.due() for _ in range(7)] == [False, False, True, False, False, True, False]
    assert pauses.due(5)
    assert not pauses.due(2)
