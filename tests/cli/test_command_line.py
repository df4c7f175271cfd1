"""The tree of commands, and the rules of command lines."""

import subprocess
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated, NamedTuple

import pytest

from fleethook.cli.command_line import CommandSpec, Group, run
from fleethook.cli.parameters import Argument, Option, list_parameters
from tests.cli.commands import invoke
from tests.serving import ROOT
from tests.waiting import NET


class Output(StrEnum):
    TEXT = "text"
    JSON = "json"


class Limits(NamedTuple):
    size: Annotated[int, Option(help="Size of it.", minimum=1, maximum=9)] = 3
    strict: Annotated[bool, Option("--strict", help="Be strict.")] = False


TAKEN: list[dict[str, object]] = []


def work(
    files: Annotated[list[Path] | None, Argument(help="Files.")] = None,
    limits: Limits = Limits(),  # noqa: B008 - as commands declare it
    *,
    name: Annotated[list[str] | None, Option("--name", "-n", help="Name.")] = None,
    output: Annotated[Output, Option("--output", "-o", help="Format.")] = Output.TEXT,
    bundle: Annotated[bool, Option(help="Include the bundle.")] = True,
    verbose: Annotated[bool, Option("--verbose", "-v", help="Say more.")] = False,
    rate: Annotated[float | None, Option(help="Rate.")] = None,
) -> None:
    """Do the work."""
    given = {
        "files": files,
        "limits": limits,
        "name": name,
        "output": output,
        "bundle": bundle,
        "verbose": verbose,
        "rate": rate,
    }
    TAKEN.append(given)


def copy(
    source: Annotated[Path, Argument(help="Source.")],
    to: Annotated[Path, Option(help="Target [of it].")],
    data_dir: Annotated[Path | None, Option(help="Data.")] = None,
) -> None:
    """Copy a file."""
    TAKEN.append({"source": source, "to": to, "data_dir": data_dir})


SHARED = tuple(one for one in list_parameters(copy) if one.name == "data_dir")
FILES = Group("Files.", {"copy": copy}, shared=SHARED)
DEFAULTS = {
    "files": None,
    "limits": Limits(),
    "name": None,
    "output": Output.TEXT,
    "bundle": True,
    "verbose": False,
    "rate": None,
}


def parse(*words: str) -> dict[str, object]:
    """Return the values that the command gets."""
    TAKEN.clear()
    run(Group("Tests.", {"work": work, "copy": copy}), words, "t")
    (given,) = TAKEN
    return given


@pytest.mark.parametrize(
    ("words", "changed"),
    [
        ([], {}),
        (["a", "-o", "json", "b"], {"files": [Path("a"), Path("b")], "output": Output.JSON}),
        (["-ojson"], {"output": Output.JSON}),
        (["-o=json"], {"output": Output.JSON}),
        (["--output=json"], {"output": Output.JSON}),
        (["-vo", "json"], {"output": Output.JSON, "verbose": True}),
        (["--", "-v", "--"], {"files": [Path("-v"), Path("--")]}),
        (["-", "-v"], {"files": [Path("-")], "verbose": True}),
        (["-n", "a", "--name", "b", "--name="], {"name": ["a", "b", ""]}),
        (["-n", "-"], {"name": ["-"]}),
        (["--name", "-x"], {"name": ["-x"]}),
        (["--rate", "-1.5"], {"rate": -1.5}),
        (["--size", "9", "--strict"], {"limits": Limits(9, strict=True)}),
        (["--strict=false", "--verbose=true"], {"verbose": True}),
        (["--no-bundle"], {"bundle": False}),
        (["--no-bundle", "--bundle"], {}),
        (["--bundle=false"], {"bundle": False}),
        (["-o", "text", "-o", "json"], {"output": Output.JSON}),
    ],
)
def test_words_become_values(words: list[str], changed: dict[str, object]) -> None:
    assert parse("work", *words) == {**DEFAULTS, **changed}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["wrok"], "there is no command wrok; did you mean work?"),
        (["work", "--outptu", "json"], "there is no option --outptu; did you mean --output?"),
        (["work", "-x"], "there is no option -x"),
        (["work", "--output"], "--output needs a value: --output [text|json]"),
        (["work", "--name", "--strict"], "--name needs a value: --name TEXT"),
        (["work", "-o", "jsn"], "-o: 'jsn' is none of text, json"),
        (["work", "--size", "x"], "--size: 'x' is not a whole number"),
        (["work", "--size", "10"], "--size: 10 is out of range: it must be at least 1 and at most 9"),
        (["work", "--rate", "nan"], "--rate: nan is out of range: it must be finite"),
        (["work", "--strict=no"], "--strict: 'no' is neither true nor false"),
        (["copy", "--to", "b"], "give SOURCE: Source."),
        (["copy", "a"], "give an option --to PATH: Target [of it]."),
        (["copy", "a", "b", "--to", "c"], "unexpected argument 'b'"),
    ],
)
def test_a_mistake_gets_a_message_and_exit_code_2(
    capsys: pytest.CaptureFixture[str], words: list[str], message: str
) -> None:
    with pytest.raises(SystemExit) as left:
        parse(*words)
    assert left.value.code == 2
    assert capsys.readouterr().err.splitlines()[0] == f"fleethook: {message}"
    assert not TAKEN


@pytest.mark.parametrize(
    "words", [["--data-dir", "d", "copy", "a", "--to", "b"], ["copy", "a", "--to=b", "--data-dir=d"]]
)
def test_an_option_of_a_group_may_precede_the_command(words: list[str]) -> None:
    TAKEN.clear()
    run(Group("Tests.", {"files": CommandSpec(__name__, "FILES", "Files.")}), ["files", *words], "t")
    assert [{"source": Path("a"), "to": Path("b"), "data_dir": Path("d")}] == TAKEN


def test_help_goes_to_standard_output_and_a_missing_command_is_an_error() -> None:
    for words in (["-h"], ["lint", "--help"], ["crds", "cache", "-h"], ["lint", "--output", "github", "a", "-h"]):
        done = invoke(words)
        assert (done.exit_code, done.stderr) == (0, "")
        assert done.stdout.startswith("Usage: fleethook")
    done = invoke(["crds"])
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.startswith("Usage: fleethook crds")


HEAVY = {"aiohttp", "asyncio", "cryptography", "fastapi", "google", "kubernetes_asyncio", "lupa", "pydantic", "urllib3"}
STORY = "examples/yurtappoverrider/story-2"


@pytest.mark.parametrize(
    ("words", "unneeded", "most"),
    [
        (["--version"], HEAVY | {"msgspec", "yaml"}, 75),
        (["--help"], HEAVY | {"msgspec", "yaml"}, 90),
        (["render", "-f", STORY], HEAVY, 350),
        (["lint", "-f", f"{STORY}/overrider.yaml"], HEAVY, 350),
        (["crds", "--data-dir", "/nowhere", "cache", "ls"], HEAVY - {"urllib3", "cryptography", "asyncio"}, 530),
        (["certs", "--help"], HEAVY - {"cryptography", "asyncio"}, 350),
    ],
)
def test_a_command_imports_only_the_libraries_that_it_needs(words: list[str], unneeded: set[str], most: int) -> None:
    """A module takes up to a millisecond to import. The part `cli` of the benchmark measures the time."""
    code = f"import sys\nfrom fleethook.cli import run_command\nrun_command({words!r})\nprint(*sys.modules, file=sys.stderr)"
    done = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True, timeout=NET, cwd=ROOT
    )
    imported = done.stderr.splitlines()[-1].split()
    assert not unneeded.intersection(imported)
    assert len(imported) <= most
