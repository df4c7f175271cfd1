"""The sessions of browsers: their ids, in cookies, and the credentials that they stand for, in memory."""

import secrets
import time
from collections.abc import Callable
from typing import Final, NamedTuple

from starlette.requests import Request
from starlette.responses import Response

COOKIE: Final = "__Host-fleethook-session"
"""The cookie of a console with HTTPS. Browsers accept the prefix for secure cookies only."""
SESSION_SECONDS: Final = 8 * 3600.0
"""A session ends after a working day. It ends earlier with its token, which the apiserver reviews again and again."""
MAX_SESSIONS: Final = 1_000
MAX_SESSIONS_PER_USER: Final = 20


class _Session(NamedTuple):
    user: str
    token: str
    until: float


class Sessions:
    """A limited number of sessions; a new one ends the oldest one of its user, or of all users."""

    def __init__(
        self,
        *,
        secure: bool = True,
        limit: int = MAX_SESSIONS,
        user_limit: int = MAX_SESSIONS_PER_USER,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Prepare.

        Args:
            secure: Whether browsers send the cookie over HTTPS only.
            limit: The most sessions.
            user_limit: The most sessions of one user.
            clock: Returns the time in seconds.
        """
        self._secure: Final = secure
        self._limit: Final = limit
        self._user_limit: Final = user_limit
        self._clock: Final = clock
        # In the order of their begin.
        self._sessions: Final[dict[str, _Session]] = {}

    def __len__(self) -> int:
        return len(self._sessions)

    def start(self, request: Request, response: Response, *, user: str, token: str) -> None:
        """End the former session of a browser, begin one under a new id, and send its cookie."""
        self._sessions.pop(self._read_key(request), None)
        own = [key for key, one in self._sessions.items() if one.user == user]
        if len(own) >= self._user_limit:
            del self._sessions[own[0]]
        if len(self._sessions) >= self._limit:
            del self._sessions[next(iter(self._sessions))]
        key = secrets.token_urlsafe(32)
        self._sessions[key] = _Session(user, token, self._clock() + SESSION_SECONDS)
        name = self._name_cookie(request)
        response.set_cookie(name, key, secure=self._secure, httponly=True, samesite="strict", path="/")

    def find_token(self, request: Request) -> str:
        """Return the token of the session of a request, ``""`` without one."""
        key = self._read_key(request)
        session = self._sessions.get(key)
        if session is None:
            return ""
        if self._clock() >= session.until:
            del self._sessions[key]
            return ""
        return session.token

    def end(self, request: Request, response: Response) -> None:
        """End the session of a request, and delete its cookie."""
        self._sessions.pop(self._read_key(request), None)
        name = self._name_cookie(request)
        response.delete_cookie(name, secure=self._secure, httponly=True, samesite="strict", path="/")

    def _read_key(self, request: Request) -> str:
        return request.cookies.get(self._name_cookie(request), "")

    def _name_cookie(self, request: Request) -> str:
        # Browsers share cookies between the ports of a host, so each console on loopback has a cookie of its own.
        return COOKIE if self._secure else f"fleethook-session-{request.url.port or 80}"
