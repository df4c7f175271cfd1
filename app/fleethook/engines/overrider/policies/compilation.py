"""The result of compiling one overrider to policies."""

from typing import Final, NamedTuple

from fleethook.model.json import JSONObject

COMPILED_LABEL: Final = "fleethook.io/overrider-uid"
"""The label of all objects of one overrider; its value is the overrider's uid, or a hash of namespace and name."""
OVERRIDER_ANNOTATION: Final = "fleethook.io/overrider"
"""The annotation of all objects of one overrider, with its ``namespace/name``."""
PLACES_ANNOTATION: Final = "fleethook.io/policy-places"
"""On a policy: the places that it takes of the limit of policies."""
DIGEST_ANNOTATION: Final = "fleethook.io/policy-digest"
"""The annotation of all objects of one overrider, with `Compilation.digest`."""


class Refusal(NamedTuple):
    """A part of an overrider that no policy can apply."""

    entry: str
    """The path of the entry's item or patch, such as ``entries[0].patches[1]``; ``entries`` if none is at fault."""
    pointer: str
    """The JSON pointer of the workload's member, ``""`` for the entire workload."""
    reason: str
    """The expression, the limit or the race that prevents it."""


class Compilation(NamedTuple):
    """The policies of one overrider, or the reasons why it has none."""

    objects: tuple[JSONObject, ...]
    """Policies and then their bindings, in the order to apply them.

    Bindings keep their names when the overrider is edited. The name of a policy has a hash of its content. A controller
    applies the new policies, waits until they are active, applies the bindings, and then deletes the objects with the
    same `COMPILED_LABEL` that are not among these.

    Empty if there are refusals, or if no entry applies to any pool.
    """
    digest: str
    """A hash over ``objects``, ``""`` without objects. The policies are current if all objects carry it."""
    refusals: tuple[Refusal, ...]

    @property
    def compiles(self) -> bool:
        """Whether policies can do all that the webhook does for this overrider."""
        return not self.refusals
