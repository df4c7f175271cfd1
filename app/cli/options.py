"""Options that several commands share, so that each has one help text."""

from pathlib import Path
from typing import Annotated, Final, NamedTuple

from app.cli.parameters import Option

_FILES: Final = Option("--file", "-f", help="Manifest file or directory, '-' for standard input; may be repeated.")

FilesOption = Annotated[list[Path], _FILES]
OptionalFilesOption = Annotated[list[Path] | None, _FILES]
KubeconfigOption = Annotated[
    Path | None, Option("--kubeconfig", help="Read the objects of this cluster, and write nothing.")
]
ContextOption = Annotated[
    str | None, Option("--context", help="Context of the kubeconfig (default: its current context).")
]
InClusterOption = Annotated[bool, Option("--in-cluster", help="Read the objects of the cluster that this pod runs in.")]
KcpOption = Annotated[bool, Option("--kcp", help="Read all logical clusters of a kcp at once.")]
ChangeOption = Annotated[
    list[Path] | None,
    Option(
        "--change",
        help="Manifest file or directory to apply to the objects, '-' for standard input; may be repeated.",
    ),
]
WithoutOption = Annotated[
    list[str] | None,
    Option(
        "--without",
        metavar="KIND/NAME",
        help="Object to remove, as KIND/NAME, with .GROUP, NAMESPACE/ and @CLUSTER if needed: "
        "KIND.GROUP/NAMESPACE/NAME. May be repeated.",
    ),
]
InterpretersOption = Annotated[
    list[str] | None,
    Option("--interpreters", help="File (*.py) or module of Python interpreters; may be repeated."),
]
StrictOption = Annotated[bool, Option("--strict", help="Treat warnings as errors.")]


ExcludeOption = Annotated[
    list[str] | None,
    Option(
        "--exclude",
        metavar="GLOB",
        help="Leave out files or directories by name, or by path if GLOB has a slash; may be repeated.",
    ),
]


class InputOptions(NamedTuple):
    """The options of commands that read objects of files (`app.cli.manifests`).

    Attributes:
        exclude: Patterns of files to leave out.
        verbose: Whether to name each document that is skipped.
        strict: Whether such a document, or a warning, is an error.
    """

    exclude: ExcludeOption = None
    verbose: Annotated[
        bool,
        Option("--verbose", "-v", help="Show more: each document that is skipped, because it is no Kubernetes object."),
    ] = False
    strict: Annotated[
        bool, Option("--strict", help="Treat warnings, and documents that are no Kubernetes objects, as errors.")
    ] = False
