"""Loads files of rules; each error names file and line.

A file may import modules and packages beside it. They are loaded again with the file, so a change of one counts at the
next load.
"""

import contextlib
import importlib
import sys
import threading
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from pathlib import Path
from types import ModuleType
from typing import Final

from fleethook.admission.declaration import RuleError
from fleethook.admission.decorators import COLLECTED
from fleethook.admission.rule import Rule

_MODULE: Final = "fleethook_rules_"
MAX_SECONDS: Final = 30.0
"""Seconds that the load of a file may take. A usual file takes some milliseconds, and large libraries some seconds."""


def load_rules(paths: Sequence[Path]) -> tuple[Rule, ...]:
    """Return the rules of some files: mutating ones first, then by order and name.

    Raises:
        RuleError: A file cannot be read or run, does not end, has no rule, or two rules have the same name.
    """
    found = unite_rules(rule for path in paths for rule in _load_file(path))
    return tuple(sorted(found, key=lambda one: (not one.declaration.mutates, one.declaration.order, one.name)))


def _identify(rule: Rule) -> object:
    """Return a value that rules of different places have not in common; several kinds may share one function."""
    return Path(rule.file).resolve(), rule.line, rule.declaration[:5]


def unite_rules(rules: Iterable[Rule], identify: Callable[[Rule], object] = _identify) -> list[Rule]:
    """Return all rules, one that several files import once; raises RuleError if two rules have the same name."""
    known: dict[str, Rule] = {}
    for rule in rules:
        other = known.setdefault(rule.name, rule)
        if identify(other) != identify(rule):
            raise RuleError(
                f"{rule.file}:{rule.line}: two rules have the name {rule.name!r}, and the other one is at "
                f"{other.file}:{other.line}: rename a function, or give name="
            )
    return [*known.values()]


def _load_file(path: Path) -> list[Rule]:
    """Return the rules of a file, and those that it imports by name.

    A thread runs the file, because nothing can end a call that waits for ever.
    """
    loaded: Future[list[Rule]] = Future()
    thread = threading.Thread(target=_settle, args=(path, loaded), name=f"load-{path.name}", daemon=True)
    module = ModuleType(f"{_MODULE}{path.stem}")
    former = sys.modules.get(module.__name__, module)
    with _importing_beside(path):
        thread.start()
        try:
            return loaded.result(MAX_SECONDS)
        except TimeoutError:
            raise RuleError(
                f"{_stop(thread, path)}: the file was not loaded after {MAX_SECONDS:g} s, and runs this line: remove "
                "the loop or the wait; a rule gets other objects by follows=, and values by settings"
            ) from None
        finally:
            if not loaded.done() or loaded.exception() is not None:
                sys.modules[module.__name__] = former


def _stop(thread: threading.Thread, path: Path) -> str:
    """End a thread at its next instruction in Python, and return file and line of its present one."""
    import ctypes  # noqa: PLC0415 - seldom needed

    identity = thread.ident or 0
    frame = sys._current_frames().get(identity)  # noqa: SLF001 - documented
    place = _find_place(traceback.extract_stack(frame), path)
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(identity), ctypes.py_object(SystemExit))
    return place


@contextlib.contextmanager
def _importing_beside(path: Path) -> Iterator[None]:
    """Find modules beside a file after all others, and forget them afterwards, so that they are loaded again."""
    folder, present = str(path.absolute().parent), set(sys.modules)
    former, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    importlib.invalidate_caches()
    sys.path.append(folder)
    try:
        yield
    finally:
        sys.path.remove(folder)
        sys.dont_write_bytecode = former
        for name, module in [*sys.modules.items()]:
            if name not in present and _is_beside(getattr(module, "__file__", None) or "", path):
                del sys.modules[name]


def _is_beside(file: str, path: Path) -> bool:
    """Return whether a module is beside a file, alone or in a package."""
    wanted = path.absolute().parent
    outside = (one for one in Path(file).parents if one == wanted or not (one / "__init__.py").is_file())
    return next(outside, None) == wanted


def find_modules(path: Path) -> Iterator[Path]:
    """Yield the modules that a file of rules may import: those beside it, and those of packages beside it."""
    yield from path.parent.glob("*.py")
    for package in path.parent.glob("*/__init__.py"):
        yield from package.parent.rglob("*.py")


def _settle(path: Path, loaded: Future[list[Rule]]) -> None:
    try:
        loaded.set_result(_run(path))
    except BaseException as error:  # noqa: BLE001 - a file may fail in any way
        loaded.set_exception(_explain(error, path))


def _run(path: Path) -> list[Rule]:
    collected: list[Rule] = []
    COLLECTED.set(collected)
    # A cache of bytecode compares times, and a reload may follow a change within the same second.
    module = ModuleType(f"{_MODULE}{path.stem}")
    module.__file__, module.__package__ = str(path), ""
    # Dataclasses find the types of their annotations through this table.
    sys.modules[module.__name__] = module
    code = compile(path.read_bytes(), str(path), "exec")
    exec(code, module.__dict__)  # noqa: S102 - the rules of the operator
    own = [rule for rule in collected if rule.file == str(path)]
    imported = (one for one in vars(module).values() if isinstance(one, Rule))
    found = unite_rules([*own, *imported], id)  # A function that makes rules has one place for all of them.
    if not found:
        raise RuleError(f"{path}: the file has no rule: decorate a function with @validate or @mutate")
    return found


def _is_of(file: str, path: Path) -> bool:
    """Return whether a file is that of rules, or beside it."""
    return file == str(path) or _is_beside(file, path)


def _explain(error: BaseException, path: Path) -> RuleError:
    if isinstance(error, RuleError):
        return error
    if isinstance(error, OSError) and error.filename == str(path):
        remedy = "; give the files in it" if isinstance(error, IsADirectoryError) else ""
        return RuleError(f"{path}: cannot be read: {error.strerror}{remedy}")
    if isinstance(error, SyntaxError) and error.filename == str(path):
        return RuleError(f"{path}:{error.lineno}: {type(error).__name__}: {error.msg}")
    place = _find_place(traceback.extract_tb(error.__traceback__), path)
    remedy = ": write `from module import …`, because a file of rules is in no package"
    is_relative = isinstance(error, ImportError) and "no known parent package" in str(error)
    return RuleError(f"{place}: {type(error).__name__}: {error}{remedy if is_relative else ''}")


def _find_place(frames: Iterable[traceback.FrameSummary], path: Path) -> str:
    """Return file and line of the last frame in the file, or in a module beside it."""
    places = [f"{frame.filename}:{frame.lineno}" for frame in frames if _is_of(frame.filename, path)]
    return places[-1] if places else f"{path}:1"
