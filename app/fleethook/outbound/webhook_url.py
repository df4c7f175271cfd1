"""The endpoint of a webhook."""

from typing import NamedTuple


class WebhookEndpoint(NamedTuple):
    """The URL of a webhook, and the certificate that it must present."""

    url: str
    server_name: str = ""
    """The name that the certificate must contain, ``""`` for the host of the URL."""
    ca_bundle: str = ""
    """Certificate authorities, PEM in base64; ``""`` for those of the system."""
    service: bool = False
    """Whether the endpoint is a Service of the cluster, whose address is always private."""
