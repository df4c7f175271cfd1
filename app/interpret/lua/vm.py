"""One Lua machine: calls of scripts that know nothing of each other, each within its limits.

A machine is used by one caller at a time. It keeps compiled scripts, and nothing else from one call to the next:
globals and libraries are made anew, and after a call that reached a limit the machine is thrown away.
"""

import time
from collections.abc import Callable, Sequence
from functools import lru_cache
from importlib import resources
from typing import Any, Final, Literal, NamedTuple
from weakref import WeakMethod

from lupa import lua54

from app.interpret.access import InterpretError
from app.interpret.lua.convert import DocumentExchange, OutputLimitError, known
from app.interpret.lua.kube_module import FUNCTIONS
from app.interpret.lua.parser import parse_script
from app.model.json import JSON

ErrorKind = Literal["script", "missing", "deadline", "instructions", "memory", "output"]

_FILES: Final = resources.files("app.interpret.lua")
_SANDBOX: Final = (
    "limits", "tables", "texts", "numbers", "formats", "patterns", "strings", "arrays", "times", "documents",
    "describe", "modules", "libraries", "calls",
)  # fmt: skip
"""Each adds to what those before it have made; the last returns what calls scripts."""
_MODULES: Final = ("fleet",)
_MOST_CHUNKS: Final = 500
_TICK: Final = 100
# What one message from the host may take beyond the limit of a call, so that none fails half way.
_SLACK: Final = 16 << 20


class Limits(NamedTuple):
    """What one call may take."""

    seconds: float = 1.0
    instructions: int = 20_000_000
    memory: int = 32 << 20
    """Bytes, of the script's own."""


class LuaError(InterpretError):
    """A script that did not answer; the text says why, and in which line.

    Attributes:
        kind: What happened: ``script`` for an error of its own, ``missing`` for a function that is not there, and
            otherwise the limit that it reached.
    """

    def __init__(self, kind: ErrorKind, message: str) -> None:
        super().__init__(message, code=504 if kind == "deadline" else 500)
        self.kind: Final[ErrorKind] = kind


class Program(NamedTuple):
    """A script to be run."""

    id: str
    """Equal for equal scripts only."""
    name: str
    """What its errors call it, such as ``foo.yaml``."""
    text: str
    """For Lua 5.4 (app.interpret.lua.parser)."""
    own_globals: bool = False
    """Whether it may set a global that is there already, and so has to find all of them in a table of its own."""


class Machine:
    """A Lua machine."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """Make one; ``clock`` is what deadlines are measured by, in seconds."""
        self._clock: Final = clock
        # A limit from the start makes the machine count; what it is is set for each call.
        self._lua: Final = lua54.LuaRuntime(
            register_eval=False,
            register_builtins=False,
            unpack_returned_tuples=True,
            attribute_handlers=(_nothing, _nothing),
            max_memory=1 << 40,
        )
        host = self._lua.table(
            level=_weakly(self._level),
            whole=_weakly(self._whole),
            give=_weakly(self._give),
            ask=_weakly(self._ask),
            late=_weakly(self._late),
            change_case=_change_case,
        )
        parts = self._lua.table(host=host)
        for name in _SANDBOX:
            found = self._lua.compile(_sandbox(name), name=f"=[{name}]")(parts)
        self._api, null, mapping, listing = found
        self._exchange: Final = DocumentExchange(null, mapping, listing)
        self._call: Final = self._api.call
        for module in _MODULES:
            self._api.library(module, _library(module))
        # Lua's own globals are the sandbox's from here on, and `python` nobody's.
        self._lua.execute("local globals = _G for name in next, globals do globals[name] = nil end")
        self._loaded: Final[set[str]] = set()
        self._due = 0.0
        self._problem: Exception | None = None
        self.spoiled = False
        """Whether a limit was reached, after which it is not to be used again."""

    # What the sandbox calls. None of these raises: an exception would have to pass through C.

    def _level(self, handle: int, start: int) -> Any:
        return self._exchange.level(handle, start)

    def _whole(self, handle: int, start: int) -> Any:
        return self._exchange.whole(handle, start)

    def _give(self, *values: Any) -> None:
        self._exchange.give(*values)

    def _late(self) -> float | None:
        """Return how many seconds are left, None if none."""
        left = self._due - self._clock()
        return left if left > 0 else None

    def _ask(self, name: str, *described: Any) -> tuple[Any, ...]:
        try:
            found = FUNCTIONS[name](*map(known, self._exchange.taken(described, ())))
        except InterpretError as error:
            return False, str(error)
        except OutputLimitError:
            return False, "OUTPUT"
        except Exception as error:  # noqa: BLE001 - as above; the call fails with it
            self._problem = error
            return False, "the host failed"
        if isinstance(found, dict):
            return True, "map", self._exchange.add(found)
        if isinstance(found, list):
            return True, "list", self._exchange.add(found)
        return True, "value", found

    # What the host calls.

    def call(
        self,
        program: Program,
        function: str,
        documents: Sequence[JSON],
        numbers: Sequence[int] = (),
        *,
        results: int,
        limits: Limits,
        with_globals: bool = False,
        references: Sequence[JSON] = (),
    ) -> list[JSON]:
        """Return what a function of a script returns.

        Args:
            program: The script; its top level is run first.
            function: Name of a global function that the top level defines.
            documents: Its first arguments: objects, lists, None.
            numbers: Its other arguments.
            results: How many values are taken.
            limits: What the call may take.
            with_globals: Whether the script finds the documents in globals, too (seed 001).
            references: Documents that tell what empty tables of the results are.

        Raises:
            LuaError: It did not answer.
        """
        self._load(program)
        self._exchange.begin(documents)
        arguments: list[Any] = []
        for handle, document in enumerate(documents):
            arguments += ("v", None) if document is None else ("l" if isinstance(document, list) else "m", handle)
        for number in numbers:
            arguments += ("v", number)
        returned = self._limited(
            lambda ticks, kib: self._call(
                program.id, program.own_globals, function, with_globals, results, ticks, limits.seconds, kib, *arguments
            ),
            limits,
            function,
            program,
        )
        tags = returned[1 : 1 + 2 * results]
        try:
            return self._exchange.taken(tags, returned[1 + 2 * results :], references)
        except OutputLimitError:
            raise self._error(limits, function, program, "output") from None

    def try_(self, program: Program, limits: Limits) -> list[str]:
        """Return the global functions that there are once the top level of a script has run; raises LuaError."""
        self._load(program)
        self._exchange.begin(())
        returned = self._limited(
            lambda ticks, kib: self._api["try"](program.id, program.own_globals, ticks, limits.seconds, kib),
            limits,
            "the top level",
            program,
        )
        return list(returned[1:])

    def compile(self, program: Program) -> None:
        """Compile a script; raises LuaError."""
        self._load(program)

    def printed(self) -> list[str]:
        """Return what the last call printed."""
        found = self._api.printed()
        if found is None:
            return []
        return list(found) if isinstance(found, tuple) else [found]

    def memory(self) -> int:
        """Return the bytes that the machine has."""
        return int(self._lua.get_memory_used())

    def names(self) -> frozenset[str]:
        """Return the globals that scripts have."""
        return frozenset(self._api.names())

    def _limited(
        self, call: Callable[[int, float], Any], limits: Limits, function: str, program: Program
    ) -> tuple[Any, ...]:
        if self._lua.get_memory_used() > 4 * _SLACK:
            self._lua.gccollect()
        self._due = self._clock() + limits.seconds
        self._lua.set_max_memory(self._lua.get_memory_used() + limits.memory + _SLACK)
        try:
            returned = call(limits.instructions // _TICK, limits.memory / 1024)
        except lua54.LuaMemoryError:
            self.spoiled = True
            raise self._error(limits, function, program, "memory") from None
        except UnicodeDecodeError as error:
            raise LuaError("script", f"{function} returned a text that is not UTF-8: {error.reason}") from None
        if self._problem is not None:
            problem, self._problem = self._problem, None
            raise problem
        if returned is True:
            return (True,)
        if returned[0]:
            found: tuple[Any, ...] = returned
            return found
        raise self._error(limits, function, program, *returned[1:4])

    def _error(
        self, limits: Limits, function: str, program: Program, kind: ErrorKind, message: str = "", place: str = ""
    ) -> LuaError:
        texts = {
            "deadline": f"{function} took more than {limits.seconds:g} s",
            "instructions": f"{function} took more than {limits.instructions} instructions",
            "memory": f"{function} took more than {limits.memory >> 20} MiB",
            "output": f"{function} returned a result that is too large",
            "missing": f"there is no function {function}: define it as a global function",
        }
        self.spoiled = self.spoiled or kind in ("deadline", "instructions", "memory")
        text = _without_mark(texts.get(kind, message), program)
        place = _without_mark(f"{place}:", program)
        if place != ":" and not text.startswith(place):
            text = f"{place} {text}"
        return LuaError(kind, text)

    def _load(self, program: Program) -> None:
        if program.id in self._loaded:
            return
        if len(self._loaded) >= _MOST_CHUNKS:
            self._api.forget()
            self._loaded.clear()
        problem = self._api.load(program.id, program.text, program.name)
        if problem is not None:
            raise LuaError("script", _without_mark(str(problem), program))
        self._loaded.add(program.id)


@lru_cache
def _sandbox(name: str) -> str:
    return (_FILES / "sandbox" / f"{name}.lua").read_text("utf-8")


@lru_cache
def _library(module: str) -> str:
    return parse_script((_FILES / "library" / f"{module}.lua").read_text("utf-8")).runnable


def _without_mark(text: str, program: Program) -> str:
    """Return a text in which scripts have their own names, without what marks them in the sandbox."""
    return text.replace(f".{program.name}:", f"{program.name}:")


def _weakly(method: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that calls a method and does not keep its object.

    Python's collector does not see what Lua keeps: a machine that Lua kept would never be freed.
    """
    reference = WeakMethod(method)

    def call(*arguments: Any) -> Any:
        found = reference()
        return None if found is None else found(*arguments)

    return call


def _change_case(name: str, text: str) -> str:
    """Return a text in ``lower`` or ``upper`` case, letter by letter as Go's strings package changes it."""
    change = str.lower if name == "lower" else str.upper
    return "".join(found if len(found := change(letter)) == 1 else letter for letter in text)


def _nothing(*_: Any) -> Any:
    raise AttributeError("scripts cannot access objects of the host")
