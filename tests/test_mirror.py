"""Tests mirror `app/fleethook/`: each module with a function has a test file at the same path."""

import ast
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parents[1]

# The modules without a test file of their own, by the reason. Add one only if conformance data decides all of its
# behaviour. Remove a module from the list when it gets its file.
EXCEPTIONS: Final[dict[str, tuple[str, ...]]] = {
    "tests/conformance/test_gopher_lua.py and the parser decide its tokens and errors": (
        "engines/interpret/lua/script_scanner_and_rewriter.py",
    ),
    "the cases of tests/conformance/test_cel.py decide these: values, costs and errors": (
        "cel/check/checker.py",
        "cel/check/types_and_declarations.py",
        "cel/library/network_and_formats.py",
        "cel/library/lists_and_optionals.py",
        "cel/library/quantities_and_semver.py",
        "cel/library/standard.py",
        "cel/parse/macros.py",
        "cel/plan/attributes.py",
        "cel/plan/costs.py",
        "cel/plan/calls_literals_loops.py",
        "cel/plan/planner.py",
        "cel/values/times.py",
    ),
}


def has_behaviour(source: str) -> bool:
    """Return whether a module has a function with a statement, so that it is more than types and constants."""
    functions = (one for one in ast.walk(ast.parse(source)) if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef))
    return any(not _is_declaration(statement) for function in functions for statement in function.body)


def _is_declaration(statement: ast.stmt) -> bool:
    """Return whether a statement is a docstring, ``...`` or ``pass``, as in protocols."""
    return isinstance(statement, ast.Pass) or (
        isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
    )


def find_untested(root: Path = ROOT) -> set[str]:
    """Return the paths below `app/fleethook/` of the modules with behaviour that have no test file at the mirrored path."""
    package = root / "app" / "fleethook"
    modules = (module.relative_to(package) for module in package.rglob("*.py"))
    return {
        module.as_posix()
        for module in modules
        if module.name not in ("__init__.py", "__main__.py")
        and not (root / "tests" / module.with_name(f"test_{module.name}")).exists()
        and has_behaviour((package / module).read_text(encoding="utf-8"))
    }


def test_each_module_with_behaviour_has_a_test_file() -> None:
    missing = sorted(find_untested().difference(*EXCEPTIONS.values()))
    assert missing == [], "write tests/PATH/test_MODULE.py for these modules of app/fleethook/"


def test_each_exception_is_still_needed() -> None:
    listed = [module for modules in EXCEPTIONS.values() for module in modules]
    unneeded = sorted(set(listed) - find_untested())
    assert unneeded == [], "remove these modules from EXCEPTIONS: they have a test file, no behaviour, or are gone"
    assert len(listed) == len(set(listed))


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("def double(number):\n    return 2 * number\n", True),
        ("class One:\n    async def two(self):\n        return 2\n", True),
        ('class Reader(Protocol):\n    def read(self):\n        """Read."""\n        ...\n', False),
        ("from enum import Enum\n\nLIMIT = 3\n\nclass Colour(Enum):\n    RED = 1\n", False),
    ],
)
def test_only_modules_with_a_function_have_behaviour(source: str, *, expected: bool) -> None:
    assert has_behaviour(source) is expected


def test_a_module_without_a_test_file_is_found(tmp_path: Path) -> None:
    for path in (
        "app/fleethook/__init__.py",
        "app/fleethook/a/b.py",
        "app/fleethook/a/c.py",
        "app/fleethook/a/d.py",
        "tests/a/test_b.py",
    ):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text("def run():\n    return 1\n", encoding="utf-8")
    (tmp_path / "app/fleethook/a/d.py").write_text("LIMIT = 3\n", encoding="utf-8")
    assert find_untested(tmp_path) == {"a/c.py"}
