"""Reading the YAML files and directories that commands take. Unreadable input ends the command with a message."""

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from app.cli.exit_codes import fail
from app.store.yaml_reader import Document, ManifestError, Value, read_documents
from app.store.yaml_reader import read_values as parse_values

_STANDARD_INPUT = Path("-")


def list_files(paths: Sequence[Path], *, testdata: bool = True) -> Iterator[Path]:
    """Yield files, and the YAML files of directories in order; ``-`` is standard input.

    Args:
        paths: Files and directories.
        testdata: Whether to include ``testdata`` directories. They hold fixtures of interpreters, not manifests.
    """
    for path in paths:
        found = sorted([*path.rglob("*.yaml"), *path.rglob("*.yml")]) if path.is_dir() else [path]
        yield from (one for one in found if testdata or "testdata" not in one.relative_to(path).parts)


def read_objects(paths: Sequence[Path]) -> list[Document]:
    """Return the Kubernetes objects in files and directories."""
    try:
        files = list_files(paths, testdata=False)
        return [one for path in files for one in read_documents(_read_text(path), source=_name_source(path))]
    except (ManifestError, OSError, UnicodeDecodeError) as error:
        fail(str(error))


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
        found.append(Document(value.value, _name_source(path), value.line, text, (value.number,)))
    return found


def _read_or_fail(path: Path) -> str:
    try:
        return _read_text(path)
    except (OSError, UnicodeDecodeError) as error:
        fail(str(error))


def _parse(text: str, path: Path) -> list[Value]:
    try:
        return parse_values(text, source=_name_source(path))
    except ManifestError as error:
        fail(str(error))


def _read_text(path: Path) -> str:
    return sys.stdin.read() if path == _STANDARD_INPUT else path.read_text(encoding="utf-8")


def _name_source(path: Path) -> str:
    return "<stdin>" if path == _STANDARD_INPUT else str(path)
