"""Options of the controller."""

from pathlib import Path
from typing import NamedTuple


class Reach(NamedTuple):
    """The hosts and files that instances may name. Users who can write an instance choose among them."""

    private: bool = True
    """Whether private, loopback and link-local addresses are allowed."""
    hosts: tuple[str, ...] = ()
    """The only allowed hosts; empty for any."""
    local: Path | None = None
    """The directory of local tarballs; None allows no local tarball."""


class Options(NamedTuple):
    """Options of the controller."""

    version: str = ""
    """Version of the operator: the release for instances that name none."""
    beside: bool = False
    """Whether Karmada's operator runs too."""
    follow_instance: bool = False
    stale_if_error: bool = False
    strict: bool = False
    env_proxies: bool = True
    faithful_backoff: bool = False
    """Whether all failures are retried with the backoff of Karmada's operator: 5 ms, doubled up to 1000 s."""
    apply: bool = False
    """Whether to apply the CRDs to the API server of each instance."""
    reach: Reach = Reach()
