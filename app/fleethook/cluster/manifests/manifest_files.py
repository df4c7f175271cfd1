"""Find and read the files of manifests: those that a command names, and those of directories."""

import os
import sys
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from pathlib import Path, PurePath
from typing import Final

from fleethook.cluster.manifests.yaml_reader import ManifestError

STANDARD_INPUT: Final = Path("-")
"""The name of standard input in a list of files."""
# kubectl reads the same (k8s.io/cli-runtime, pkg/resource: FileExtensions).
_SUFFIXES: Final = frozenset({".json", ".yaml", ".yml"})
_TESTDATA: Final = "testdata"


def list_files(
    paths: Sequence[Path], exclude: Sequence[str] = (), *, testdata: bool = False, suffix: str = ""
) -> Iterator[Path | ManifestError]:
    """Yield files, and the files of directories; arguments as for `list_directory`.

    A file that the caller names may have any suffix, and may begin with a dot.
    """
    for path in paths:
        if is_directory(path):
            yield from list_directory(path, exclude=exclude, testdata=testdata, suffix=suffix)
        elif path == STANDARD_INPUT or not is_excluded(path, exclude):
            yield path


def is_directory(path: Path) -> bool:
    """Return whether a path is a directory. One that cannot be examined is none, and a read of it says why."""
    try:
        return path.is_dir()
    except OSError:
        return False


def list_directory(
    directory: Path, *, exclude: Sequence[str] = (), testdata: bool = False, suffix: str = ""
) -> Iterator[Path | ManifestError]:
    """Yield the manifest files below a directory in order, and an error in place of each unreadable directory and pipe.

    Names that begin with a dot are left out: those of a ConfigMap volume hold its former generations.

    Args:
        directory: The directory. Links to other directories are not followed, as kubectl does.
        exclude: Patterns of files and directories to leave out (`is_excluded`).
        suffix: The suffix of other files to list instead, such as ``.py``.
        testdata: Whether to include ``testdata`` directories. They hold fixtures of interpreters, not manifests.
    """
    suffixes = {suffix} if suffix else _SUFFIXES
    errors: list[OSError] = []
    found: list[Path] = []
    for parent, directories, files in os.walk(directory, onerror=errors.append):
        directories[:] = [one for one in directories if _is_visible(one) and (testdata or one != _TESTDATA)]
        found += (Path(parent, one) for one in files if _is_visible(one) and Path(one).suffix in suffixes)
    for path in sorted(found):
        if not is_excluded(path, exclude, below=directory):
            yield _check_type(path)
    yield from (make_error(Path(str(one.filename)), one) for one in errors)


def _check_type(path: Path) -> Path | ManifestError:
    """Return the file, or an error for a pipe or a device, of which a read could wait for ever."""
    is_other = path.exists() and not path.is_file()
    return ManifestError(str(path), 0, "is not a regular file") if is_other else path


def _is_visible(name: str) -> bool:
    return not name.startswith(".")


def is_excluded(path: Path, exclude: Sequence[str], *, below: Path | None = None) -> bool:
    """Return whether one of the patterns matches a file.

    A pattern such as ``values.yaml`` or ``charts`` matches the name of a file or of a directory around it. A pattern
    with a slash, such as ``charts/*``, matches the path below the directory of the command, or the path as given; a
    leading ``**/`` matches any directories or none.
    """
    return any(_matches(path, below, one) for one in exclude)


def _matches(path: Path, below: Path | None, pattern: str) -> bool:
    pattern = pattern.removeprefix("./").rstrip("/")
    relative = path if below is None else path.relative_to(below)
    if "/" not in pattern:
        return any(fnmatchcase(part, pattern) for part in relative.parts)
    candidates: list[PurePath] = [relative, *relative.parents, path, *path.parents]
    if pattern.startswith("**/"):
        candidates += [PurePath(*relative.parts[start:]) for start in range(1, len(relative.parts))]
        return any(fnmatchcase(str(one), pattern[3:]) for one in candidates)
    return any(fnmatchcase(str(one), pattern) for one in candidates)


def read_file(path: Path) -> bytes:
    """Return the content of a file or of standard input; raises ManifestError if it cannot be read."""
    if path == STANDARD_INPUT and sys.stdin is None:
        raise ManifestError(name_source(path), 0, "standard input is closed: give a file in place of -")
    try:
        return sys.stdin.buffer.read() if path == STANDARD_INPUT else path.read_bytes()
    except OSError as error:
        raise make_error(path, error) from None


def make_error(path: Path, error: OSError) -> ManifestError:
    """Return the error of a file that cannot be read."""
    return ManifestError(name_source(path), 0, f"cannot be read: {error.strerror or error}")


def name_source(path: Path) -> str:
    """Return the name of a file in messages."""
    return "<stdin>" if path == STANDARD_INPUT else str(path)
