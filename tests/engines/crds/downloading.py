"""Downloads for tests: without waiting, and with a record of the waits."""

import gzip
import random
from pathlib import Path
from typing import Any

import pytest

from fleethook.engines.crds.download.download_and_mirrors import Downloaded, download
from fleethook.engines.crds.instance.source_and_secrets import TarballSource
from fleethook.engines.crds.redaction_and_exit_codes import CRDsError, Exit
from tests.engines.crds.origin import Origin

BODY = gzip.compress(random.Random(3).randbytes(200_000), mtime=0)


class Waits:
    """Returns from waits at once, and records them."""

    def __init__(self) -> None:
        self.seconds: list[float] = []


def fetched(origin: Origin, into: Path, *, waits: Waits | None = None, **rest: Any) -> Downloaded:
    """Download from an origin; fields of Source go into the source, other arguments to ``download``."""
    given = {name: rest.pop(name) for name in list(rest) if name in TarballSource._fields}
    source = TarballSource(**{"url": origin.url, "ca_pem": origin.ca_pem, **given})
    return download(source, into, sleep=(waits or Waits()).seconds.append, **rest)


def refused(origin: Origin, into: Path, code: Exit, **rest: Any) -> CRDsError:
    """Assert that a download fails with ``code`` and leaves no file; returns the error."""
    with pytest.raises(CRDsError) as raised:
        fetched(origin, into, **rest)
    assert raised.value.exit == code, raised.value
    assert not into.exists()
    assert raised.value.__cause__ is None
    return raised.value
