"""The rights of users: every page shows only kinds that the user of the request may get."""

from typing import Final, NamedTuple, Protocol

from starlette.requests import Request

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


class OpenAuthorizer:
    """Permits everything: the console listens on a loopback address."""

    needs_credentials: Final = False

    async def authenticate(self, _request: Request) -> User:
        """Return the local user."""
        return LOCAL_USER

    async def permits(self, _user: User, _group_kind: GroupKind, _namespace: str) -> bool:
        """Return True."""
        return True
