"""Where a webhook is."""

from typing import NamedTuple


class Endpoint(NamedTuple):
    """Where to call, and whom to trust there."""

    url: str
    server_name: str = ""
    """Who the certificate has to be for, ``""`` for the host of the URL."""
    ca_bundle: str = ""
    """PEM, base64; ``""`` for the system's authorities."""
    service: bool = False
    """Whether it is a Service of the cluster, which is at a private address by nature."""
