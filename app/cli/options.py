"""Options that several commands share, so that each has one help text."""

from pathlib import Path
from typing import Annotated, Final

import typer

_FILES: Final = typer.Option(
    "--file", "-f", help="Manifest file or directory, '-' for standard input; may be repeated."
)

FilesOption = Annotated[list[Path], _FILES]
OptionalFilesOption = Annotated[list[Path] | None, _FILES]
ContextOption = Annotated[
    str | None, typer.Option("--context", help="Context of the kubeconfig (default: its current context).")
]
InterpretersOption = Annotated[
    list[str] | None,
    typer.Option("--interpreters", help="File (*.py) or module of Python interpreters; may be repeated."),
]
StrictOption = Annotated[bool, typer.Option("--strict", help="Treat warnings as errors.")]
