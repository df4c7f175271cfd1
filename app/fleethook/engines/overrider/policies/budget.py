"""Bounds the number of policies in a cluster. No I/O.

kube-apiserver keeps each compiled policy in memory, and compares its selectors with each write of a workload, also of
one in another namespace (docs/performance.md has figures). So overriders beyond a limit stay with the webhook. Without
the limit, a tenant who may create overriders could exhaust the memory of kube-apiserver. A large policy takes
several places.
"""

from typing import Final

from fleethook.engines.overrider.subject.binding import Binding


class Budget:
    """The places of each subject, and the subjects that wait for room, in the order of their requests."""

    def __init__(self, most: int) -> None:
        """Allow policies that take ``most`` places together."""
        self.most: Final = most
        self._held: Final[dict[Binding, int]] = {}
        self._waiting: Final[dict[Binding, int]] = {}

    def enter(self, binding: Binding, *, others: int) -> bool:
        """Return whether a subject has room already, or got one place; if not, it waits.

        Args:
            binding: The subject.
            others: The places of the policies whose overriders hold no room.
        """
        return binding in self._held or self.take(binding, 1, others=others)

    def take(self, binding: Binding, count: int, *, others: int) -> bool:
        """Change the room of a subject to ``count`` places; if there is too little, it loses its room and waits."""
        self._waiting.pop(binding, None)
        held = self._held.pop(binding, 0)
        if count > max(held, self._compute_room(others)):
            self._waiting[binding] = count
            return False
        self._held[binding] = count
        return True

    def give_back(self, binding: Binding) -> None:
        """Free the room of a subject, which no longer waits either."""
        self._held.pop(binding, None)
        self._waiting.pop(binding, None)

    @property
    def is_full(self) -> bool:
        """Whether a subject waits."""
        return bool(self._waiting)

    def find_next(self, *, others: int) -> Binding | None:
        """Return the first waiting subject for which there is enough room now."""
        room = self._compute_room(others)
        return next((binding for binding, wanted in self._waiting.items() if wanted <= room), None)

    def _compute_room(self, others: int) -> int:
        return self.most - sum(self._held.values()) - others
