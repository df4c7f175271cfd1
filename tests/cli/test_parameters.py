"""Declarations of options in signatures. test_command_line.py has the words and their values."""

from pathlib import Path
from typing import Annotated, NamedTuple

from fleethook.cli.parameters import Argument, Option, call, list_parameters


class Limits(NamedTuple):
    size: Annotated[int, Option(help="Size of it.")] = 3
    strict: Annotated[bool, Option("--strict", help="Be strict.")] = False


def work(
    path: Annotated[Path, Argument(metavar="PATH|-", help="Path.")],
    limits: Limits,
    names: Annotated[list[str] | None, Option("--name", "-n", help="Name; may be repeated.")] = None,
    *,
    is_on: Annotated[bool, Option(help="Work.")] = True,
    target: Annotated[Path, Option(help="Target.")],
) -> None:
    """Do the work."""
    TAKEN.append((path, limits, names, is_on, target))


TAKEN: list[object] = []


def test_a_signature_has_all_that_the_help_shows() -> None:
    shown = [(one.usage, one.description, one.is_required, one.is_list) for one in list_parameters(work)]
    assert shown == [
        ("PATH|-", "Path.", True, False),
        ("--size NUMBER", "Size of it. [default: 3]", False, False),
        ("--strict", "Be strict.", False, False),
        ("-n, --name TEXT", "Name; may be repeated.", False, True),
        ("--is-on, --no-is-on", "Work.", False, False),
        ("--target PATH", "Target. [required]", True, False),
    ]


def test_a_command_gets_its_groups_and_defaults() -> None:
    TAKEN.clear()
    call(work, {"path": Path("a"), "strict": True, "target": Path("b")})
    assert [(Path("a"), Limits(3, strict=True), None, True, Path("b"))] == TAKEN
