"""How large a CRD tarball may be (research 6.5: each at least thirty times what a release has)."""

from typing import Final, NamedTuple

_MIB: Final = 1024 * 1024


class Limits(NamedTuple):
    """The most that is taken in; a real release is 90 KB, 730 KB unpacked, 33 entries, 8.5 to 1."""

    download_bytes: int = 16 * _MIB
    unpacked_bytes: int = 64 * _MIB
    """Of the tar in it, headers and padding included."""
    file_bytes: int = 8 * _MIB
    entries: int = 2048
    """Headers of any kind, those that only carry a name or attributes for the next one too."""
    ratio: int = 100
    """Unpacked to packed, looked at above ``ratio_from_bytes``: a small tar is mostly padding."""
    ratio_from_bytes: int = _MIB

    def most_unpacked(self, packed: int) -> int:
        """Tell how many bytes a gzip file of so many bytes may inflate to."""
        return min(self.unpacked_bytes, max(self.ratio_from_bytes, self.ratio * packed))


LIMITS: Final = Limits()
