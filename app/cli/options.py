"""Options that several commands take, with one text each."""

from pathlib import Path
from typing import Annotated, Final

import typer

_FILES: Final = typer.Option(
    "--file", "-f", help="Manifest file or directory, '-' for standard input; may be repeated."
)

FilesOption = Annotated[list[Path], _FILES]
OptionalFilesOption = Annotated[list[Path] | None, _FILES]
InterpretersOption = Annotated[
    list[str] | None, typer.Option("--interpreters", help="File (*.py) or module of interpreters; may be repeated.")
]
StrictOption = Annotated[bool, typer.Option("--strict", help="Treat warnings as errors.")]
