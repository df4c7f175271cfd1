"""The headers of a request: credentials, validators of the known tarball, and the range of the received part."""

import re
from typing import Final, NamedTuple
from urllib.parse import unquote

from urllib3.util import make_headers

from app.crds.download.response import Address
from app.crds.failures import CRDsError, Exit
from app.crds.source import Source

_TOKEN: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
# Visible Latin-1 and blanks (RFC 9110 5.5); a line break in a value would begin a header of somebody else's.
_VALUE: Final = re.compile(r"[\t\x20-\x7e\xa0-\xff]*")
_MAX_VALIDATOR: Final = 1024


class Validators(NamedTuple):
    """An origin's marks of one version of a body (RFC 9110 8.8)."""

    etag: str = ""
    last_modified: str = ""

    def usable(self) -> "Validators":
        """Return those that can be sent as they are."""
        return Validators(*(value if _is_sendable(value) else "" for value in self))


def check_credentials(source: Source) -> None:
    """Check that credentials can be sent.

    Raises:
        CRDsError: A header is none; its value is not shown.
    """
    for name, value in source.credentials.headers:
        if not _TOKEN.fullmatch(name) or not _VALUE.fullmatch(value):
            shown = name if _TOKEN.fullmatch(name) else "with a name that is none"
            raise CRDsError(Exit.USAGE, f"the header {shown} of the source's credentials cannot be sent")


def build_credential_headers(source: Source, address: Address, *, own: bool) -> dict[str, str]:
    """Return the headers that carry credentials.

    Args:
        source: Whose credentials.
        address: Asked, the source's own or a mirror's; its userinfo is for it alone.
        own: Whether it is of the source's own origin: a mirror elsewhere is somebody else.
    """
    credentials = source.credentials
    headers = dict(credentials.headers) if own else {}
    pair = unquote(address.userinfo)
    if own and (credentials.username or credentials.password):
        pair = f"{credentials.username}:{credentials.password}"
    if pair and not any(name.lower() == "authorization" for name in headers):
        # make_headers encodes as Latin-1; servers of today read UTF-8 (RFC 7617 2.1).
        pair = pair if ":" in pair else f"{pair}:"
        headers |= {"Authorization": make_headers(basic_auth=pair.encode().decode("latin-1"))["authorization"]}
    return headers


def build_condition_headers(validators: Validators, *, size: int, etag: str) -> dict[str, str]:
    """Return the headers that make a request conditional: on the received part of a body, or on an older body.

    Args:
        validators: Of the older one; empty if there is none.
        size: Of the beginning.
        etag: That it came with; a strong one, or ``""`` if it cannot be continued.
    """
    if size and etag:
        return {"Range": f"bytes={size}-", "If-Range": etag}
    conditions = {"If-None-Match": validators.etag, "If-Modified-Since": validators.last_modified}
    return {name: value for name, value in conditions.items() if value}


def _is_sendable(value: str) -> bool:
    return len(value) <= _MAX_VALIDATOR and _VALUE.fullmatch(value) is not None
