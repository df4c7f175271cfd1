"""The file of a download: limits its size, hashes the data, and removes it unless the download finishes."""

import errno
import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Self

from fleethook.engines.crds.crds_errors import CRDsError, Exit
from fleethook.engines.crds.descriptors import write_all
from fleethook.engines.crds.download.attempt_errors import AttemptError


class Partial:
    """The received part of a body.

    Attributes:
        size: Bytes written.
        etag: The strong ETag of their response, to request the rest; ``""`` if there is none.
        total: Expected size of the complete body; None if it is unknown.
    """

    def __init__(self, path: Path, *, max_bytes: int) -> None:
        """Create the file.

        Raises:
            CRDsError: The file exists already, or cannot be created.
        """
        self.size = 0
        self.etag = ""
        self.total: int | None = None
        self._path = path
        self._most = max_bytes
        self._digest = hashlib.sha256()
        self._finished = False
        with _translate_os_errors(path):
            self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)

    def restart(self, etag: str = "", total: int | None = None) -> None:
        """Empty the file, for a body that starts with its first byte.

        Raises:
            AttemptError: The body will be too large.
        """
        if total is not None and total > self._most:
            raise self._make_too_large_error(f"{total} bytes")
        with _translate_os_errors(self._path):
            os.ftruncate(self._file, 0)
            os.lseek(self._file, 0, os.SEEK_SET)
        self._digest = hashlib.sha256()
        self.size, self.etag, self.total = 0, etag, total

    def add(self, data: bytes) -> None:
        """Append data.

        Raises:
            AttemptError: The file becomes too large.
            CRDsError: The data cannot be written.
        """
        if self.size + len(data) > self._most:
            raise self._make_too_large_error("the body has more")
        with _translate_os_errors(self._path):
            write_all(self._file, data)
        self._digest.update(data)
        self.size += len(data)

    def read_beginning(self, count: int) -> bytes:
        """Return the first bytes of the file."""
        return os.pread(self._file, count, 0)

    def finish(self) -> str:
        """Sync the file to disk, keep it, and return its SHA-256."""
        with _translate_os_errors(self._path):
            os.fsync(self._file)
        self._finished = True
        return self._digest.hexdigest()

    @property
    def sha256(self) -> str:
        """The digest of the received part."""
        return self._digest.hexdigest()

    def _make_too_large_error(self, what: str) -> AttemptError:
        return AttemptError(Exit.LIMIT, f"larger than the limit of {self._most} bytes: {what}")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        os.close(self._file)
        if not self._finished:
            self._path.unlink(missing_ok=True)


@contextmanager
def _translate_os_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else "it failed"
        hint = ": make room or use another cache directory" if error.errno in (errno.ENOSPC, errno.EDQUOT) else ""
        raise CRDsError(Exit.DISK, f"cannot write {path}: {reason.lower()}{hint}", transient=True) from error
