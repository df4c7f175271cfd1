"""Downloads for tests: without waiting, and with a record of the waits."""

import gzip
import random
import time
from pathlib import Path
from typing import Any

import pytest

from fleethook.engines.crds.crds_errors import CRDsError, Exit
from fleethook.engines.crds.download.download import Downloaded, Timing, download
from fleethook.engines.crds.tarball_source import Source
from tests.engines.crds.origin import Origin

BODY = gzip.compress(random.Random(3).randbytes(200_000), mtime=0)


class Waits:
    """Returns from waits at once, records them, and has a clock that they advance."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    def timing(self, **rest: Any) -> Timing:
        # The upper bound of the jitter, so that waits are predictable.
        return Timing(
            **{
                "clock": lambda: time.monotonic() + sum(self.seconds),
                "sleep": self.seconds.append,
                "random": lambda _, high: high,
                **rest,
            }
        )


def fetched(origin: Origin, into: Path, *, waits: Waits | None = None, **rest: Any) -> Downloaded:
    """Download from an origin; fields of Source go into the source, other arguments to ``download``."""
    given = {name: rest.pop(name) for name in list(rest) if name in Source._fields}
    source = Source(**{"url": origin.url, "ca_pem": origin.ca_pem, **given})
    return download(source, into, timing=(waits or Waits()).timing(), **rest)


def refused(origin: Origin, into: Path, code: Exit, **rest: Any) -> CRDsError:
    """Assert that a download fails with ``code`` and leaves no file; returns the error."""
    with pytest.raises(CRDsError) as raised:
        fetched(origin, into, **rest)
    assert raised.value.exit == code, raised.value
    assert not into.exists()
    assert raised.value.__cause__ is None
    return raised.value
