"""The help of each command, compared with its source."""

import os
import pty
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from fleethook.cli.command_line import PROGRAM, CommandGroup, build_program
from tests.cli.commands import invoke
from tests.serving import ROOT
from tests.waiting import NET


def list_commands(group: CommandGroup, path: str = "") -> Iterator[tuple[str, click.Command, str]]:
    """Yield the path of each command of the program, the command, and its line in the list of its group."""
    for name in group.list_commands(click.Context(group)):
        command = group.get_command(None, name)
        assert command is not None
        yield f"{path}{name}", command, group.summarize(name)
        if isinstance(command, CommandGroup):
            yield from list_commands(command, f"{path}{name} ")


COMMANDS = [("", build_program(), ""), *list_commands(build_program())]


@pytest.mark.parametrize(("path", "command", "summary"), COMMANDS, ids=[path for path, _, _ in COMMANDS])
def test_the_help_has_all_texts_of_the_source(path: str, command: click.Command, summary: str) -> None:
    """Nothing is cut. The summary in the list, for which the command is not imported, is that of its help."""
    done = invoke([*path.split(), "-h"])
    assert (done.exit_code, done.stderr) == (0, "")
    shown = "".join(done.stdout.split())
    help_text = (command.help or "").partition("\n\n")[0]
    assert not summary or summary == " ".join(help_text.split())
    texts = [command.help or "", *(str(getattr(one, "help", "") or "") for one in command.params)]
    assert [text for text in texts if "".join(text.split()) not in shown] == []


def test_the_commands_are_grouped_by_the_systems_of_their_users() -> None:
    parts = invoke(["--help"]).stdout.split("\n\n")
    found = {part.partition(":\n")[0]: re.findall(r"^  (\w+)  ", part, re.MULTILINE) for part in parts}
    assert {"render", "diff"} <= {*found["OpenYurt"]}
    assert found["Karmada"] == ["interpret", "crds"]
    assert found["kcp, and webhooks of any cluster"] == ["explain", "webhook"]
    assert found["Admission rules"] == ["rules"]
    assert {"serve", "lint", "doctor", "uninstall"} <= {*found["Operation"]}


def test_defaults_are_shown_as_users_type_them() -> None:
    shown = " ".join(invoke(["lint", "-h"]).stdout.split())
    assert "-o, --output [text|json|github] Output format. [default: text]" in shown
    assert "[default: 9444]" in invoke(["console", "-h"]).stdout


@pytest.mark.parametrize(
    ("words", "usage"),
    [
        ("", "fleethook [OPTIONS] COMMAND [ARGUMENTS]..."), ("crds", "fleethook crds [OPTIONS] COMMAND [ARGUMENTS]..."),
        ("crds pin", "fleethook crds pin [OPTIONS] URL"), ("crds fetch", "fleethook crds fetch [OPTIONS] [URL|FILE]"),
        ("interpret test", "fleethook interpret test [OPTIONS] PATHS..."),
        ("lint", "fleethook lint [OPTIONS] [FILES]..."),
    ],
)  # fmt: skip
def test_the_usage_has_the_arguments(words: str, usage: str) -> None:
    assert invoke([*words.split(), "--help"]).stdout.splitlines()[0] == f"Usage: {usage}"


FILES = {"FILES...", "-f...", "--filename...", "--exclude...", "--verbose", "--strict", "-n", "--namespace"}
CLUSTER = {"--kubeconfig", "--context", "--in-cluster"}
# The sources of each command. Forms that a command with files lacks need a reason.
READS: dict[str, tuple[set[str], set[str]]] = {
    **{name: (FILES | CLUSTER, set()) for name in ("render", "diff", "lint", "explain", "webhook test")},
    # A server follows one directory.
    "serve": (FILES | CLUSTER, {"FILES...", "--verbose", "--strict"}),
    # A page shows the documents that are skipped.
    "console": (FILES | CLUSTER, {"--verbose", "--strict"}),
    # Their positional arguments are recordings, fixtures and rules.
    "replay": (FILES | CLUSTER, {"FILES..."}),
    "interpret test": (FILES | CLUSTER, {"FILES...", "-n", "--namespace"}),
    # The customizations of Karmada belong to no namespace.
    "interpret run": (FILES | CLUSTER, {"-n", "--namespace"}),
    "interpret convert": (FILES, {"-n", "--namespace"}),
    # The positional argument is a URL, and the objects are Karmada instances: several, or the one of the release.
    "crds fetch": (FILES, {"FILES...", "--exclude...", "--verbose", "-n", "--namespace"}),
    "crds render": (FILES, {"FILES...", "-f...", "--filename...", "--exclude...", "--verbose"}),
    "doctor": (CLUSTER, set()), "uninstall": (CLUSTER, set()), "crds controller": (CLUSTER, set()),
}  # fmt: skip


def list_forms(command: click.Command) -> Iterator[str]:
    """Yield the names of options, ``FILES`` for arguments that are manifests, and ``...`` after names that repeat."""
    for one in command.params:
        names = ["FILES"] if getattr(one, "help", "") == "The same as --filename." else one.opts
        repeats = one.multiple if isinstance(one, click.Option) else one.nargs == -1
        yield from (f"{name}..." if repeats else name for name in names)


def test_each_command_takes_the_sources_that_it_reads_as_kubectl_does() -> None:
    forms = {name: {*list_forms(command)} for name, command, _ in COMMANDS}
    assert {name: wanted - forms[name] for name, (wanted, _) in READS.items()} == {
        name: lacking for name, (_, lacking) in READS.items()
    }
    assert [name for name, found in forms.items() if ("-n" in found) != ("--namespace" in found)] == []


RUN = "import sys; sys.argv = {arguments}; from fleethook.cli.command_line import {function}; {function}()"


def run(function: str, *arguments: str, **environment: str) -> list[str]:
    """Run a function of the program as its entry point does."""
    command = [sys.executable, "-c", RUN.format(arguments=list(arguments), function=function)]
    result = subprocess.run(
        command, capture_output=True, text=True, timeout=NET, check=True, cwd=ROOT, env={"PATH": "/usr/bin:/bin", **environment}
    )  # fmt: skip
    return result.stdout.splitlines()


def test_the_plugin_names_itself_as_users_call_it() -> None:
    assert run("main", "/usr/bin/kubectl-fleethook", "lint", "-h")[0].split()[1:4] == ["kubectl", PROGRAM, "lint"]
    assert run("main", "/usr/bin/fleethook", "lint", "-h")[0].split()[1:3] == [PROGRAM, "lint"]


def test_bash_completes_values_and_files_at_the_tab_key(tmp_path: Path) -> None:
    """The keys go to an interactive bash. After each tab, they put ``echo`` before the line, which prints it."""
    script = tmp_path / "completion"
    script.write_text("\n".join(run("main", "fleethook", _FLEETHOOK_COMPLETE="bash_source")))
    typed = {
        "lint --output gi": "lint --output github",
        "lint -f examples/nod": "lint -f examples/nodepools.yaml",
        "int": "interpret",
    }
    home, prefix, accept = "\x01", "echo ", "\n"
    keys = "".join(f"fleethook {words}\t{home}{prefix}{accept}" for words in typed)
    terminal, keyboard = pty.openpty()
    with os.fdopen(terminal, "wb") as hand, os.fdopen(keyboard, "rb") as seat:
        process = subprocess.Popen(
            ["bash", "--norc", "--noprofile", "-i"], stdin=seat, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            text=True, cwd=ROOT, env={"PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin", "TERM": "dumb"},
        )  # fmt: skip
        hand.write(f"source {script}\n{keys}exit\n".encode())
        hand.flush()
        shown, _ = process.communicate(timeout=NET)
    assert shown.splitlines() == [f"fleethook {words}" for words in typed.values()]
