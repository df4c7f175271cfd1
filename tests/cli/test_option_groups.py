"""Groups of options: one option for each member, and the command gets the group."""

from typing import Annotated, NamedTuple

import typer
from typer.testing import CliRunner

from app.cli.option_groups import expand


class Limits(NamedTuple):
    size: Annotated[int, typer.Option(help="Size of it.")] = 3
    strict: Annotated[bool, typer.Option("--strict", help="Be strict.")] = False


def make_command(taken: list[tuple[str, Limits, int]]) -> typer.Typer:
    app = typer.Typer()

    @app.command()
    @expand
    def work(
        name: Annotated[str, typer.Argument()],
        limits: Limits,
        *,
        count: Annotated[int, typer.Option("--count")] = 1,
    ) -> None:
        """Do the work."""
        taken.append((name, limits, count))

    return app


def test_a_command_gets_the_group_of_its_options() -> None:
    taken: list[tuple[str, Limits, int]] = []
    command = make_command(taken)
    for arguments in (["a"], ["a", "--size", "5", "--strict", "--count", "2"]):
        assert CliRunner().invoke(command, arguments).exit_code == 0
    assert taken == [("a", Limits(), 1), ("a", Limits(5, strict=True), 2)]


def test_the_help_has_the_options_at_the_place_of_the_group() -> None:
    text = CliRunner().invoke(make_command([]), ["--help"]).output
    assert "Do the work." in text
    assert text.index("--size") < text.index("--strict") < text.index("--count")
    assert "Size of it." in text
    assert "--limits" not in text
