"""Reading the YAML files and directories that commands take. Unreadable input ends the command with a message."""

from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import NoReturn

from fleethook.cli.command_line import UNREADABLE
from fleethook.cli.options import InputOptions
from fleethook.cli.output.text_output import write_error
from fleethook.cluster.manifests.manifest_files import (
    RULES,
    Manifest,
    decode_text,
    describe_skipped,
    is_directory,
    is_excluded,
    list_files,
    name_source,
    read_file,
    read_manifest,
    read_python,
)
from fleethook.cluster.manifests.yaml_decoding_and_lines import Document, ManifestError, Value
from fleethook.cluster.manifests.yaml_decoding_and_lines import read_values as parse_values
from fleethook.model.json import JSON


def fail_input(errors: Sequence[ManifestError]) -> NoReturn:
    """Write the errors to standard error and end the command."""
    write_input_errors(errors)
    raise SystemExit(UNREADABLE)


def write_input_errors(errors: Sequence[ManifestError]) -> None:
    """Write the errors to standard error, one line each."""
    write_error(*(f"fleethook: {error}" for error in errors))


def read_objects(paths: Sequence[Path], options: InputOptions = InputOptions()) -> list[Document]:
    """Return the Kubernetes objects in files and directories. Ends the command if a document cannot be read."""
    manifests = read_manifests(paths, options)
    if manifests.errors:
        fail_input(manifests.errors)
    return manifests.documents


def read_manifests(
    paths: Sequence[Path],
    options: InputOptions = InputOptions(),
    *,
    testdata: bool = False,
    select: Callable[[JSON], bool] | None = None,
) -> Manifest:
    """Return the content of files and directories; ``-`` is standard input. Reports documents that are skipped.

    Args:
        paths: Files and directories.
        options: The options of the command.
        testdata: Whether to include ``testdata`` directories. They hold fixtures of interpreters, not manifests.
        select: Whether the caller asks for a document that is no Kubernetes object, such as a fixture.
    """
    manifest = Manifest([], [], [], [])
    for file in list_files(paths, options.exclude or (), testdata=testdata):
        manifest.extend(_read_manifest(file, select))
    if options.strict:
        errors = [ManifestError(*one) for one in manifest.skipped]
        return Manifest(manifest.documents, [], [*manifest.errors, *errors], manifest.selected)
    if manifest.skipped:
        given = {name_source(path) for path in paths}
        names = [str(one) for one in manifest.skipped if options.verbose or one.source in given]
        hint = "" if len(names) == len(manifest.skipped) else " (--verbose names them)"
        write_error(f"note: {describe_skipped(manifest.skipped)}{hint}", *(f"note: {name}" for name in names))
    return manifest


def _read_manifest(path: Path | ManifestError, select: Callable[[JSON], bool] | None) -> Manifest:
    if isinstance(path, ManifestError):
        return Manifest([], [], [path], [])
    try:
        if path.suffix == RULES:
            return read_python(path)
        return read_manifest(read_file(path), source=name_source(path), select=select)
    except ManifestError as error:
        return Manifest([], [], [error], [])


def find_unused(
    paths: Sequence[Path], used: Collection[str], lack: str, options: InputOptions = InputOptions()
) -> list[ManifestError]:
    """Return an error for each file that the user names and that has nothing for the command.

    Args:
        paths: The files and directories of the command line.
        used: The names of files with something for the command, or with an error.
        lack: The noun of the missing content.
        options: The options of the command, which may exclude files.
    """
    excluded = options.exclude or ()
    files = [path for path in paths if not is_directory(path) and not is_excluded(path, excluded)]
    named = [file for file in files if name_source(file) not in used]
    return [ManifestError(name_source(one), 0, f"is not used: it has no {lack}") for one in named]


def read_values(path: Path) -> list[Value]:
    """Return the YAML documents of a file, of any type."""
    try:
        return parse_values(decode_text(read_file(path), source=name_source(path)), source=name_source(path))
    except ManifestError as error:
        fail_input([error])
