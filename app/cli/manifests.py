"""Reading the files that commands are given."""

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from app.cli.exit_codes import fail
from app.store.yaml_reader import Document, ManifestError, Value, read_documents, read_values

_STANDARD_INPUT = Path("-")


def files(paths: Sequence[Path], *, testdata: bool = True) -> Iterator[Path]:
    """Yield files, and the YAML files of directories in order; ``-`` is standard input.

    ``testdata`` directories hold what interpreters are tested by, which is no manifest.
    """
    for path in paths:
        found = sorted([*path.rglob("*.yaml"), *path.rglob("*.yml")]) if path.is_dir() else [path]
        yield from (one for one in found if testdata or "testdata" not in one.relative_to(path).parts)


def documents(paths: Sequence[Path]) -> list[Document]:
    """Return the objects in files and directories; leaves with a message where one cannot be read."""
    try:
        found = files(paths, testdata=False)
        return [one for path in found for one in read_documents(_text(path), source=_name(path))]
    except (ManifestError, OSError, UnicodeDecodeError) as error:
        fail(str(error))


def values(path: Path) -> list[Value]:
    """Return the documents of a file, of whatever shape; leaves with a message where it cannot be read."""
    return _values(_read(path), path)


def _read(path: Path) -> str:
    try:
        return _text(path)
    except (OSError, UnicodeDecodeError) as error:
        fail(str(error))


def _values(text: str, path: Path) -> list[Value]:
    try:
        return read_values(text, source=_name(path))
    except ManifestError as error:
        fail(str(error))


def mappings(path: Path) -> list[Document]:
    """Return the documents of a file that are mappings, objects or not; leaves with a message where one is not."""
    text = _read(path)
    found = []
    for value in _values(text, path):
        if not isinstance(value.value, dict):
            fail(f"{_name(path)}:{value.line}: expected a mapping")
        found.append(Document(value.value, _name(path), value.line, text, (value.number,)))
    return found


def _text(path: Path) -> str:
    return sys.stdin.read() if path == _STANDARD_INPUT else path.read_text(encoding="utf-8")


def _name(path: Path) -> str:
    return "<stdin>" if path == _STANDARD_INPUT else str(path)
