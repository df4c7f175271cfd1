"""Running scripts beside requests: at once where they are quick, on a thread where they are not.

Nearly every script takes well under a millisecond, less than handing it to a thread would. So a script is run where it
is asked for, but held to a small part of its limits; one that needs more is stopped and, as scripts have no effects,
begun anew on a thread, with all of them. Lua runs without Python's lock, so requests go on meanwhile.
"""

import asyncio
import contextlib
from collections import OrderedDict
from collections.abc import Awaitable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final, NamedTuple

from app.interpret.access import InterpretError
from app.interpret.lua.vm import Limits, LuaError, Machine, Program
from app.model.json import JSON

_AT_ONCE: Final = Limits(seconds=0.005, instructions=100_000, memory=4 << 20)
"""What a script may take on the event loop."""
_LIMITS: Final = frozenset({"deadline", "instructions", "memory"})
_MOST_WAITING: Final = 64
_REMEMBERED: Final = 1000
_AGAIN: Final = 50
"""How many calls of a slow script go to a thread before it is given another chance to be quick."""


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
        full = self.limits
        self._at_once: Final = Limits(
            min(full.seconds, _AT_ONCE.seconds),
            min(full.instructions, _AT_ONCE.instructions),
            min(full.memory, _AT_ONCE.memory),
        )
        self._threads: Final = threads
        self._executor: ThreadPoolExecutor | None = None
        self._idle: Final[list[Machine]] = []
        self._slow: Final[OrderedDict[str, int]] = OrderedDict()
        self._waiting = 0

    def prepare(self) -> None:
        """Make a machine, so that the first call finds one."""
        with self._machine():
            pass

    def run(self, call: Call) -> list[JSON] | Awaitable[list[JSON]]:
        """Return what a script's function returns, or what will; raises LuaError, also when awaited."""
        if not self._is_slow(call.program.id):
            try:
                return self._run(call, self._at_once)
            except LuaError as error:
                if error.kind not in _LIMITS or self._at_once == self.limits:
                    raise
            self._remember(call.program.id)
        return self._on_thread(call)

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
        if self._executor is not None:
            self._executor.shutdown(wait=False, cancel_futures=True)

    def _is_slow(self, program: str) -> bool:
        left = self._slow.get(program)
        if left is None:
            return False
        if left <= 1:
            del self._slow[program]
        else:
            self._slow[program] = left - 1
        return True

    def _remember(self, program: str) -> None:
        self._slow[program] = _AGAIN
        if len(self._slow) > _REMEMBERED:
            self._slow.popitem(last=False)

    async def _on_thread(self, call: Call) -> list[JSON]:
        if self._waiting >= _MOST_WAITING:
            raise InterpretError(f"{self._waiting} slow scripts are running or waiting: try again later", code=503)
        if self._executor is None:
            self._executor = ThreadPoolExecutor(self._threads, thread_name_prefix="lua")
        self._waiting += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._executor, self._run, call, self.limits)
        finally:
            self._waiting -= 1

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
            if not machine.spoiled:
                self._idle.append(machine)
