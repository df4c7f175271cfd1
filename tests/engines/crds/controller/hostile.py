"""Tarballs that take as much as a tarball may take, or more."""

import functools
import gzip
import random

from tests.engines.crds.tarballs import build, crd, small

CRDS = "crds/bases/work/a.yaml"


def expensive() -> bytes:
    """A tarball that is refused in the end, after as much work as one may take."""
    return build({**small(), CRDS: _items(250_000), "x": b""})


def accepted() -> bytes:
    """A tarball that is accepted after nearly as much work as one may take."""
    return build({**small(), CRDS: _items(190_000)})


def bomb() -> bytes:
    """A gzip file of many zeros."""
    return gzip.compress(bytes(80 * 2**20), compresslevel=1, mtime=0)


def endless() -> bytes:
    """YAML that opens sequences without end."""
    return build({**small(), CRDS: crd("as", "work.karmada.io") + b"more: " + b"[" * 100_000})


def _items(count: int) -> bytes:
    words = random.Random(16)  # gzip takes 99 % of repetitions away, which is more than a tarball may be packed
    return (
        crd("as", "work.karmada.io")
        + b"more:\n"
        + b"".join(b"    - x%x\n" % words.getrandbits(48) for _ in range(count))
    )


@functools.cache
def tarballs() -> tuple[bytes, ...]:
    """One of each."""
    return expensive(), accepted(), bomb(), endless()
