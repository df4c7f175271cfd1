"""The rights of users: every page shows only kinds that the user of the request may get."""

import contextlib
import hmac
import secrets
from collections.abc import Callable
from typing import Final, NamedTuple, Protocol

from starlette.requests import Request

from fleethook.console.users.sessions import LastingSessions, Sessions
from fleethook.model.gvk import GroupKind


class User(NamedTuple):
    """The user of a request, as an apiserver names it."""

    name: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: tuple[tuple[str, tuple[str, ...]], ...] = ()


LOCAL_USER: Final = User("")
"""The user of a console on a loopback address, which asks for no credentials."""


class AccessError(Exception):
    """A request is refused; the text goes to its user.

    Attributes:
        status: The HTTP status: 401 without credentials, 403 without the right, 503 if nobody can decide now.
    """

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status: Final = status


class Authorizer(Protocol):
    """Decides about users and their rights."""

    @property
    def needs_credentials(self) -> bool:
        """Whether requests without credentials are refused."""

    @property
    def limits_kinds(self) -> bool:
        """Whether a user may lack the right to get some kinds."""

    async def authenticate(self, request: Request) -> User:
        """Return the user of a request; raises AccessError."""

    async def permits(self, user: User, group_kind: GroupKind, namespace: str) -> bool:
        """Return whether a user may get objects of a kind.

        Args:
            user: The user.
            group_kind: The kind.
            namespace: The namespace, ``""`` for all namespaces and for kinds without namespaces.

        Raises:
            AccessError: The apiserver gives no answer (503).
        """


class SignInAuthorizer(Authorizer, Protocol):
    """An authorizer with the pages ``/login`` and ``/logout``.

    Attributes:
        sessions: The sessions of browsers.
        opens_by_address: Whether the address of ``/login`` may contain the token.
    """

    sessions: Sessions
    opens_by_address: bool

    async def review_token(self, token: str, *, client: str) -> User:
        """Return the user of a token.

        Args:
            token: The token.
            client: The address of the client.

        Raises:
            AccessError: The token is not accepted.
        """


class OpenAuthorizer:
    """Permits everything to every account of this host: for ``--no-token`` on a loopback address."""

    needs_credentials: Final = False
    limits_kinds: Final = False

    async def authenticate(self, _request: Request) -> User:
        """Return the local user."""
        return LOCAL_USER

    async def permits(self, _user: User, _group_kind: GroupKind, _namespace: str) -> bool:
        """Return True."""
        return True


TOKEN_VARIABLE: Final = "FLEETHOOK_CONSOLE_TOKEN"  # noqa: S105 - the name of a variable
"""The environment variable with a token that stays valid."""
_NO_SESSION: Final = (
    "this browser has no session, or the console has been restarted since: open the last address that the console has "
    "printed (fleethook console: http://…/login?token=TOKEN); or start the console with --no-token to let every "
    f"account of this host read its pages. With {TOKEN_VARIABLE}, sessions outlive a restart"
)
_NO_LASTING_SESSION: Final = f"this browser has no session, or it has ended: sign in with the token of {TOKEN_VARIABLE}"
_REFUSED: Final = (
    "the console does not accept this token: each one opens one browser, and ends with its console; open the last "
    "address that the console has printed"
)
_REFUSED_LASTING: Final = f"this is not the token of {TOKEN_VARIABLE}"


class OneTimeTokenAuthorizer:
    """Permits everything to browsers that sent a token which the console has printed: other accounts cannot read it.

    A loopback address keeps other hosts out, but every account of this host can connect to it.
    """

    needs_credentials: Final = True
    limits_kinds: Final = False

    def __init__(self, lasting_token: str = "") -> None:
        """Make the first token.

        Args:
            lasting_token: A token of the user, in place of tokens that are valid once. It is never printed, opens all
                browsers, and its sessions outlive a restart of the console.
        """
        self.sessions = LastingSessions(lasting_token) if lasting_token else Sessions(secure=False)
        self.opens_by_address = True
        self._is_lasting: Final = bool(lasting_token)
        self._token = lasting_token or secrets.token_urlsafe(32)
        self._announce: Callable[[str], None] | None = None

    def announce_tokens(self, announce: Callable[[str], None]) -> None:
        """Call a function with the present token, and with the next one after each use. It must reach only the user."""
        self._announce = announce
        announce("" if self._is_lasting else self._token)

    async def authenticate(self, request: Request) -> User:
        """Return the local user; raises AccessError (401) for a browser without a session."""
        if self.sessions.find_token(request):
            return LOCAL_USER
        raise AccessError(401, _NO_LASTING_SESSION if self._is_lasting else _NO_SESSION)

    async def permits(self, _user: User, _group_kind: GroupKind, _namespace: str) -> bool:
        """Return True."""
        return True

    async def review_token(self, token: str, *, client: str) -> User:
        """Return the local user, and replace a token that is valid once; raises AccessError (401) for another token."""
        del client
        if not hmac.compare_digest(token.encode(), self._token.encode()):
            raise AccessError(401, _REFUSED_LASTING if self._is_lasting else _REFUSED)
        if self._is_lasting:
            return LOCAL_USER
        self._token = secrets.token_urlsafe(32)
        # The reader of standard output may be gone; the session of this browser begins all the same.
        with contextlib.suppress(OSError):
            if self._announce is not None:
                self._announce(self._token)
        return LOCAL_USER
