import sys
import threading
from concurrent.futures import Future
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from fleethook.python_files import find_modules, run_file
from tests.waiting import wait_for


class OwnError(Exception):
    """The error of the caller."""


def write(tmp_path: Path, text: str, name: str = "own.py") -> Path:
    file = tmp_path / name
    file.write_text(text)
    return file


def run(file: Path, **options: Any) -> dict[str, Any]:
    return vars(run_file(file, "fleethook_test", OwnError, **options))


def test_a_changed_file_is_read_again_at_once(tmp_path: Path) -> None:
    for number in (1, 2):
        assert run(write(tmp_path, f"A = {number}\n"))["A"] == number


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a = (\n", r"own\.py:1: SyntaxError: '\(' was never closed"),
        ("a = 1\na.b\n", r"own\.py:2: AttributeError: 'int' object has no attribute 'b'"),
        ("import json\njson.loads('{')\n", r"own\.py:2: JSONDecodeError: "),
        ("raise SystemExit(3)\n", r"own\.py:1: SystemExit: 3"),
        ("import missing_module\n", r"own\.py:1: ModuleNotFoundError: No module named 'missing_module'"),
        ("from .common import f\n", r"own\.py:1: ImportError: .*: write `from module import …`"),
        ("from tests.test_python_files import OwnError\nraise OwnError('own.py:7: x')\n", r"^own\.py:7: x$"),
    ],
)
def test_an_error_names_file_and_line(tmp_path: Path, text: str, problem: str) -> None:
    with pytest.raises(OwnError, match=problem):
        run(write(tmp_path, text))


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("{start}\nwhile True: pass\n", 2),
        # The handler must not keep the thread from being stopped.
        ("{start}\ntry:\n    while True: pass\nexcept Exception: pass\n", 3),
        ("def loop():\n    while True: pass\n{start}\nloop()\n", 2),
        ("import threading\n{start}\nthreading.Event().wait()\n", 3),
    ],
)
def test_a_file_that_never_ends_is_an_error_at_its_line(tmp_path: Path, text: str, line: int) -> None:
    def wait(_: Future[ModuleType]) -> ModuleType:
        # The thread has begun its last statement as soon as its frame is at that line.
        wait_for(lambda: any(line_of(one) == line for one in threading.enumerate()), what="the file runs the line")
        raise TimeoutError

    def line_of(thread: threading.Thread) -> int:
        frame = sys._current_frames().get(thread.ident or 0) if thread.name == "load-own.py" else None
        while frame is not None and not frame.f_code.co_filename.endswith("own.py"):
            frame = frame.f_back
        return 0 if frame is None else frame.f_lineno

    with pytest.raises(OwnError, match=rf"own\.py:{line}: the file was not loaded after 30 s, .* or the wait; ask$"):
        run(write(tmp_path, text.format(start="pass")), wait=wait, hint="; ask")


def test_a_loop_that_never_ends_is_stopped(tmp_path: Path) -> None:
    write(tmp_path, "\nwhile True: STARTED = True\n", "common.py")

    def wait(_: Future[ModuleType]) -> ModuleType:
        wait_for(lambda: hasattr(sys.modules.get("common"), "STARTED"), what="the loop runs")
        raise TimeoutError

    with pytest.raises(OwnError, match=r"common\.py:2: the file was not loaded"):
        run(write(tmp_path, "import common\n", "loop.py"), wait=wait)
    wait_for(lambda: "load-loop.py" not in [one.name for one in threading.enumerate()], what="the thread ends")


def test_a_file_imports_a_module_beside_it_in_its_newest_version(tmp_path: Path) -> None:
    file = write(tmp_path, "from common import NAMES\n")
    path = [*sys.path]
    for names in (("a",), ("b",)):
        write(tmp_path, f"NAMES = {names}\n", "common.py")
        assert run(file)["NAMES"] == names
    assert sys.path == path
    assert "common" not in sys.modules


def test_a_file_imports_a_package_beside_it_in_its_newest_version(tmp_path: Path) -> None:
    (tmp_path / "library" / "deep").mkdir(parents=True)
    for package in ("library", "library/deep"):
        write(tmp_path, "", f"{package}/__init__.py")
    file = write(tmp_path, "from library.deep.names import NAMES\n")
    for names in (("a",), ("b",)):
        module = write(tmp_path, f"NAMES = {names}\n", "library/deep/names.py")
        assert run(file)["NAMES"] == names
    assert {file, module} < {*find_modules(file)}
    write(tmp_path, "\n1 / 0\n", "library/deep/names.py")
    with pytest.raises(OwnError, match=r"names\.py:2: ZeroDivisionError"):
        run(file)


def test_modules_of_one_name_in_two_folders_stay_apart(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        write(tmp_path / name, f"NAME = {name!r}\n", "common.py")
        assert run(write(tmp_path / name, "from common import NAME\n"))["NAME"] == name


def test_a_file_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(OwnError, match="cannot be read: Is a directory; give the files in it"):
        run(tmp_path)
    with pytest.raises(OwnError, match=r"none\.py: cannot be read: No such file or directory"):
        run(tmp_path / "none.py")
