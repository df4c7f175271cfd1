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
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

import pytest

from fleethook.cli import COMMANDS, PROGRAM
from fleethook.cli.command_line import Function, Group, split_help
from fleethook.cli.help import format_help, format_usage, list_completions, suggest
from fleethook.cli.options import FilesArgument
from fleethook.cli.parameters import list_parameters
from tests.serving import ROOT
from tests.waiting import NET


def list_commands(group: Group = COMMANDS, path: str = PROGRAM) -> Iterator[tuple[str, Function | Group, str]]:
    """Yield the path of each command of the program, the command, and its line in the list of its group."""
    for name in group.commands:
        command = group.load(name)
        yield f"{path} {name}", command, group.summarize(name)
        if isinstance(command, Group):
            yield from list_commands(command, f"{path} {name}")


@pytest.mark.parametrize("columns", ["40", "80", "200"])
@pytest.mark.parametrize(
    ("path", "command", "summary"),
    [(PROGRAM, COMMANDS, ""), *list_commands()],
    ids=lambda one: one if str(one).startswith(PROGRAM) else "",
)
def test_the_help_has_all_texts_of_the_source(
    monkeypatch: pytest.MonkeyPatch, path: str, command: Function | Group, summary: str, columns: str
) -> None:
    """Nothing is eaten, as brackets were, and nothing is cut, as names of options were at 80 columns."""
    monkeypatch.setenv("COLUMNS", columns)
    lines = format_help(command, path)
    shown = " ".join(" ".join(lines).split())
    source = command.help if isinstance(command, Group) else command.__doc__ or ""
    assert " ".join(source.split()) in shown
    assert not summary or summary == split_help(command)[0]
    for one in command.options if isinstance(command, Group) else list_parameters(command):
        assert f"{one.usage} {' '.join(one.declared.help.split())}" in shown
        assert one.declared.help == " ".join(one.declared.help.split())
    if isinstance(command, Group):
        assert all(f" {name} {command.summarize(name)}" in shown for name in command.commands)


def test_the_commands_are_grouped_by_the_systems_of_their_users() -> None:
    parts = "\n".join(format_help(COMMANDS, PROGRAM)).split("\n\n")
    found = {part.partition(":\n")[0]: re.findall(r"^  (\w+)  ", part, re.MULTILINE) for part in parts}
    assert {"render", "diff"} <= {*found["OpenYurt"]}
    assert found["Karmada"] == ["interpret", "crds"]
    assert found["kcp, and webhooks of any cluster"] == ["explain", "webhook"]
    assert found["Admission rules"] == ["hooks"]
    assert {"serve", "lint", "doctor", "uninstall"} <= {*found["Operation"]}


def test_the_usage_has_the_arguments() -> None:
    usages = {path: format_usage(command, path) for path, command, _ in list_commands()}
    assert usages["fleethook crds"] == "fleethook crds [OPTIONS] COMMAND [ARGUMENTS]..."
    assert usages["fleethook crds pin"] == "fleethook crds pin [OPTIONS] URL"
    assert usages["fleethook crds fetch"] == "fleethook crds fetch [OPTIONS] [URL|FILE]"
    assert usages["fleethook interpret test"] == "fleethook interpret test [OPTIONS] PATHS..."


def test_only_similar_words_are_suggested() -> None:
    assert suggest("lnit", ["lint", "serve"]) == "; did you mean lint?"
    assert suggest("xyz", ["lint", "serve"]) == ""


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


def list_forms(command: Function) -> Iterator[str]:
    """Yield the names of options, ``FILES`` for arguments that are manifests, and ``...`` after names that repeat."""
    for one in list_parameters(command):
        names = ["FILES"] if one.declared is FilesArgument.__metadata__[0] else one.flags
        yield from (f"{name}..." if one.is_list else name for name in names)


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
    for path, command, _ in list_commands():
        if isinstance(command, Group):
            continue
        name, forms = path.removeprefix(f"{PROGRAM} "), {*list_forms(command)}
        sources[name] = find_sources(command)
        wanted = {form for source in sources[name] for form in FORMS[source]}
        if missing := wanted - forms:
            lacking[name] = missing
        assert ("-n" in forms) == ("--namespace" in forms), name
    assert lacking == LACKING
    # The search misses no command: those without a source read none.
    assert {name for name, found in sources.items() if not found} == {
        name for name in sources if name.startswith(("certs ", "crds cache ", "crds verify", "crds pin"))
    }
    assert sources["doctor"] == sources["crds controller"] == {"cluster"}
    assert sources["crds fetch"] == sources["crds render"] == {"files"}


RUN = "import sys; sys.argv = {arguments}; from fleethook.cli{module} import main; main()"


def run(module: str, *arguments: str, **environment: str) -> list[str]:
    """Run the main function of a module as its entry point does."""
    script = RUN.format(arguments=list(arguments), module=module)
    command = [sys.executable, "-c", script]
    result = subprocess.run(
        command, capture_output=True, text=True, timeout=NET, check=True, cwd=ROOT, env={"PATH": "/usr/bin:/bin", **environment}
    )  # fmt: skip
    return result.stdout.splitlines()


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["re"], ["render", "replay"]),
        (["lint", "--out"], ["--output"]),
        (["lint", "--output", ""], ["text", "json", "github"]),
        (["interpret", "ru"], ["run"]),
        (["lint", "-f", ""], []),
        (["lint", "'"], []),
    ],
)
def test_commands_options_and_values_are_completed(words: list[str], expected: list[str]) -> None:
    assert list_completions(words) == expected


def test_kubectl_completes_files_if_there_is_nothing_else() -> None:
    assert run(".help", "kubectl_complete-fleethook", "lint", "--output", "gi") == ["github", ":4"]
    assert run(".help", "kubectl_complete-fleethook", "render", "-f", "") == [":0"]


def test_the_plugin_names_itself_as_users_call_it() -> None:
    assert run("", "/usr/bin/kubectl-fleethook", "lint", "--help")[0].split()[1:4] == ["kubectl", "fleethook", "lint"]
    assert run("", "/usr/bin/fleethook", "lint", "--help")[0].split()[1:3] == ["fleethook", "lint"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_for_a_shell_asks_the_program(shell: str) -> None:
    script = run("", "fleethook", "--show-completion", shell)
    assert "_FLEETHOOK_COMPLETE" in "\n".join(script)


def test_bash_completes_values_and_files_at_the_tab_key(tmp_path: Path) -> None:
    """The keys go to an interactive bash. After each tab, they put ``echo`` before the line, which prints it."""
    script = tmp_path / "completion"
    script.write_text("\n".join(run("", "fleethook", "--show-completion", "bash")))
    typed = {
        "lint --output gi": "lint --output github",
        "lint --output=gi": "lint --output=github",
        "lint -o=gi": "lint -o=github",
        "lint --exclude=a=b --output=gi": "lint --exclude=a=b --output=github",
        "lint -f examples/nod": "lint -f examples/nodepools.yaml",
        "lint --filename=examples/nod": "lint --filename=examples/nodepools.yaml",
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
