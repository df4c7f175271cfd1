"""Reading the YAML files and directories that commands take. Unreadable input ends the command with a message."""

import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from app.cli.exit_codes import fail
from app.cli.terminal import write_error
from app.model.json import JSON
from app.store.manifest_files import list_directory, read_file
from app.store.manifest_reader import Manifest, decode_text, describe_skipped, read_manifest
from app.store.yaml_reader import Document, ManifestError, Value
from app.store.yaml_reader import read_values as parse_values

_STANDARD_INPUT = Path("-")


def read_objects(paths: Sequence[Path]) -> list[Document]:
    """Return the Kubernetes objects in files and directories. Other documents are skipped and counted."""
    return read_manifests(paths).documents


def read_manifests(
    paths: Sequence[Path], *, testdata: bool = False, select: Callable[[JSON], bool] | None = None
) -> Manifest:
    """Return the content of files and directories; ``-`` is standard input.

    Args:
        paths: Files and directories.
        testdata: Whether to include ``testdata`` directories. They hold fixtures of interpreters, not manifests.
        select: Whether the caller asks for a document that is no Kubernetes object, such as a fixture.
    """
    found = Manifest([], [], [], [])
    for path in paths:
        for file in list_directory(path, testdata=testdata) if path.is_dir() else (path,):
            found.extend(_read_manifest(file, select))
    if found.skipped:
        write_error(f"note: {describe_skipped(found.skipped)}")
    if found.errors:
        fail("\nfleethook: ".join(map(str, found.errors)))
    return found


def _read_manifest(path: Path | ManifestError, select: Callable[[JSON], bool] | None) -> Manifest:
    if isinstance(path, ManifestError):
        return Manifest([], [], [path], [])
    try:
        return read_manifest(_read_bytes(path), source=_name_source(path), select=select)
    except ManifestError as error:
        return Manifest([], [], [error], [])


def read_values(path: Path) -> list[Value]:
    """Return the YAML documents of a file, of any type."""
    return _parse(_read_or_fail(path), path)


def read_mappings(path: Path) -> list[Document]:
    """Return the YAML documents of a file. Each one must be a mapping; it need not be a Kubernetes object."""
    text = _read_or_fail(path)
    found = []
    for value in _parse(text, path):
        if not isinstance(value.value, dict):
            fail(f"{_name_source(path)}:{value.line}: expected a mapping")
        found.append(
            Document(value.value, _name_source(path), value.line, value.text, (value.number,), value.first_line)
        )
    return found


def _read_or_fail(path: Path) -> str:
    try:
        return decode_text(_read_bytes(path), source=_name_source(path))
    except ManifestError as error:
        fail(str(error))


def _parse(text: str, path: Path) -> list[Value]:
    try:
        return parse_values(text, source=_name_source(path))
    except ManifestError as error:
        fail(str(error))


def _read_bytes(path: Path) -> bytes:
    return sys.stdin.buffer.read() if path == _STANDARD_INPUT else read_file(path)


def _name_source(path: Path) -> str:
    return "<stdin>" if path == _STANDARD_INPUT else str(path)
