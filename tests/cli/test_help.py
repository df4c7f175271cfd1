"""The help of each command, compared with its source."""

import dis
import importlib
import inspect
import os
import pty
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

import click
import pytest

from fleethook.cli import PROGRAM, build_program
from fleethook.cli.command_line import Function, Group
from tests.cli.commands import invoke
from tests.serving import ROOT
from tests.waiting import NET


def list_commands(group: Group, path: str = "") -> Iterator[tuple[str, click.Command, str]]:
    """Yield the path of each command of the program, the command, and its line in the list of its group."""
    for name in group.list_commands(click.Context(group)):
        command = group.get_command(None, name)
        assert command is not None
        yield f"{path}{name}", command, group.summarize(name)
        if isinstance(command, Group):
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
    assert found["Admission rules"] == ["hooks"]
    assert {"serve", "lint", "doctor", "uninstall"} <= {*found["Operation"]}


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


_SOURCES = {
    "fleethook.cli.inputs.manifests.read_manifests": "files",
    "fleethook.cluster.manifests.manifest_source.ManifestSource": "files",
    "fleethook.cluster.connection.Connection": "cluster",
}
# The only modules through which commands reach a source; the others take objects and connections.
_CALLERS = (
    *(f"fleethook.engines.{one}.commands" for one in ("overrider", "dispatch", "interpret", "crds", "hooks")),
    "fleethook.cli",
    "fleethook.console.process",
    "fleethook.lifetime",
    "fleethook.app",
)


def find_sources(command: Function) -> set[str]:
    """Return the sources that a command may read: those whose code a call of it can reach."""
    found, seen, waiting = set[str](), set[object](), [command, *(command.__defaults__ or ())]
    while waiting:
        one = waiting.pop()
        one = one if isinstance(one, FunctionType | type) else type(one)
        name = f"{one.__module__}.{one.__qualname__}"
        if source := _SOURCES.get(name):
            found.add(source)
        elif one not in seen and name.startswith(_CALLERS):
            seen.add(one)
            waiting += list_names(one)
    return found


def list_names(one: FunctionType | type) -> Iterator[Any]:
    """Yield the functions and classes that a function, or a class with its methods, mentions."""
    if isinstance(one, type):
        members = [
            getattr(member, "fget", None) or getattr(member, "__func__", member) for member in vars(one).values()
        ]
        yield from (name for member in members if isinstance(member, FunctionType) for name in list_names(member))
        return
    codes: list[Any] = [inspect.unwrap(one).__code__]
    for code in codes:
        codes += [constant for constant in code.co_consts if isinstance(constant, CodeType)]
        module = ""
        for step in dis.get_instructions(code):
            module = str(step.argval) if step.opname == "IMPORT_NAME" else module
            if step.opname == "IMPORT_FROM" and module.startswith("fleethook."):
                yield getattr(importlib.import_module(module), str(step.argval), None)
            elif step.opname.startswith("LOAD_"):
                yield inspect.unwrap(one).__globals__.get(str(step.argval))


def list_forms(command: click.Command) -> Iterator[str]:
    """Yield the names of options, ``FILES`` for arguments that are manifests, and ``...`` after names that repeat."""
    for one in command.params:
        names = ["FILES"] if getattr(one, "help", "") == "The same as --filename." else one.opts
        repeats = one.multiple if isinstance(one, click.Option) else one.nargs == -1
        yield from (f"{name}..." if repeats else name for name in names)


FORMS = {
    "files": {"FILES...", "-f...", "--filename...", "--exclude...", "--verbose", "--strict", "-n", "--namespace"},
    "cluster": {"--kubeconfig", "--context", "--in-cluster"},
}
# Each row needs a reason, and must be true.
LACKING = {
    # The table of commands: a server follows one directory.
    "serve": {"FILES...", "--verbose", "--strict"},
    # A page shows the documents that are skipped.
    "console": {"--verbose", "--strict"},
    # Their positional arguments are recordings, fixtures and rules.
    "replay": {"FILES..."},
    "interpret test": {"FILES...", "-n", "--namespace"},
    "hooks test": {"FILES...", "-f...", "--filename...", "-n", "--namespace"},
    "hooks check": {"FILES...", "-n", "--namespace"},
    # The customizations of Karmada belong to no namespace.
    "interpret convert": {"-n", "--namespace"},
    "interpret run": {"-n", "--namespace"},
    # The positional argument is a URL, and the objects are Karmada instances: several, or the one of the release.
    "crds fetch": {"FILES...", "--exclude...", "--verbose", "-n", "--namespace"},
    "crds render": {"FILES...", "-f...", "--filename...", "--exclude...", "--verbose"},
}


def test_each_command_takes_the_sources_that_it_reads_as_kubectl_does() -> None:
    """The sources are found in the code of the commands, so that a new command cannot miss an option."""
    sources, lacking = {}, {}
    for name, command, _ in COMMANDS:
        if isinstance(command, Group):
            continue
        forms = {*list_forms(command)}
        assert isinstance(command.callback, partial)
        sources[name] = find_sources(command.callback.args[0])
        wanted = {form for source in sources[name] for form in FORMS[source]}
        if missing := wanted - forms:
            lacking[name] = missing
        assert ("-n" in forms) == ("--namespace" in forms), name
    assert lacking == LACKING
    # The search misses no command: those without a source read none.
    assert {name for name, found in sources.items() if not found} == {
        name for name in sources if name.startswith(("crds cache ", "crds verify", "crds pin"))
    }
    assert sources["doctor"] == sources["crds controller"] == {"cluster"}
    assert sources["crds fetch"] == sources["crds render"] == {"files"}


RUN = "import sys; sys.argv = {arguments}; from fleethook.cli import {function}; {function}()"


def run(function: str, *arguments: str, **environment: str) -> list[str]:
    """Run a function of the program as its entry point does."""
    command = [sys.executable, "-c", RUN.format(arguments=list(arguments), function=function)]
    result = subprocess.run(
        command, capture_output=True, text=True, timeout=NET, check=True, cwd=ROOT, env={"PATH": "/usr/bin:/bin", **environment}
    )  # fmt: skip
    return result.stdout.splitlines()


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["re"], ["render", "replay", ":4"]), (["lint", "--out"], ["--output", ":4"]), (["crds", "ca"], ["cache", ":4"]),
        (["lint", "--output", ""], ["text", "json", "github", ":4"]), (["lint", "-f", ""], [":0"]),
    ],
)  # fmt: skip
def test_kubectl_completes_commands_options_values_and_files(words: list[str], expected: list[str]) -> None:
    assert run("complete_for_kubectl", "kubectl_complete-fleethook", *words) == expected


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
