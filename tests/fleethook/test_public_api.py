"""The supported API: its names exist, its signatures are public, and documentation and examples use nothing else."""

import ast
import doctest
import importlib
import inspect
import re
import subprocess
import sys
import types
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import fleethook

ROOT = Path(__file__).parents[2]
CODE_BLOCK = re.compile(r"^ *```(?:python|py)\n(.*?)^ *```", re.DOTALL | re.MULTILINE)
IMPORT_LINE = re.compile(r"^[ \t]*(?:from|import)[ \t]+(app|fleethook(?:\.\w+)*)(?=[\s,]|$)", re.MULTILINE)
TABLE_ROW = re.compile(r"^\| `(fleethook[\w.]*)` \| (.*) \|$", re.MULTILINE)
DOCUMENTED = {
    module: re.findall(r"`(\w+)`", names)
    for module, names in TABLE_ROW.findall((ROOT / "docs/python.md").read_text(encoding="utf-8"))
}
"""The names that docs/python.md lists, by module."""
MODULES = sorted(DOCUMENTED)


def public_names(module: str) -> list[str]:
    found: list[str] = importlib.import_module(module).__all__
    return found


def public_objects() -> Iterator[Any]:
    for module in MODULES:
        for name in public_names(module):
            yield getattr(importlib.import_module(module), name)


def types_in(annotation: Any) -> Iterator[type]:
    """Yield the classes that an annotation names."""
    if isinstance(annotation, type) and not isinstance(annotation, types.GenericAlias):
        yield annotation
    for argument in typing.get_args(annotation):
        yield from types_in(argument)


def annotations_of(item: Any) -> Iterator[Any]:
    """Yield the annotations of a function, or of the public members of a class."""
    members: list[Any] = [item]
    if isinstance(item, type):
        yield from (kind for name, kind in typing.get_type_hints(item).items() if not name.startswith("_"))
        members = [
            getattr(member, "func", getattr(member, "fget", member))
            for name, member in vars(item).items()
            if not name.startswith("_") or name == "__init__"
        ]
    for member in members:
        if inspect.isfunction(member):
            yield from typing.get_type_hints(member).values()


def documents() -> list[Path]:
    folders = [ROOT / name for name in ("docs", "examples", "charts")]
    files = [file for folder in folders for file in sorted(folder.rglob("*")) if file.is_file()]
    return [ROOT / "README.md", ROOT / "CHANGELOG.md", *files]


def python_in(path: Path) -> list[str]:
    """Return the Python code of a file, or of the code blocks of a page; prompts are left out."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".py":
        return [text]
    return ["\n".join(unprompted(block)) for block in CODE_BLOCK.findall(text)] if path.suffix == ".md" else []


def unprompted(block: str) -> list[str]:
    if ">>>" not in block:
        return [block]
    return [example.source for example in doctest.DocTestParser().get_examples(block)]


def imported_by(code: str) -> set[str]:
    """Return the modules that code imports."""
    found = set()
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Import):
            found |= {name.name for name in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
    return found


def unsupported(modules: set[str]) -> list[str]:
    """Return the modules of fleethook that no user may import."""
    return sorted(one for one in modules - set(MODULES) if one.partition(".")[0] in ("app", "fleethook"))


@pytest.mark.parametrize("module", MODULES)
def test_every_name_of_all_resolves(module: str) -> None:
    names = public_names(module)
    assert len(names) == len(set(names))
    loaded = importlib.import_module(module)
    assert [name for name in names if not hasattr(loaded, name)] == []


@pytest.mark.parametrize("module", MODULES)
def test_the_page_about_python_lists_the_names_of_all(module: str) -> None:
    loaded = importlib.import_module(module)
    names = {name for name in public_names(module) if not inspect.ismodule(getattr(loaded, name))}
    assert names == set(DOCUMENTED[module])


def test_each_supported_name_of_a_package_is_found_without_a_further_import() -> None:
    code = "import fleethook; print(fleethook.model.Quantity, fleethook.model.crd_tarball.CRDTarball, fleethook.patch.diff)"
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        fleethook.nothing  # noqa: B018 - it raises
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        fleethook.model.nothing  # noqa: B018 - it raises


@pytest.mark.parametrize("module", MODULES)
def test_every_module_and_every_public_class_and_function_has_a_docstring(module: str) -> None:
    loaded = importlib.import_module(module)
    items = {name: getattr(loaded, name) for name in public_names(module)}
    documented = {name: item for name, item in items.items() if inspect.isclass(item) or inspect.isfunction(item)}
    assert loaded.__doc__
    assert [name for name, item in documented.items() if not item.__doc__] == []


def test_every_type_in_a_public_signature_is_public() -> None:
    classes = [item for item in public_objects() if isinstance(item, type)]
    named = {kind for item in public_objects() for hint in annotations_of(item) for kind in types_in(hint)}
    assert sorted(kind.__qualname__ for kind in named - set(classes) if kind.__module__.startswith("fleethook.")) == []


def test_the_package_is_marked_as_typed() -> None:
    assert (ROOT / "app/fleethook/py.typed").is_file()


@pytest.mark.parametrize("path", documents(), ids=lambda path: str(path.relative_to(ROOT)))
def test_documentation_examples_and_charts_import_no_implementation(path: Path) -> None:
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        return
    assert unsupported(set(IMPORT_LINE.findall(text))) == []
    assert unsupported({module for code in python_in(path) for module in imported_by(code)}) == []


def test_the_example_of_an_interpreter_uses_the_public_package() -> None:
    assert "fleethook.interpret" in imported_by((ROOT / "examples/interpreter/database.py").read_text(encoding="utf-8"))


# A page has the same rules for another framework.
NOT_INSTALLED = {"kopf"}


@pytest.mark.parametrize(
    "page", [path for path in documents() if path.suffix == ".md" and python_in(path)], ids=lambda page: page.name
)
def test_python_of_documentation_runs(page: Path) -> None:
    if ">>>" in page.read_text(encoding="utf-8"):
        results = doctest.testfile(str(page), module_relative=False)
        assert (results.attempted > 0, results.failed) == (True, 0)
    else:
        code = [one for one in python_in(page) if NOT_INSTALLED.isdisjoint(imported_by(one))]
        assert code
        exec(compile("\n".join(code), str(page), "exec"), {"__name__": "example"})


@pytest.mark.parametrize("form", ["import {}", "import {} as a", "from {} import name"])
@pytest.mark.parametrize("module", ["app", "fleethook.cluster.store", "fleethook.patch.diff"])
def test_the_check_of_imports_sees_every_form(form: str, module: str) -> None:
    statement = form.format(module)
    assert unsupported(set(IMPORT_LINE.findall(f"text\n    {statement}"))) == [module]
    assert unsupported(imported_by(f"def f():\n    {statement}")) == [module]
    assert unsupported(imported_by(form.format("apple") + "\nimport fleethook.patch")) == []
