"""Running scripts beside requests: at once where they are quick, on threads where they are not.

Nearly every script takes well under a millisecond, less than handing it to a thread would. So a script is run where it
is asked for, but held to a small part of its limits; one that needs more is stopped and, as scripts have no effects,
begun anew on a thread. Lua runs without Python's lock, so requests go on meanwhile.

There are two lanes of threads. In the first one, scripts have a small part of their limits once more, so a thread is
soon free there whatever runs in the second one, where scripts have all of them. A script goes where it ended before.
"""

import contextlib
from collections import OrderedDict
from collections.abc import Awaitable, Iterator, Sequence
from functools import partial
from typing import Final, NamedTuple

from app.interpret.lua.fair_thread_pool import FairThreadPool
from app.interpret.lua.malloc_trim import trim_memory
from app.interpret.lua.vm import Limits, LuaError, Machine, Program
from app.model.json import JSON

_AT_ONCE: Final = Limits(seconds=0.005, instructions=100_000, memory=4 << 20)
"""What a script may take on the event loop."""
_SOON: Final = Limits(seconds=0.25, instructions=1_000_000, memory=8 << 20)
"""Limits of a script in the first lane: so many instructions take 10 to 50 ms, and longer on a busy machine."""
_LIMITS: Final = frozenset({"deadline", "instructions", "memory"})
_REMEMBERED: Final = 1000
_AGAIN: Final = 50
"""How many calls of a slow script go to its lane before it is given another chance to be quicker."""
_SOON_AGAIN: Final = 5
_LARGE: Final = 12 << 20
"""Bytes of a machine after a call from which on it is not kept."""


class _SlowerError(Exception):
    """A call whose script turned out to be slower while it waited."""


class _Slow(NamedTuple):
    """A script that was stopped before."""

    lane: int
    left: int
    """Calls that go to this lane at once."""


class Call(NamedTuple):
    """One call of a script's function (`Machine.call`)."""

    program: Program
    function: str
    documents: Sequence[JSON]
    numbers: Sequence[int] = ()
    results: int = 1
    with_globals: bool = False
    references: Sequence[JSON] = ()
    """Documents that tell what empty tables of the results are."""


class Runner:
    """Runs scripts within limits; for one event loop."""

    def __init__(self, limits: Limits | None = None, *, threads: int = 4) -> None:
        """Prepare; machines and threads are made when they are first needed."""
        self.limits: Final = limits or Limits()
        self._at_once: Final = _part(_AT_ONCE, self.limits)
        slow = max(1, threads - 1)
        self._limits_of: Final = (_part(_SOON, self.limits), self.limits)
        # One script leaves a thread of the second lane to the others, if there are more.
        self._lanes: Final = (
            FairThreadPool("lua-soon", 1, share=1),
            FairThreadPool("lua-slow", slow, share=max(1, slow - 1)),
        )
        self._idle: Final[list[Machine]] = []
        self._slow: Final[OrderedDict[str, _Slow]] = OrderedDict()

    def prepare(self) -> None:
        """Make a machine, so that the first call finds one."""
        with self._machine():
            pass

    def run(self, call: Call, *, at_once: bool = True) -> list[JSON] | Awaitable[list[JSON]]:
        """Return the results of a script's function, or an awaitable of them; raises LuaError, also when awaited.

        Args:
            call: The call.
            at_once: Whether it may run on the event loop. Limits do not count all work of the host on a large object.
        """
        lane = self._lane_of(call.program.id)
        if lane is None and not at_once:
            lane = 0
        if lane is None:
            try:
                return self._run(call, self._at_once)
            except LuaError as error:
                if error.kind not in _LIMITS or self._at_once == self.limits:
                    raise
            lane = 0
            self._remember(call.program.id, lane, _AGAIN)
        return self._on_threads(call, lane)

    def run_now(self, call: Call) -> list[JSON]:
        """Return what a script's function returns, with all its limits; raises LuaError."""
        return self._run(call, self.limits)

    def try_at_once(self, program: Program) -> list[str]:
        """Return the functions that a script defines, by running its top level; raises LuaError."""
        with self._machine() as machine:
            return machine.try_(program, self._at_once)

    def printed(self) -> list[str]:
        """Return what the last call of a command printed."""
        return self._idle[-1].printed() if self._idle else []

    def close(self) -> None:
        """End the threads; calls that run are within their limits soon."""
        for lane in self._lanes:
            lane.close()

    def _lane_of(self, program: str) -> int | None:
        """Return the lane of a script, None if it may be tried at once."""
        slow = self._slow.get(program)
        if slow is None:
            return None
        if slow.left > 1:
            self._slow[program] = slow._replace(left=slow.left - 1)
        elif slow.lane > 0:
            self._slow[program] = _Slow(slow.lane - 1, _AGAIN)
        else:
            self._slow.pop(program, None)
        return slow.lane

    def _remember(self, program: str, lane: int, calls: int) -> None:
        self._slow[program] = _Slow(lane, calls)
        if len(self._slow) > _REMEMBERED:
            self._slow.popitem(last=False)

    async def _on_threads(self, call: Call, lane: int) -> list[JSON]:
        while True:
            limits = self._limits_of[lane]
            try:
                return await self._lanes[lane].run(call.program.id, partial(self._run_in, lane, call))
            except _SlowerError:
                lane += 1
            except LuaError as error:
                if error.kind not in _LIMITS or limits == self.limits:
                    raise
                lane += 1

    def _run_in(self, lane: int, call: Call) -> list[JSON]:
        """Run a call on a thread of a lane; give its memory back if that was much."""
        slow, limits = self._slow.get(call.program.id), self._limits_of[lane]
        if slow is not None and slow.lane > lane:
            raise _SlowerError
        try:
            found = self._run(call, limits)
        except LuaError as error:
            # Its traceback would keep the machine, whose memory is to be given back.
            problem = error.with_traceback(None)
            problem.__context__ = None
        else:
            if limits == self.limits:
                trim_memory()
            return found
        if problem.kind in _LIMITS:
            if limits != self.limits:  # here, so that the next call of the lane knows
                # A deadline alone may be the machine's, which is busy: such a script is soon tried again.
                self._remember(call.program.id, lane + 1, _SOON_AGAIN if problem.kind == "deadline" else _AGAIN)
            trim_memory()
        raise problem

    def _run(self, call: Call, limits: Limits) -> list[JSON]:
        with self._machine() as machine:
            return machine.call(
                call.program,
                call.function,
                call.documents,
                call.numbers,
                results=call.results,
                limits=limits,
                with_globals=call.with_globals,
                references=call.references,
            )

    @contextlib.contextmanager
    def _machine(self) -> Iterator[Machine]:
        # Taking from a list and putting back is one step each, whatever the thread.
        try:
            machine = self._idle.pop()
        except IndexError:
            machine = Machine()
        try:
            yield machine
        finally:
            if not machine.spoiled and machine.memory() < _LARGE:
                self._idle.append(machine)


def _part(most: Limits, limits: Limits) -> Limits:
    """Return the smaller limits."""
    return Limits(
        min(most.seconds, limits.seconds),
        min(most.instructions, limits.instructions),
        min(most.memory, limits.memory),
    )
