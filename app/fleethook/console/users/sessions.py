"""The sessions of browsers whose user has signed in with a bearer token.

The cookie has a random id only; the token stays in the memory of this process and goes to the apiserver only.
"""

import secrets
import time
from collections.abc import Callable
from typing import Final, NamedTuple

from starlette.requests import Request
from starlette.responses import Response

COOKIE: Final = "__Host-fleethook-session"
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
        limit: int = MAX_SESSIONS,
        user_limit: int = MAX_SESSIONS_PER_USER,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Prepare.

        Args:
            limit: The most sessions.
            user_limit: The most sessions of one user.
            clock: Returns the time in seconds.
        """
        self._limit: Final = limit
        self._user_limit: Final = user_limit
        self._clock: Final = clock
        # In the order of their begin.
        self._sessions: Final[dict[str, _Session]] = {}

    def __len__(self) -> int:
        return len(self._sessions)

    def start(self, request: Request, response: Response, *, user: str, token: str) -> None:
        """End the former session of a browser, begin one under a new id, and send its cookie."""
        self._sessions.pop(request.cookies.get(COOKIE, ""), None)
        own = [key for key, one in self._sessions.items() if one.user == user]
        if len(own) >= self._user_limit:
            del self._sessions[own[0]]
        if len(self._sessions) >= self._limit:
            del self._sessions[next(iter(self._sessions))]
        key = secrets.token_urlsafe(32)
        self._sessions[key] = _Session(user, token, self._clock() + SESSION_SECONDS)
        response.set_cookie(COOKIE, key, secure=True, httponly=True, samesite="strict", path="/")

    def find_token(self, request: Request) -> str:
        """Return the token of the session of a request, ``""`` without one."""
        key = request.cookies.get(COOKIE, "")
        session = self._sessions.get(key)
        if session is None:
            return ""
        if self._clock() >= session.until:
            del self._sessions[key]
            return ""
        return session.token

    def end(self, request: Request, response: Response) -> None:
        """End the session of a request, and delete its cookie."""
        self._sessions.pop(request.cookies.get(COOKIE, ""), None)
        response.delete_cookie(COOKIE, secure=True, httponly=True, samesite="strict", path="/")
