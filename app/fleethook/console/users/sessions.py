"""The sessions of browsers: their ids, in cookies, and the credentials that they stand for, in memory."""

import hashlib
import hmac
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
        self._send(request, response, key)

    def _send(self, request: Request, response: Response, key: str) -> None:
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


class LastingSessions(Sessions):
    """Sessions of one token. They outlive a restart of the console, because the token signs their cookies."""

    def __init__(self, token: str, *, clock: Callable[[], float] = time.time) -> None:
        """Prepare.

        Args:
            token: The token of all sessions.
            clock: Returns seconds since the epoch.
        """
        super().__init__(secure=False, clock=clock)
        self._token: Final = token
        self._ended: Final[dict[str, float]] = {}

    def start(self, request: Request, response: Response, *, user: str, token: str) -> None:
        """Send the cookie of a new session."""
        del user, token
        text = f"{int(self._clock() + SESSION_SECONDS)}.{secrets.token_urlsafe(16)}"
        self._send(request, response, f"{text}.{self._sign(request, text)}")

    def find_token(self, request: Request) -> str:
        """Return the token if the cookie of a request is that of a session, ``""`` otherwise."""
        key = self._read_key(request)
        return self._token if self._find_end(request, key) > self._clock() and key not in self._ended else ""

    def end(self, request: Request, response: Response) -> None:
        """End the session of a request until the console restarts, and delete its cookie."""
        key, now = self._read_key(request), self._clock()
        for one in [one for one, until in self._ended.items() if until <= now]:
            del self._ended[one]
        if (until := self._find_end(request, key)) > now:
            self._ended[key] = until
        super().end(request, response)

    def _find_end(self, request: Request, key: str) -> float:
        """Return the end of a session in seconds since the epoch, 0 for a cookie of another token or port."""
        text, _, signature = key.rpartition(".")
        is_signed = hmac.compare_digest(signature.encode(), self._sign(request, text).encode())
        return float(text.partition(".")[0]) if is_signed else 0.0

    def _sign(self, request: Request, text: str) -> str:
        message = f"{self._name_cookie(request)} {text}"
        return hmac.new(self._token.encode(), message.encode(), hashlib.sha256).hexdigest()
