"""How the controller looks after instances."""

from pathlib import Path
from typing import NamedTuple


class Reach(NamedTuple):
    """What instances may have the controller ask and read: whoever may write one decides about it."""

    private: bool = True
    """Addresses inside the network of the controller."""
    hosts: tuple[str, ...] = ()
    """The only ones; none for any."""
    local: Path | None = None
    """The directory of local tarballs; None if there are none."""


class Options(NamedTuple):
    """How instances are looked after."""

    version: str = ""
    """The operator's own, which names the release where an instance does not."""
    beside: bool = False
    """Whether the Go operator runs, too."""
    follow_instance: bool = False
    stale_if_error: bool = False
    strict: bool = False
    env_proxies: bool = True
    faithful_backoff: bool = False
    """Whether all failures are tried again at the Go operator's pace: 5 ms, doubled each time, 1000 s at most."""
    apply: bool = False
    """Whether the CRDs are applied to the API server of each instance."""
    reach: Reach = Reach()
