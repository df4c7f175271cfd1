"""A Lua machine: calls scripts in isolation from each other, each call within its limits.

One caller at a time uses a machine. Between calls it keeps only compiled scripts; after a limit it is discarded.
"""

import time
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from importlib import resources
from typing import Any, Final, Literal, NamedTuple
from weakref import WeakMethod

from lupa import lua54

from fleethook.engines.interpret.lua.kube_library import call_function
from fleethook.engines.interpret.lua.lua_documents import DocumentExchange, OutputLimitError, default_to_object
from fleethook.engines.interpret.lua.script_parser import parse_script
from fleethook.interpret.interpreter import InterpretError
from fleethook.model.json import JSON

ErrorKind = Literal["script", "missing", "deadline", "instructions", "memory", "output"]

_FILES: Final = resources.files("fleethook.engines.interpret.lua")
_SANDBOX: Final = (
    "limit_hook", "tables", "texts", "numbers", "formats", "patterns", "strings", "arrays", "times", "documents",
    "describe", "modules", "libraries", "calls",
)  # fmt: skip
"""The files of the sandbox in loading order; each uses the parts of earlier files. The last returns the API."""
_MODULES: Final = {"fleet": ("fleet_health", "fleet", "fleet_objects")}
"""The modules that scripts may require, with the files that make up each."""
_MAX_CHUNKS: Final = 500
_TICK: Final = 100
# Bytes that one message from the host may take beyond the limit of a call, so that no message fails halfway.
_SLACK: Final = 16 << 20


class ScriptLimits(NamedTuple):
    """Limits of one call; `script_layer_and_runner` has their values."""

    seconds: float
    instructions: int
    memory: int
    """Bytes that the script allocates."""


class Usage(NamedTuple):
    """The resources that a call used."""

    instructions: int
    """A multiple of 100: the machine counts no smaller number."""
    memory: int
    """The maximum of the bytes that the script held at the checks of its limits."""


class LuaError(InterpretError):
    """A call of a script failed; the text states the reason and the line.

    Attributes:
        kind: ``script`` for an error of the script, ``missing`` for an undefined function, otherwise the limit that the
            call reached.
    """

    def __init__(self, kind: ErrorKind, message: str) -> None:
        super().__init__(message, code=500)
        self.kind: Final[ErrorKind] = kind


class LoadedScript(NamedTuple):
    """A script that a machine can run."""

    id: str
    """Equal only for equal scripts."""
    name: str
    """Its name in errors, such as ``foo/healthInterpretation``."""
    text: str
    """Its source, rewritten for Lua 5.4 (fleethook.engines.interpret.lua.script_parser)."""
    own_globals: bool = False
    """Whether it may assign predefined globals. Then its calls get a copy of all globals."""


class Machine:
    """A Lua machine."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """Create a machine that measures deadlines with ``clock``, in seconds."""
        self._clock: Final = clock
        # lupa counts memory only if there is a limit at creation. Each call sets its own limit.
        self._lua: Final = lua54.LuaRuntime(
            register_eval=False,
            register_builtins=False,
            unpack_returned_tuples=True,
            attribute_handlers=(_deny_attribute, _deny_attribute),
            max_memory=1 << 40,
        )
        host = self._lua.table(
            level=_make_weak_callback(self._level),
            whole=_make_weak_callback(self._whole),
            give=_make_weak_callback(self._give),
            ask=_make_weak_callback(self._ask),
            late=_make_weak_callback(self._late),
            change_case=_change_case,
        )
        parts = self._lua.table(host=host)
        for name in _SANDBOX:
            found = self._lua.compile(_read_sandbox_file(name), name=f"=[{name}]")(parts)
        self._api, null, mapping, listing = found
        self._exchange: Final = DocumentExchange(null, mapping, listing)
        self._call: Final = self._api.call
        for module, files in _MODULES.items():
            self._api.library(module, _read_library(files))
        # Scripts must not find Lua's own globals or lupa's `python`. The sandbox has kept the functions that it needs.
        self._lua.execute("local globals = _G for name in next, globals do globals[name] = nil end")
        self._loaded: Final[set[str]] = set()
        self._due = 0.0
        self._problem: Exception | None = None
        self.spoiled = False
        """Whether a call exceeded its time, instructions or memory. The machine must not be used again then."""

    # Callbacks of the sandbox. They must not raise, because an exception would pass through C code.

    def _level(self, handle: int, start: int) -> Any:
        return self._exchange.level(handle, start)

    def _whole(self, handle: int, start: int) -> Any:
        return self._exchange.whole(handle, start)

    def _give(self, *values: Any) -> None:
        self._exchange.give(*values)

    def _late(self) -> float | None:
        """Return the seconds until the deadline, None if it has passed."""
        left = self._due - self._clock()
        return left if left > 0 else None

    def _ask(self, name: str, *described: Any) -> tuple[Any, ...]:
        try:
            arguments = list(map(default_to_object, self._exchange.taken(described, ())))
            found = call_function(name, arguments)
        except InterpretError as error:
            return False, str(error)
        except OutputLimitError:
            return False, "OUTPUT"
        except Exception as error:  # noqa: BLE001 - callbacks must not raise; `_run_limited` raises it after the call
            self._problem = error
            return False, "the host failed"
        if isinstance(found, dict):
            return True, "map", self._exchange.add(found)
        if isinstance(found, list):
            return True, "list", self._exchange.add(found)
        return True, "value", found

    def call(
        self,
        program: LoadedScript,
        function: str,
        documents: Sequence[JSON],
        numbers: Sequence[int] = (),
        *,
        results: int,
        limits: ScriptLimits,
        with_globals: bool = False,
        references: Sequence[JSON] = (),
    ) -> list[JSON]:
        """Return the results of a function of a script.

        Args:
            program: The script; its top level is run first.
            function: Name of a global function that the top level defines.
            documents: Its first arguments: objects, lists or None.
            numbers: Its other arguments.
            results: The number of results.
            limits: The limits of the call.
            with_globals: Whether the documents are also globals (karmada docs/proposals/runtime-value-retention).
            references: Documents that determine the types of empty tables in the results.

        Raises:
            LuaError: The call failed.
        """
        self.compile(program)
        self._exchange.begin(documents)
        arguments: list[Any] = []
        for handle, document in enumerate(documents):
            arguments += ("v", None) if document is None else ("l" if isinstance(document, list) else "m", handle)
        for number in numbers:
            arguments += ("v", number)
        returned = self._run_limited(
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
            raise self._make_error(limits, function, program, "output") from None

    def try_(self, program: LoadedScript, limits: ScriptLimits) -> list[str]:
        """Run the top level of a script and return the global functions that it defines; raises LuaError."""
        self.compile(program)
        self._exchange.begin(())
        returned = self._run_limited(
            lambda ticks, kib: self._api["try"](program.id, program.own_globals, ticks, limits.seconds, kib),
            limits,
            "the top level",
            program,
        )
        return list(returned[1:])

    def printed(self) -> list[str]:
        """Return the lines that the last call printed."""
        found = self._api.printed()
        if found is None:
            return []
        return list(found) if isinstance(found, tuple) else [found]

    def usage(self) -> Usage:
        """Return the resources that the last call used, also if it failed."""
        instructions, kib = self._api.spent()
        return Usage(int(instructions), int(kib * 1024))

    def memory(self) -> int:
        """Return the bytes that the machine uses."""
        return int(self._lua.get_memory_used())

    def names(self) -> frozenset[str]:
        """Return the names of the predefined globals of scripts."""
        return frozenset(self._api.names())

    def _run_limited(
        self, call: Callable[[int, float], Any], limits: ScriptLimits, function: str, program: LoadedScript
    ) -> tuple[Any, ...]:
        if self._lua.get_memory_used() > 4 * _SLACK:
            self._lua.gccollect()
        self._due = self._clock() + limits.seconds
        self._lua.set_max_memory(self._lua.get_memory_used() + limits.memory + _SLACK)
        try:
            returned = call(limits.instructions // _TICK, limits.memory / 1024)
        except lua54.LuaMemoryError:
            self.spoiled = True
            raise self._make_error(limits, function, program, "memory") from None
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
        raise self._make_error(limits, function, program, *returned[1:4])

    def _make_error(
        self,
        limits: ScriptLimits,
        function: str,
        program: LoadedScript,
        kind: ErrorKind,
        message: str = "",
        place: str = "",
    ) -> LuaError:
        texts = {
            "deadline": f"{function} took more than {limits.seconds:g} s",
            "instructions": f"{function} took more than {limits.instructions} instructions",
            "memory": f"{function} took more than {limits.memory >> 20} MiB",
            "output": f"{function} returned a result that is too large",
            "missing": f"there is no function {function}: define it as a global function",
        }
        self.spoiled = self.spoiled or kind in ("deadline", "instructions", "memory")
        text = _remove_mark(texts.get(kind, message), program)
        place = _remove_mark(f"{place}:", program)
        if place != ":" and not text.startswith(place):
            text = f"{place} {text}"
        return LuaError(kind, text)

    def compile(self, program: LoadedScript) -> None:
        """Compile a script, unless the machine has it compiled already; raises LuaError."""
        if program.id in self._loaded:
            return
        if len(self._loaded) >= _MAX_CHUNKS:
            self._api.forget()
            self._loaded.clear()
        problem = self._api.load(program.id, program.text, program.name)
        if problem is not None:
            raise LuaError("script", _remove_mark(str(problem), program))
        self._loaded.add(program.id)


@lru_cache
def _read_sandbox_file(name: str) -> str:
    return (_FILES / "sandbox" / f"{name}.lua").read_text("utf-8")


@lru_cache
def _read_library(files: Iterable[str]) -> str:
    return parse_script("\n".join((_FILES / "library" / f"{file}.lua").read_text("utf-8") for file in files)).runnable


def _remove_mark(text: str, program: LoadedScript) -> str:
    """Return a message without the mark of script names in the sandbox."""
    return text.replace(f".{program.name}:", f"{program.name}:")


def _make_weak_callback(method: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that calls a method without a strong reference to its object.

    Python's garbage collector does not see references from Lua, so a machine that Lua references is never freed.
    """
    reference = WeakMethod(method)

    def call(*arguments: Any) -> Any:
        found = reference()
        return None if found is None else found(*arguments)

    return call


def _change_case(name: str, text: str) -> str:
    """Return a text in ``lower`` or ``upper`` case, letter by letter as in Go's strings package."""
    change = str.lower if name == "lower" else str.upper
    return "".join(found if len(found := change(letter)) == 1 else letter for letter in text)


def _deny_attribute(*_: Any) -> Any:
    raise AttributeError("scripts cannot access objects of the host")
