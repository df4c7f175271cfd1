"""The wheel: built as a release is, installed in a clean environment, used and type-checked there."""

import os
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

from tests.waiting import NET

ROOT = Path(__file__).parents[2]

USE = """
from fleethook import interpret, model, patch

database = interpret.interpreter("db.example.com/v1", "Database")
question = interpret.Question(interpret.Operation.HEALTH, database.kind, {"status": {}})
source = model.crd_tarball.LocalSource(path="/a")
patched = patch.apply({}, [{"op": "add", "path": "/a", "value": 1}])
print(patched, source.path, question.kind.kind)
"""
MISUSE = """
from fleethook.interpret import interpreter
from fleethook.model.crd_tarball import LocalSource
from fleethook.patch import apply

interpreter(kind=1)
LocalSource(pfad="/a")
apply({}, [], dialect="rfc7386")
"""


def run(*command: str | Path, cwd: Path) -> str:
    """Return the output of a program; a failure has it in its text."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=NET, cwd=cwd, env=kept)
    assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of this tree; pip gets the build backend from the registry, or from its cache."""
    into = tmp_path_factory.mktemp("wheel")
    pip = (sys.executable, "-m", "pip", "wheel", "--quiet", "--disable-pip-version-check", "--no-deps")
    run(*pip, "--wheel-dir", into, ROOT, cwd=into)
    (built,) = into.glob("fleethook-*.whl")
    return built


@pytest.fixture(scope="module")
def python(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of an environment that has the wheel and, of this one, the libraries alone."""
    root = tmp_path_factory.mktemp("clean")
    run(sys.executable, "-m", "venv", "--without-pip", root / "venv", cwd=root)
    made = root / "venv" / "bin" / "python"
    pip = (sys.executable, "-m", "pip", "--python", made, "install", "--quiet", "--disable-pip-version-check")
    run(*pip, "--no-deps", wheel, cwd=root)
    # A directory that is listed so does not have its own .pth files read, and so not the one of this source tree.
    site = run(made, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", cwd=root).strip()
    Path(site, "libraries.pth").write_text(sysconfig.get_path("purelib"), encoding="utf-8")
    return made


def test_the_wheel_has_the_package_and_nothing_else(wheel: Path) -> None:
    listed = run("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "app/fleethook", cwd=ROOT)
    # The sources of the console's bundle are not packaged.
    names = (name for name in listed.split("\0") if not name.startswith("app/fleethook/console/assets/"))
    wanted = {name.removeprefix("app/") for name in names if name and (ROOT / name).is_file()}
    packed = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    assert packed == wanted


def test_a_clean_environment_has_the_public_package(python: Path, tmp_path: Path) -> None:
    script = tmp_path / "use.py"
    script.write_text(USE, encoding="utf-8")
    assert run(python, script, cwd=tmp_path) == "{'a': 1} /a Database\n"
    where = run(python, "-c", "import fleethook; print(fleethook.__file__)", cwd=tmp_path)
    assert Path(where.strip()).is_relative_to(python.parents[1])


def test_a_project_with_a_package_named_app_can_use_the_wheel(python: Path, tmp_path: Path) -> None:
    (tmp_path / "app").mkdir()
    (tmp_path / "app" / "__init__.py").write_text("MINE = True\n", encoding="utf-8")
    code = "import app, fleethook.interpret, fleethook.model, fleethook.patch; print(app.MINE, fleethook.patch.diff({}, {}))"
    assert run(python, "-c", code, cwd=tmp_path) == "True []\n"


def test_the_program_of_the_wheel_tests_an_interpreter(python: Path, tmp_path: Path) -> None:
    folder = ROOT / "examples" / "interpreter"
    arguments = ("interpret", "test", folder / "testdata", "--interpreters", folder / "database.py")
    assert "4 passed, 0 failed" in run(python.with_name("fleethook"), *arguments, cwd=tmp_path)


def test_a_type_checker_reads_the_types_of_the_wheel(python: Path, tmp_path: Path) -> None:
    script = tmp_path / "use.py"
    mypy = (sys.executable, "-m", "mypy", "--strict", "--python-executable", python, "--no-incremental")
    script.write_text(USE, encoding="utf-8")
    assert "no issues found" in run(*mypy, script, cwd=tmp_path)
    script.write_text(MISUSE, encoding="utf-8")
    checked = subprocess.run([*mypy, script], check=False, capture_output=True, text=True, timeout=NET, cwd=tmp_path)
    codes = [line.rpartition(" ")[2] for line in checked.stdout.splitlines() if ": error:" in line]
    assert codes == ["[call-arg]", "[arg-type]", "[call-arg]", "[arg-type]"], checked.stdout
