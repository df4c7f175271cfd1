"""A value of a console that the first request makes and that later requests share."""

from collections.abc import Callable
from typing import Final, Generic, TypeVar

from starlette.requests import Request

from fleethook.console.context import ConsoleContext
from fleethook.console.rendering import find_context

T = TypeVar("T")


class KeptValue(Generic[T]):
    """Finds its value in the application that answers a request, so that two consoles of one process share nothing."""

    def __init__(self, make: Callable[[ConsoleContext], T]) -> None:
        """Say how the value is made.

        Args:
            make: Returns the value for a console; it must not compute values that no page may need.
        """
        self._make: Final = make

    def find(self, request: Request) -> T:
        """Return the value of the application that answers a request; the first request makes it."""
        kept: dict[KeptValue[T], T] = request.app.state.kept_values
        if self not in kept:
            kept[self] = self._make(find_context(request))
        return kept[self]
