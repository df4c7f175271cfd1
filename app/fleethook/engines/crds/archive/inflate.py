"""Reads the content of a gzip file, bounded in size, and checks that the file is complete (RFC 1952).

``gzip`` and ``tarfile`` of the standard library read several members as one, skip zeros after the last, and stop before
the trailer when the tar in it ends. They do not notice a truncated or damaged end.
"""

import zlib
from collections.abc import Iterator
from typing import Final

from fleethook.engines.crds.archive.limits import ArchiveLimits
from fleethook.engines.crds.crds_errors import CRDsError, Exit

_PIECE: Final = 64 * 1024
_GZIP_ONLY: Final = 31  # zlib: 15 bits of window, and 16 for "a gzip header and trailer, nothing else"
_MAGIC: Final = b"\x1f\x8b"


class GzipReader:
    """Reads the content of a gzip file in order."""

    def __init__(self, packed: bytes, *, limits: ArchiveLimits) -> None:
        self._pieces: Final = _inflate(packed, limits.max_unpacked(len(packed)), limits)
        self._piece = memoryview(b"")

    def take(self, size: int) -> bytes:
        """Return the next ``size`` bytes, fewer only at the end.

        Raises:
            CRDsError: INTEGRITY if the gzip is truncated, damaged or followed by data, LIMIT if it inflates to too
                much.
        """
        if size <= len(self._piece):
            taken, self._piece = self._piece[:size], self._piece[size:]
            return bytes(taken)
        parts: list[memoryview] = []
        while size > 0 and (self._piece or self._next_piece()):
            parts.append(self._piece[:size])
            self._piece = self._piece[size:]
            size -= len(parts[-1])
        return b"".join(parts)

    def drain(self) -> None:
        """Read and drop the rest, so that the checksum is verified; raises as ``take``."""
        while self._next_piece():
            pass

    def _next_piece(self) -> bool:
        self._piece = memoryview(next(self._pieces, b""))
        return bool(self._piece)


def _inflate(packed: bytes, max_bytes: int, limits: ArchiveLimits) -> Iterator[bytes]:
    stream = zlib.decompressobj(_GZIP_ONLY)
    rest, waiting, total = memoryview(packed), b"", 0
    while not stream.eof:
        if not waiting:
            waiting, rest = bytes(rest[:_PIECE]), rest[_PIECE:]
        given = waiting
        piece = _decompress(stream, given, first=total == 0)
        waiting = stream.unconsumed_tail
        if not given and not piece:
            raise CRDsError(Exit.INTEGRITY, "the gzip stream is not complete: the file is cut off")
        total += len(piece)
        if total > max_bytes:
            raise CRDsError(Exit.LIMIT, _describe_excess(max_bytes, limits))
        if piece:
            yield piece
    after = stream.unused_data or bytes(rest[: len(_MAGIC)])
    if after:
        what = "another gzip member" if after.startswith(_MAGIC) else "something else"
        raise CRDsError(Exit.INTEGRITY, f"the gzip stream is followed by {what}")


def _decompress(stream: "zlib._Decompress", data: bytes, *, first: bool) -> bytes:
    try:
        return stream.decompress(data, _PIECE)
    except zlib.error as error:
        if first and not data.startswith(_MAGIC):
            # The message of Karmada's operator (upstream: Unpack in operator/pkg/util/util.go).
            raise CRDsError(Exit.INTEGRITY, "new reader failed. gzip: invalid header") from None
        raise CRDsError(Exit.INTEGRITY, f"the gzip stream is damaged: {error}") from None


def _describe_excess(max_bytes: int, limits: ArchiveLimits) -> str:
    if max_bytes == limits.unpacked_bytes:
        return f"the tarball holds more than {max_bytes} bytes"
    return f"the tarball holds more than {max_bytes} bytes, over {limits.ratio} times its own size"
