"""Runs files of Python that users write: admission rules, and interpreters. Each error names file and line.

A file may import modules and packages beside it. They are loaded again with the file, so a change of one counts at the
next load.
"""

import contextlib
import importlib
import sys
import threading
import traceback
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from contextvars import copy_context
from pathlib import Path
from types import ModuleType
from typing import Final

MAX_SECONDS: Final = 30.0
"""Seconds that the load of a file may take. A usual file takes some milliseconds, and large libraries some seconds."""
_MANIFESTS: Final = (".yaml", ".yml", ".json")


def _wait(loaded: Future[ModuleType]) -> ModuleType:
    return loaded.result(MAX_SECONDS)


def run_file(
    path: Path,
    name: str,
    error: type[Exception],
    *,
    hint: str = "",
    wait: Callable[[Future[ModuleType]], ModuleType] = _wait,
) -> ModuleType:
    """Run a file in the context of the caller, and return its module.

    A thread runs the file, because nothing can end a call that waits for ever.

    Args:
        path: The file.
        name: The name of the module.
        error: The type of errors. One that the file raises is passed on; this function makes one of each other.
        hint: The remedy for a file that waits, after "remove the loop or the wait".
        wait: Waits for the module; raises TimeoutError.
    """
    if path.suffix in _MANIFESTS:
        raise error(f"{path}: it is no file of Python: give manifests by -f")
    loaded: Future[ModuleType] = Future()
    arguments = (_settle, path, name, error, loaded)
    thread = threading.Thread(target=copy_context().run, args=arguments, name=f"load-{path.name}", daemon=True)
    former = sys.modules.get(name, ModuleType(name))
    with _importing_beside(path):
        thread.start()
        try:
            return wait(loaded)
        except TimeoutError:
            raise error(
                f"{_stop(thread, path)}: the file was not loaded after {MAX_SECONDS:g} s, and runs this line: remove "
                f"the loop or the wait{hint}"
            ) from None
        finally:
            if not loaded.done() or loaded.exception() is not None:
                sys.modules[name] = former


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
                sys.modules.pop(name, None)  # A thread that is stopped may forget it first.


def _is_beside(file: str, path: Path) -> bool:
    """Return whether a module is beside a file, alone or in a package."""
    wanted = path.absolute().parent
    outside = (parent for parent in Path(file).parents if parent == wanted or not (parent / "__init__.py").is_file())
    return next(outside, None) == wanted


def find_modules(path: Path) -> Iterator[Path]:
    """Yield the modules that a file may import: those beside it, and those of packages beside it."""
    yield from path.parent.glob("*.py")
    for package in path.parent.glob("*/__init__.py"):
        yield from package.parent.rglob("*.py")


def _settle(path: Path, name: str, error: type[Exception], loaded: Future[ModuleType]) -> None:
    try:
        loaded.set_result(_run(path, name))
    except BaseException as raised:  # noqa: BLE001 - a file may fail in any way
        loaded.set_exception(raised if isinstance(raised, error) else error(_explain(raised, path)))


def _run(path: Path, name: str) -> ModuleType:
    # A cache of bytecode compares times, and a reload may follow a change within the same second.
    module = ModuleType(name)
    module.__file__, module.__package__ = str(path), ""
    # Dataclasses find the types of their annotations through this table.
    sys.modules[name] = module
    code = compile(path.read_bytes(), str(path), "exec")
    exec(code, module.__dict__)  # noqa: S102 - the code of the operator
    return module


def _is_of(file: str, path: Path) -> bool:
    """Return whether a file is this one, or beside it."""
    return file == str(path) or _is_beside(file, path)


def _explain(error: BaseException, path: Path) -> str:
    if isinstance(error, OSError) and error.filename == str(path):
        remedy = "; give the files in it" if isinstance(error, IsADirectoryError) else ""
        return f"{path}: cannot be read: {error.strerror}{remedy}"
    if isinstance(error, SyntaxError) and error.filename == str(path):
        return f"{path}:{error.lineno}: {type(error).__name__}: {error.msg}"
    place = _find_place(traceback.extract_tb(error.__traceback__), path)
    remedy = ": write `from module import …`, because the file is in no package"
    is_relative = isinstance(error, ImportError) and "no known parent package" in str(error)
    return f"{place}: {type(error).__name__}: {error}{remedy if is_relative else ''}"


def _find_place(frames: Iterable[traceback.FrameSummary], path: Path) -> str:
    """Return file and line of the last frame in the file, or in a module beside it."""
    places = [f"{frame.filename}:{frame.lineno}" for frame in frames if _is_of(frame.filename, path)]
    return places[-1] if places else f"{path}:1"
