"""The size of the code: modules, lines, files in a folder, and small modules with one importer. The maxima only fall.

`python -m tests.test_house` prints the present counts. After a cut, write them into `MAXIMA`.
"""

import ast
import re
import sys
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

import pytest

PACKAGE: Final = Path(__file__).parents[1] / "app" / "fleethook"
EXPLANATION: Final = PACKAGE.parents[1] / "docs" / "explanation"
LAYOUT: Final = EXPLANATION / "layout.md"
GLOSSARY: Final = EXPLANATION / "glossary.md"
MAX_TERMS: Final = 40
TESTS: Final = Path(__file__).parent
MAX_REPLACEMENTS: Final = 39
"""Places in tests that replace a member of a module. Give a class or a function a parameter instead."""
SMALL: Final = 40
"""Lines of a small module. One with a single importer belongs into that importer."""


class Counts(NamedTuple):
    """The size of a package.

    Attributes:
        modules: Modules, except ``__init__``.
        lines: Lines of code: without blank lines, comments and docstrings.
        files_in_a_folder: Modules of the largest folder, except ``__init__``.
        small_modules: Modules under `SMALL` lines that one other module imports.
    """

    modules: int
    lines: int
    files_in_a_folder: int
    small_modules: int


GOALS: Final = Counts(modules=330, lines=52_400, files_in_a_folder=13, small_modules=0)
MAXIMA: Final = Counts(modules=330, lines=52_400, files_in_a_folder=13, small_modules=0)


def count_code_lines(source: str) -> int:
    """Return the number of lines that are neither blank, nor comments, nor part of a docstring."""
    documented = {line for text in _find_docstrings(source) for line in range(text.lineno, (text.end_lineno or 0) + 1)}
    return sum(
        number not in documented and bool(line.strip()) and not line.lstrip().startswith("#")
        for number, line in enumerate(source.splitlines(), 1)
    )


def _find_docstrings(source: str) -> Iterator[ast.Expr]:
    """Yield the docstrings of modules, classes, functions and constants: all texts that are statements."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node


def list_imports(source: str) -> set[str]:
    """Return the names of all modules that a source imports, and of their members."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found.update(one.name for one in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.update((node.module, *(f"{node.module}.{one.name}" for one in node.names)))
    return found


def count_package(package: Path) -> Counts:
    """Return the counts of a package, whose modules import each other by absolute names."""
    sources = {path: path.read_text(encoding="utf-8") for path in package.rglob("*.py")}
    modules = [path for path in sources if path.name != "__init__.py"]
    names = {path: ".".join(path.relative_to(package.parent).with_suffix("").parts) for path in modules}
    importers = Counter(name for source in sources.values() for name in list_imports(source))
    small = [path for path in modules if len(sources[path].splitlines()) < SMALL and importers[names[path]] == 1]
    folders = Counter(path.parent for path in modules)
    lines = sum(map(count_code_lines, sources.values()))
    return Counts(len(modules), lines, max(folders.values()), len(small))


@pytest.mark.parametrize("name", Counts._fields)
def test_the_code_does_not_grow(name: str) -> None:
    count, most = getattr(count_package(PACKAGE), name), getattr(MAXIMA, name)
    assert count <= most, f"{name}: {count} of at most {most}, with the goal {getattr(GOALS, name)}: inline or delete"


def test_each_folder_of_the_drawing_exists() -> None:
    _, drawing, _ = LAYOUT.read_text(encoding="utf-8").split("```", 2)
    folders = {path.name for path in PACKAGE.parent.rglob("*") if path.is_dir()} | {PACKAGE.parent.name}
    assert set(re.findall(r"(\w+)/", drawing)) - folders == set()


@cache
def list_public_classes(package: Path) -> list[tuple[str, str]]:
    """Return module and name of each public class of a package; modules without the name of the package."""
    return [
        (".".join(path.relative_to(package).with_suffix("").parts), node.name)
        for path in sorted(package.rglob("*.py"))
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    ]


def test_each_public_class_has_a_name_of_its_own() -> None:
    counts = Counter(name for _, name in list_public_classes(PACKAGE))
    assert {name for name, count in counts.items() if count > 1} == set()


def test_the_class_of_each_term_of_the_glossary_exists() -> None:
    rows = re.findall(
        r"^\| ([a-z ]+) \| .+ \| `(\w+)` \| `([\w.]+)` \|$", GLOSSARY.read_text(encoding="utf-8"), re.MULTILINE
    )
    terms, classes = [term for term, *_ in rows], list_public_classes(PACKAGE)
    assert 30 < len(terms) == len(set(terms)) <= MAX_TERMS
    assert {(module, name) for _, name, module in rows} - set(classes) == set()
    names = Counter(name.lower() for _, name in classes)
    assert [term for term in terms if names[term.replace(" ", "")] > 1] == []


def list_replacements(source: str) -> list[str]:
    """Return the calls of ``monkeypatch.setattr`` in a test that replace a member of a module."""
    tree = ast.parse(source)
    modules: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            modules |= {one.asname or one.name.partition(".")[0] for one in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            folders = [root / node.module.replace(".", "/") for root in (PACKAGE.parent, TESTS.parent)]
            paths = {one.asname or one.name: [each / f"{one.name}.py" for each in folders] for one in node.names}
            modules |= {name for name, found in paths.items() if any(map(Path.exists, found))}
    calls = (one for one in ast.walk(tree) if isinstance(one, ast.Call) and isinstance(one.func, ast.Attribute))
    setting = [one for one in calls if isinstance(one.func, ast.Attribute) and one.func.attr == "setattr" and one.args]
    targets = [ast.unparse(one.args[0]) for one in setting]
    return [one for one in targets if one[0] in "'\"" or one.partition(".")[0] in modules]


def test_tests_give_parameters_instead_of_replacing_members_of_modules() -> None:
    found = {path: list_replacements(path.read_text(encoding="utf-8")) for path in TESTS.rglob("*.py")}
    count = sum(map(len, found.values()))
    assert count <= MAX_REPLACEMENTS, {str(path.relative_to(TESTS)): one for path, one in found.items() if one}


def test_members_of_modules_but_not_of_objects_are_replacements() -> None:
    source = "import os\nfrom fleethook.cluster import store, api_errors\nfrom fleethook.cluster.store import Store\n"
    calls = (
        'm.setattr(os.path, "x", 1)',
        'm.setattr("a.b", 1)',
        'm.setattr(store, "x", 1)',
        'm.setattr(Store, "x", 1)',
    )
    assert list_replacements(source + "\n".join(calls)) == ["os.path", "'a.b'", "store"]


def test_lines_without_blank_lines_comments_and_docstrings_count() -> None:
    source = '"""Module.\n\nText.\n"""\n\nLIMIT = 3  # comment\n"""A constant."""\n# comment\ntext = """\n# text\n"""\n'
    assert count_code_lines(source) == 3


def test_small_modules_with_one_importer_and_large_folders_are_counted(tmp_path: Path) -> None:
    package = tmp_path / "house"
    (package / "room").mkdir(parents=True)
    for name, text in {
        "__init__.py": "",
        "a.py": "from house.room import b\nimport house.room.c\n",
        "room/__init__.py": "",
        "room/b.py": "from house.room.c import X\n",
        "room/c.py": "X = 1\n",
        "room/d.py": "X = 1\n" * SMALL,
    }.items():
        (package / name).write_text(text, encoding="utf-8")
    assert count_package(package) == Counts(modules=4, lines=4 + SMALL, files_in_a_folder=3, small_modules=1)


if __name__ == "__main__":
    sys.stdout.write(f"MAXIMA: Final = {count_package(PACKAGE)}\n")
