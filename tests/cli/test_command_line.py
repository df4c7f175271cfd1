"""The tree of commands, and the rules of command lines."""

import subprocess
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated, NamedTuple

import pytest

from fleethook.cli.command_line import CHECK_FAILED, Argument, CommandGroup, Option, fail, run
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
) -> None:
    """Copy a file."""
    TAKEN.append({"source": source, "to": to})


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
    run(CommandGroup("Tests.", {"work": work, "copy": copy}), words, "t")
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
        (["--no-bundle"], {"bundle": False}),
        (["--no-bundle", "--bundle"], {}),
        (["-o", "text", "-o", "json"], {"output": Output.JSON}),
    ],
)
def test_words_become_values(words: list[str], changed: dict[str, object]) -> None:
    assert parse("work", *words) == {**DEFAULTS, **changed}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["wrok"], "No such command 'wrok'. Did you mean 'work'?"),
        (["work", "--outptu", "json"], "No such option '--outptu'. Did you mean '--output'?"),
        (["work", "--output"], "Option '--output' requires an argument."),
        (["work", "-o", "jsn"], "Invalid value for '--output' / '-o': 'jsn' is not one of 'text', 'json'."),
        (["work", "--size", "x"], "Invalid value for '--size': 'x' is not a valid integer range."),
        (["work", "--size", "10"], "Invalid value for '--size': 10 is not in the range 1<=x<=9."),
        (["work", "-", "-"], "- (standard input) is given more than once."),
        (["copy", "--to", "b"], "Missing argument 'SOURCE'."),
        (["copy", "", "--to", "b"], "Invalid value for 'SOURCE': The path is empty."),
        (["copy", "a"], "Missing option '--to'."),
        (["copy", "a", "b", "--to", "c"], "Got unexpected extra argument (b)"),
    ],
)
def test_a_mistake_gets_a_message_and_exit_code_2(
    capsys: pytest.CaptureFixture[str], words: list[str], message: str
) -> None:
    with pytest.raises(SystemExit) as left:
        parse(*words)
    assert left.value.code == 2
    assert capsys.readouterr().err.splitlines()[-1] == f"Error: {message}"
    assert not TAKEN


def test_a_file_without_its_option_gets_the_options_for_files() -> None:
    done = invoke(["serve", "rules.py"])
    expected = "Error: Got unexpected extra argument (rules.py): give files by --manifests or --rules."
    assert (done.exit_code, done.stderr.splitlines()[-1]) == (2, expected)


def test_a_missing_command_is_an_error_with_the_help() -> None:
    done = invoke(["crds"])
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.startswith("Usage: fleethook crds")


HEAVY = {"aiohttp", "asyncio", "cryptography", "fastapi", "google", "kubernetes_asyncio", "lupa", "pydantic", "urllib3"}
STORY = "examples/yurtappoverrider/story-2"


@pytest.mark.parametrize(
    ("words", "unneeded", "most"),
    [
        (["--version"], HEAVY | {"msgspec", "yaml"}, 120),
        (["--help"], HEAVY | {"msgspec", "yaml"}, 145),
        (["render", "-f", STORY], HEAVY, 350),
        (["lint", "-f", f"{STORY}/overrider.yaml"], HEAVY, 350),
        (["crds", "--data-dir", "/nowhere", "cache", "ls"], HEAVY - {"urllib3", "cryptography", "asyncio"}, 530),
    ],
)
def test_a_command_imports_only_the_libraries_that_it_needs(words: list[str], unneeded: set[str], most: int) -> None:
    """A module takes up to a millisecond to import. The part `cli` of the benchmark measures the time."""
    code = f"import sys\nfrom fleethook.cli.command_line import run_command\nrun_command({words!r})\nprint(*sys.modules, file=sys.stderr)"
    done = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True, timeout=NET, cwd=ROOT
    )
    imported = done.stderr.splitlines()[-1].split()
    assert not unneeded.intersection(imported)
    assert len(imported) <= most


@pytest.mark.parametrize(("options", "code"), [({}, 2), ({"code": CHECK_FAILED}, 1), ({"code": 23}, 23)])
def test_a_failure_has_a_message_and_an_exit_code(
    capsys: pytest.CaptureFixture[str], options: dict[str, int], code: int
) -> None:
    with pytest.raises(SystemExit) as caught:
        fail("no such\nfile", **options)
    assert caught.value.code == code
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.startswith("fleethook: no such")
    assert shown.err.count("\n") == 1


SWALLOWING = """
import os, signal
signal.signal(signal.SIGINT, signal.default_int_handler)
from fleethook.cli.command_line import exit_at_interrupt, raise_at_interrupt
class Interrupted:
    def __del__(self):
        os.kill(os.getpid(), signal.SIGINT)
"""


@pytest.mark.parametrize(
    ("statements", "code", "printed"),
    [
        # The interpreter drops an exception of a finalizer, and the program would go on.
        ("exit_at_interrupt(); Interrupted(); print('lost')", 130, ""),
        ("exit_at_interrupt(); raise_at_interrupt(); Interrupted(); print('lost')", 0, "lost\n"),
        ("signal.signal(signal.SIGINT, signal.SIG_IGN); exit_at_interrupt(); Interrupted(); print('on')", 0, "on\n"),
    ],
)
def test_ctrl_c_ends_a_program_at_once_wherever_it_arrives(statements: str, code: int, printed: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", f"{SWALLOWING}\n{statements}"], capture_output=True, text=True, cwd=ROOT, check=False
    )
    assert (done.returncode, done.stdout) == (code, printed)
    assert ("KeyboardInterrupt" in done.stderr) == (printed == "lost\n")
