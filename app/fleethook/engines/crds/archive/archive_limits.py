"""Limits of a CRD tarball, and the budget of YAML that all its files share."""

from typing import Final, NamedTuple

from fleethook.engines.crds.crds_errors import CRDsError, Exit

_MIB: Final = 1024 * 1024


class ArchiveLimits(NamedTuple):
    """Limits of one tarball. A release has 90 KB, 730 KB unpacked, 33 entries, a ratio of 8.5 and 33,000 YAML nodes."""

    download_bytes: int = 16 * _MIB
    unpacked_bytes: int = 64 * _MIB
    """Size of the tar, headers and padding included."""
    file_bytes: int = 8 * _MIB
    entries: int = 2048
    """Headers of any type, including those that only carry a name or attributes of the next entry."""
    ratio: int = 100
    """Unpacked to packed size. It applies above ``ratio_from_bytes``: a small tar is mostly padding."""
    ratio_from_bytes: int = _MIB
    yaml_bytes: int = 8 * _MIB
    """Size of all YAML files together: eleven times a release."""
    yaml_nodes: int = 200_000
    """Scalars, mappings and sequences of all YAML files, together: six times a release. Reading one takes up to 9 µs,
    and 450 bytes until its file has been read: 2 s and 90 MiB for all."""
    yaml_depth: int = 200
    """Open mappings and sequences: a CRD with a pod template in its schema has about 50."""

    def max_unpacked(self, packed: int) -> int:
        """Return how many bytes a gzip file of ``packed`` bytes may inflate to."""
        return min(self.unpacked_bytes, max(self.ratio_from_bytes, self.ratio * packed))


LIMITS: Final = ArchiveLimits()


class YAMLBudget:
    """Bytes and nodes of YAML that the files of one tarball may still have. Make one for each tarball."""

    def __init__(self, limits: ArchiveLimits = LIMITS) -> None:
        """Start with the full budget of ``limits``."""
        self.limits: Final = limits
        self._bytes = limits.yaml_bytes
        self._nodes = limits.yaml_nodes

    def take_bytes(self, path: str, count: int) -> None:
        """Count the bytes of a file before it is parsed; raises CRDsError LIMIT beyond the budget."""
        self._bytes -= count
        if self._bytes < 0:
            text = f"{path}: the YAML files of the tarball have more than {self.limits.yaml_bytes} bytes together"
            raise CRDsError(Exit.LIMIT, text)

    def take_node(self, path: str) -> None:
        """Count a scalar, mapping or sequence; raises CRDsError LIMIT beyond the budget."""
        self._nodes -= 1
        if self._nodes < 0:
            text = f"{path}: the YAML files of the tarball have more than {self.limits.yaml_nodes} nodes together"
            raise CRDsError(Exit.LIMIT, text)
