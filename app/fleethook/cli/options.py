"""Options that several commands share, and the settings of a command."""

# ruff: noqa: PLC0415 - commands without the settings of a server start faster

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

from fleethook.cli.command_line import Argument, Option, fail

if TYPE_CHECKING:
    from fleethook.settings import Settings

FilesArgument = Annotated[list[Path] | None, Argument(help="The same as --filename.")]
FilenameOption = Annotated[
    list[Path] | None,
    Option("--filename", "-f", help="Manifest file or directory, or '-' for standard input."),
]
NamespaceOption = Annotated[
    str, Option("--namespace", "-n", help="Read only this namespace. Objects that name no namespace belong to it.")
]
KubeconfigOption = Annotated[
    Path | None,
    Option("--kubeconfig", help="Read this cluster (default without files: $KUBECONFIG, then ~/.kube/config)."),
]
ContextOption = Annotated[
    str | None, Option("--context", help="Context of the kubeconfig (default: its current context).")
]
InClusterOption = Annotated[bool, Option("--in-cluster", help="Read the objects of the cluster that this pod runs in.")]
KcpOption = Annotated[bool, Option("--kcp", help="Read all logical clusters of a kcp at once.")]
KcpCacheOption = Annotated[
    Path | None, Option("--kcp-cache-kubeconfig", help="With --kcp, kubeconfig of its cache server, for all shards.")
]
KcpExportOption = Annotated[
    str | None,
    Option("--kcp-export", metavar="NAME", help="Work as the provider of this APIExport, on its consumers."),
]
ChangeOption = Annotated[
    list[Path] | None,
    Option("--change", help="Manifest file or directory to apply to the objects, or '-'."),
]
InterpretersOption = Annotated[
    list[str] | None, Option("--interpreters", help="File (*.py) or module of Python interpreters; repeatable.")
]
RulesOption = Annotated[
    list[Path] | None, Option("--rules", help="File (*.py) of admission rules in Python; repeatable.")
]


ResolveOption = Annotated[
    list[str] | None,
    Option("--resolve", metavar="HOST:PORT:ADDRESS[:PORT]", help="Address of a webhook, in place of DNS; repeatable."),
]


class Output(StrEnum):
    """Output formats of commands; each command has some of them.

    GitHub shows the findings of ``github`` in a pull request, and CI systems the results of ``junit``.
    """

    TEXT = "text"
    JSON = "json"
    YAML = "yaml"
    DIFF = "diff"
    GITHUB = "github"
    JUNIT = "junit"


def declare_output(*choices: Output) -> Option:
    """Return the option of a command with some of the formats."""
    return Option("--output", "-o", help="Output format.", choices=choices)


TextOutputOption = Annotated[Output, declare_output(Output.TEXT, Output.JSON)]
FindingsOutputOption = Annotated[Output, declare_output(Output.TEXT, Output.JSON, Output.GITHUB)]
TestsOutputOption = Annotated[Output, declare_output(Output.TEXT, Output.JSON, Output.JUNIT)]
TrialsOutputOption = Annotated[Output, declare_output(Output.TEXT, Output.JSON, Output.GITHUB, Output.JUNIT)]
YamlOutputOption = Annotated[Output, declare_output(Output.YAML, Output.JSON)]
StrictOption = Annotated[bool, Option("--strict", help="Treat warnings as errors.")]


ExcludeOption = Annotated[
    list[str] | None,
    Option("--exclude", metavar="GLOB", help="Leave out files by name, or by path if GLOB has a slash; repeatable."),
]


class InputOptions(NamedTuple):
    """The options of commands that read objects of files (`fleethook.cli.inputs.manifests`).

    Attributes:
        exclude: Patterns of files to leave out.
        verbose: Whether to name each document that is skipped.
        strict: Whether such a document, or a warning, is an error.
    """

    exclude: ExcludeOption = None
    verbose: Annotated[bool, Option("--verbose", "-v", help="Show more, such as each skipped document.")] = False
    strict: Annotated[bool, Option(help="Treat warnings, and documents that are no objects, as errors.")] = False


def load_settings(flags: dict[str, Any], config: Path | None) -> "Settings":
    """Return the settings of `fleethook.settings.read_settings`. Exits with a message if one of them is invalid."""
    from fleethook.settings import InvalidSettingsError, read_settings

    try:
        return read_settings(flags, config)
    except InvalidSettingsError as error:
        fail(str(error))
