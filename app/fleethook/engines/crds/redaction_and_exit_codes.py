"""URLs without secrets, for messages, and the errors about CRD tarballs with the exit codes of ``fleethook crds``."""

import enum
import re
from typing import Final
from urllib.parse import unquote_plus

HIDDEN: Final = "***"
# Up to the last @ before path, query and fragment, with a scheme or without one.
_USERINFO: Final = re.compile(r"^((?:[a-z][a-z0-9+.-]*:)?//)?[^/?#]*@", re.IGNORECASE)
# An unescaped "/", "?" or "#" in a password ends the authority early; the rest of the authority is not a port.
_BROKEN_USERINFO: Final = re.compile(r"^((?:[a-z][a-z0-9+.-]*:)?//)[^/?#@\[]*:(?!\d*(?:[/?#]|$)).*@", re.IGNORECASE)
_PAIR: Final = re.compile(r"(?<=[?&;#])([^=&;#?]*)=([^&;#]*)")
# Parts of query keys in signed URLs of the large object stores, GitHub, GitLab and Artifactory.
_SECRET: Final = re.compile(
    r"token|sig|secret|passw|pwd|auth|key|credential|session|policy|jwt|cookie|ticket|^(?:code|pass|pat|sas|sv|se)$",
    re.IGNORECASE,
)
_UNPRINTABLE: Final = re.compile(r"[\x00-\x20\x7f-\xa0\u2028\u2029\ud800-\udfff]")


def redact(url: str) -> str:
    """Return a URL without userinfo, and without the values of query keys with names of secrets.

    If the text is not a URL, only the part that looks like userinfo is replaced. Raises no error.
    """
    shown = _BROKEN_USERINFO.sub(rf"\1{HIDDEN}@", url.strip(), count=1)
    shown = _USERINFO.sub(rf"\1{HIDDEN}@", shown, count=1)
    shown = _PAIR.sub(_redact_pair, shown)
    return _UNPRINTABLE.sub(lambda found: f"%{ord(found[0]):02X}", shown)


def _redact_pair(found: re.Match[str]) -> str:
    name, value = found.groups()
    return f"{name}={HIDDEN if value and _SECRET.search(unquote_plus(name)) else value}"


class Exit(enum.IntEnum):
    """Exit codes of ``fleethook crds``."""

    OK = 0
    INTERNAL = 1
    USAGE = 2
    NOT_CACHED = 10
    LOCKED = 11
    NETWORK = 20
    HTTP = 21
    TLS = 22
    INTEGRITY = 23
    ARCHIVE = 24
    LIMIT = 25
    DISK = 26
    INTERRUPTED = 130


class CRDsError(Exception):
    """An error about a CRD tarball. The message names the place and the remedy, and has no secrets of URLs.

    Attributes:
        exit: The exit code of a command.
        transient: Whether a later try may succeed without a change by the user.
    """

    def __init__(self, exit_code: Exit, text: str, *, transient: bool = False) -> None:
        super().__init__(text)
        self.exit: Final = exit_code
        self.transient: Final = transient
