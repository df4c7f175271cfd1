"""The help of each command, compared with its source."""

from collections.abc import Iterator

import pytest

from app.cli import COMMANDS, PROGRAM
from app.cli.command_line import Function, Group, split_help
from app.cli.help import format_help, format_usage, suggest
from app.cli.parameters import Argument, list_parameters


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
        if one.declared.replaced_by:
            assert not set(one.declared.names) & set(shown.split())
            continue
        assert f"{one.usage} {' '.join(one.declared.help.split())}" in shown
        assert one.declared.help == " ".join(one.declared.help.split())
    if isinstance(command, Group):
        assert all(f" {name} {command.summarize(name)}" in shown for name in command.commands)


def test_the_usage_has_the_arguments() -> None:
    usages = {path: format_usage(command, path) for path, command, _ in list_commands()}
    assert usages["fleethook crds"] == "fleethook crds [OPTIONS] COMMAND [ARGUMENTS]..."
    assert usages["fleethook crds pin"] == "fleethook crds pin [OPTIONS] URL"
    assert usages["fleethook crds fetch"] == "fleethook crds fetch [OPTIONS] [URL]"
    assert usages["fleethook crds cache verify"] == "fleethook crds cache verify [OPTIONS] [URL|KEY]"
    assert usages["fleethook interpret test"] == "fleethook interpret test [OPTIONS] PATHS..."


def test_only_similar_words_are_suggested() -> None:
    assert suggest("lnit", ["lint", "serve"]) == "; did you mean lint?"
    assert suggest("xyz", ["lint", "serve"]) == ""


# Their positional arguments are something else: recordings, fixtures.
OTHER_ARGUMENTS = {"fleethook replay", "fleethook interpret test"}
# The interpreters of a Karmada belong to no namespace; the console and the server follow all namespaces.
WITHOUT_NAMESPACES = {"fleethook interpret check", "fleethook interpret run", "fleethook interpret test"}
WITHOUT_NAMESPACES |= {"fleethook interpret register", "fleethook console", "fleethook serve"}


def test_each_command_that_reads_files_takes_them_as_kubectl_does() -> None:
    """The commands are generated, so that a new one cannot miss an option."""
    missing = []
    for path, command, _ in list_commands():
        if isinstance(command, Group):
            continue
        parameters = list_parameters(command)
        names = {name for one in parameters for name in one.declared.names if not one.declared.replaced_by}
        if not names & {"--filename", "-f", "--exclude"} or path in {"fleethook serve", "fleethook console"}:
            continue
        positional = any(isinstance(one.declared, Argument) for one in parameters)
        wanted = {"--filename", "-f", "--exclude", "--verbose", "--strict"}
        wanted |= (
            set() if path in WITHOUT_NAMESPACES else {"--namespace", "-n", "--kubeconfig", "--context", "--in-cluster"}
        )
        if lacking := wanted - names:
            missing.append((path, sorted(lacking)))
        if not positional and path not in OTHER_ARGUMENTS:
            missing.append((path, ["FILES"]))
    assert missing == []
