"""Runs scripts: fast ones on the event loop, slow ones on threads.

Most scripts take less than a millisecond, and starting one on a thread takes longer. So a script starts on the event
loop, with a small part of its limits. If it needs more, it is stopped and restarted on a thread, which is safe because
scripts have no side effects. Lua runs without the GIL, so the event loop continues meanwhile.

There are two thread pools. In the first, scripts also have only a part of their limits, so a thread is free soon even
if the second is busy. In the second, scripts have their full limits. A slow script starts in the pool that it needed
last; after some calls, the runner tries the next faster place.
"""

import contextlib
import ctypes
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterator, Sequence
from functools import lru_cache
from typing import Final, NamedTuple

from fleethook.engines.interpret.lua.vm import LuaError, Machine, Program, ScriptLimits
from fleethook.interpret.typed_members import InterpretError
from fleethook.model.json import JSON
from fleethook.work.turns import Worker


@lru_cache(maxsize=1)
def _find_malloc_trim() -> Callable[[int], object] | None:
    """Return glibc's malloc_trim; None for other C libraries, which keep little free memory."""
    found: Callable[[int], object] | None = getattr(ctypes.CDLL(None), "malloc_trim", None)
    return found


def trim_memory() -> None:
    """Return free memory of all threads to the operating system. Takes milliseconds, without the GIL."""
    trim = _find_malloc_trim()
    if trim is not None:
        trim(0)


_EVENT_LOOP_LIMITS: Final = ScriptLimits(seconds=0.005, instructions=100_000, memory=4 << 20)
"""Limits of a script on the event loop."""
_FIRST_POOL_LIMITS: Final = ScriptLimits(seconds=0.25, instructions=1_000_000, memory=8 << 20)
"""Limits of a script in the first pool: so many instructions take 10 to 50 ms, and longer on a busy machine."""
_LIMIT_ERRORS: Final = frozenset({"deadline", "instructions", "memory"})
MAX_WAITING: Final = 128
"""Calls that may run or wait in a pool."""
MAX_WAITING_EACH: Final = 64
"""Calls of one script that may run or wait in a pool."""
_MAX_REMEMBERED: Final = 1000
_CALLS_UNTIL_RETRY: Final = 50
"""Calls of a slow script that start in its pool before the runner tries a faster place."""
_CALLS_UNTIL_EARLY_RETRY: Final = 5
"""The same for a script that reached only its deadline."""
_MAX_IDLE_BYTES: Final = 12 << 20
"""Bytes; a machine with more memory after a call is not reused."""


class _SlowerError(Exception):
    """While a call waited, its script reached a limit of the pool."""


class _Slow(NamedTuple):
    """A script that reached a limit."""

    pool: int
    left: int
    """Calls that start in this pool."""


class Call(NamedTuple):
    """One call of a script's function (`Machine.call`)."""

    program: Program
    function: str
    documents: Sequence[JSON]
    numbers: Sequence[int] = ()
    results: int = 1
    with_globals: bool = False
    references: Sequence[JSON] = ()
    """Documents that determine the types of empty tables in the results."""


class Runner:
    """Runs scripts within limits, for one event loop."""

    def __init__(self, limits: ScriptLimits | None = None, *, threads: int = 4) -> None:
        """Prepare; the first calls create machines and threads."""
        self.limits: Final = limits or ScriptLimits()
        self._at_once: Final = _take_smaller(_EVENT_LOOP_LIMITS, self.limits)
        slow = max(1, threads - 1)
        self._limits_of: Final = (_take_smaller(_FIRST_POOL_LIMITS, self.limits), self.limits)
        # In the second pool, one script leaves a thread to the others if there are several.
        self._pools: Final = (
            Worker(name="lua-soon"),
            Worker(slow, share=max(1, slow - 1), name="lua-slow"),
        )
        self._idle: Final[list[Machine]] = []
        self._slow: Final[OrderedDict[str, _Slow]] = OrderedDict()

    def prepare(self) -> None:
        """Create a machine, so that the first call does not wait for it."""
        with self._machine():
            pass

    def run(self, call: Call, *, at_once: bool = True) -> list[JSON] | Awaitable[list[JSON]]:
        """Return the results of a script's function, or an awaitable of them; raises LuaError, also when awaited.

        Args:
            call: The call.
            at_once: Whether it may run on the event loop. Large objects may not, because the limits do not count all
                work of the host.
        """
        pool = self._find_pool(call.program.id)
        if pool is None and not at_once:
            pool = 0
        if pool is None:
            try:
                return self._run(call, self._at_once)
            except LuaError as error:
                if error.kind not in _LIMIT_ERRORS or self._at_once == self.limits:
                    raise
            pool = 0
            self._remember(call.program.id, pool, _CALLS_UNTIL_RETRY)
        return self._run_on_threads(call, pool)

    def run_now(self, call: Call) -> list[JSON]:
        """Return the results of a script's function with its full limits, on this thread; raises LuaError."""
        return self._run(call, self.limits)

    def try_at_once(self, program: Program) -> list[str]:
        """Run the top level of a script and return the functions that it defines; raises LuaError."""
        with self._machine() as machine:
            return machine.try_(program, self._at_once)

    def printed(self) -> list[str]:
        """Return the lines that the last call printed; for commands, which run one call at a time."""
        return self._idle[-1].printed() if self._idle else []

    def close(self) -> None:
        """Stop the threads; running calls end at their limits."""
        for pool in self._pools:
            pool.close()

    def _find_pool(self, program: str) -> int | None:
        """Return the pool of a script, None if it may start on the event loop."""
        slow = self._slow.get(program)
        if slow is None:
            return None
        if slow.left > 1:
            self._slow[program] = slow._replace(left=slow.left - 1)
        elif slow.pool > 0:
            self._slow[program] = _Slow(slow.pool - 1, _CALLS_UNTIL_RETRY)
        else:
            self._slow.pop(program, None)
        return slow.pool

    def _remember(self, program: str, pool: int, calls: int) -> None:
        self._slow[program] = _Slow(pool, calls)
        if len(self._slow) > _MAX_REMEMBERED:
            self._slow.popitem(last=False)

    async def _run_on_threads(self, call: Call, pool: int) -> list[JSON]:
        while True:
            limits, worker = self._limits_of[pool], self._pools[pool]
            if len(worker) >= MAX_WAITING or worker.count(call.program.id) >= MAX_WAITING_EACH:
                text = f"{len(worker)} calls of slow scripts are running or waiting: try again later"
                raise InterpretError(text, code=503)
            try:
                return await worker.run(call.program.id, self._run_in_pool, pool, call)
            except _SlowerError:
                pool += 1
            except LuaError as error:
                if error.kind not in _LIMIT_ERRORS or limits == self.limits:
                    raise
                pool += 1

    def _run_in_pool(self, pool: int, call: Call) -> list[JSON]:
        """Run a call on a thread of a pool. After full limits or a reached limit, return memory to the system."""
        slow, limits = self._slow.get(call.program.id), self._limits_of[pool]
        if slow is not None and slow.pool > pool:
            raise _SlowerError
        try:
            found = self._run(call, limits)
        except LuaError as error:
            # The traceback would keep the machine, so its memory could not be freed.
            problem = error.with_traceback(None)
            problem.__context__ = None
        else:
            if limits == self.limits:
                trim_memory()
            return found
        if problem.kind in _LIMIT_ERRORS:
            if limits != self.limits:  # on this thread, so that the next call in the pool sees it
                # A script may miss a deadline because the machine is busy, so it gets another chance soon.
                self._remember(
                    call.program.id,
                    pool + 1,
                    _CALLS_UNTIL_EARLY_RETRY if problem.kind == "deadline" else _CALLS_UNTIL_RETRY,
                )
            trim_memory()
        raise problem

    def _run(self, call: Call, limits: ScriptLimits) -> list[JSON]:
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
        # `list.pop` and `list.append` are atomic, so no lock is necessary.
        try:
            machine = self._idle.pop()
        except IndexError:
            machine = Machine()
        try:
            yield machine
        except InterpretError:
            self._keep(machine)
            raise
        # After any other error, the state of the machine is unknown.
        self._keep(machine)

    def _keep(self, machine: Machine) -> None:
        if not machine.spoiled and machine.memory() < _MAX_IDLE_BYTES:
            self._idle.append(machine)


def _take_smaller(most: ScriptLimits, limits: ScriptLimits) -> ScriptLimits:
    """Return the smaller of each limit."""
    return ScriptLimits(
        min(most.seconds, limits.seconds),
        min(most.instructions, limits.instructions),
        min(most.memory, limits.memory),
    )
