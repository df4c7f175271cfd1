"""Builds the headers of a request: credentials, validators of the known tarball, and the range of the missing part."""

import re
from typing import Final, NamedTuple
from urllib.parse import unquote

from urllib3.util import make_headers

from fleethook.engines.crds.crds_errors import CRDsError, Exit
from fleethook.engines.crds.download.response import Address
from fleethook.engines.crds.source import Source

_TOKEN: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
# Visible Latin-1 and blanks (RFC 9110, 5.5): a line break in a value would inject another header.
_VALUE: Final = re.compile(r"[\t\x20-\x7e\xa0-\xff]*")
_MAX_VALIDATOR: Final = 1024


class Validators(NamedTuple):
    """An origin's validators of one version of a body (RFC 9110, 8.8)."""

    etag: str = ""
    last_modified: str = ""

    def usable(self) -> "Validators":
        """Return the validators that are valid header values; the others become ``""``."""
        return Validators(*(value if _is_sendable(value) else "" for value in self))


def check_credentials(source: Source) -> None:
    """Check that the credentials are valid headers.

    Raises:
        CRDsError: A header has an invalid name or value; the message does not have the value.
    """
    for name, value in source.credentials.headers:
        if not _TOKEN.fullmatch(name) or not _VALUE.fullmatch(value):
            shown = name if _TOKEN.fullmatch(name) else "with an invalid name"
            raise CRDsError(Exit.USAGE, f"the header {shown} of the source's credentials cannot be sent")


def build_credential_headers(source: Source, address: Address, *, own: bool) -> dict[str, str]:
    """Return the headers that carry credentials.

    Args:
        source: The source with the credentials.
        address: The address of the request: the source's URL or a mirror. Its userinfo is sent to it only.
        own: Whether the address has the source's origin. A mirror of another origin gets no credentials.
    """
    credentials = source.credentials
    headers = dict(credentials.headers) if own else {}
    pair = unquote(address.userinfo)
    if own and (credentials.username or credentials.password):
        pair = f"{credentials.username}:{credentials.password}"
    if pair and not any(name.lower() == "authorization" for name in headers):
        # make_headers encodes Latin-1, but servers read UTF-8 (RFC 7617, 2.1).
        pair = pair if ":" in pair else f"{pair}:"
        headers |= {"Authorization": make_headers(basic_auth=pair.encode().decode("latin-1"))["authorization"]}
    return headers


def build_condition_headers(validators: Validators, *, size: int, etag: str) -> dict[str, str]:
    """Return the headers of a range request for the rest of a body, or of a conditional request for a new body.

    Args:
        validators: Validators of the known body; empty without one.
        size: Size of the received part.
        etag: Strong ETag of the received part; ``""`` if the origin cannot resume it.
    """
    if size and etag:
        return {"Range": f"bytes={size}-", "If-Range": etag}
    conditions = {"If-None-Match": validators.etag, "If-Modified-Since": validators.last_modified}
    return {name: value for name, value in conditions.items() if value}


def _is_sendable(value: str) -> bool:
    return len(value) <= _MAX_VALIDATOR and _VALUE.fullmatch(value) is not None
