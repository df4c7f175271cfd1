"""The result of compiling an overrider, and the decision whether a policy or the webhook applies the overrider.

There is a limit for all policies of a cluster.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final, NamedTuple

from fleethook.cluster.conditions import Condition
from fleethook.engines.overrider.subject.owner_index import Binding
from fleethook.model.json import JSON, JSONObject, as_object

COMPILED_LABEL: Final = "fleethook.io/overrider-uid"
"""The label of all objects of one overrider; its value is the overrider's uid, or a hash of namespace and name."""
OVERRIDER_ANNOTATION: Final = "fleethook.io/overrider"
"""The annotation of all objects of one overrider, with its ``namespace/name``."""
PLACES_ANNOTATION: Final = "fleethook.io/policy-places"
"""On a policy: the places that it takes of the limit of policies."""
DIGEST_ANNOTATION: Final = "fleethook.io/policy-digest"
"""The annotation of all objects of one overrider, with `Compilation.digest`."""
PROBE_ANNOTATION: Final = "fleethook.io/policy-probe"
"""The annotation of a probe. The webhook leaves dry runs with it alone, so that only policies render them."""


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


MODE_ANNOTATION: Final = "fleethook.io/mode"
"""The annotation of an overrider that replaces the setting ``overrider_mode``."""
MODE: Final = "Policy"
"""The condition that tells whether policies apply an overrider."""
REQUIRED_RESOURCES: Final = frozenset({"mutatingadmissionpolicies", "mutatingadmissionpolicybindings"})
"""The resources of ``admissionregistration.k8s.io/v1`` that policies need."""
_MAX_REFUSALS: Final = 3


class Mode(StrEnum):
    """The choices of the operator."""

    POLICY = "policy"
    """A policy, and the webhook as long as there is none. If no policy is possible, a Warning event reports it."""
    WEBHOOK = "webhook"
    AUTO = "auto"
    """A policy if the apiserver serves the API and the overrider compiles, else the webhook."""


class Decision(NamedTuple):
    """Whether policies apply an overrider, and why."""

    uses_policy: bool
    reason: str
    message: str


def read_mode(overrider: JSONObject, default: Mode) -> tuple[Mode, str]:
    """Return the mode of an overrider, and the reason why its annotation was ignored, ``""`` if it was not."""
    annotation = as_object(as_object(overrider.get("metadata")).get("annotations")).get(MODE_ANNOTATION)
    if annotation is None:
        return default, ""
    try:
        return Mode(str(annotation)), ""
    except ValueError:
        allowed = ", ".join(Mode)
        return default, f"annotation {MODE_ANNOTATION} is {annotation!r}; set it to one of {allowed}"


def serves_policies(resource_list: Mapping[str, JSON]) -> bool:
    """Return whether an ``APIResourceList`` of ``admissionregistration.k8s.io/v1`` has policies and bindings."""
    listed = resource_list.get("resources")
    return isinstance(listed, list) and {as_object(one).get("name") for one in listed} >= REQUIRED_RESOURCES


def decide(mode: Mode, *, is_served: bool, refusals: tuple[Refusal, ...], ignored: str = "") -> Decision:
    """Decide about one overrider.

    Args:
        mode: Its mode.
        is_served: Whether the apiserver serves the API.
        refusals: The entries that do not compile.
        ignored: The reason why its annotation was ignored.
    """
    note = f"; {ignored}" if ignored else ""
    if mode is Mode.WEBHOOK:
        return Decision(False, "WebhookRequested", f"the webhook applies it, as its mode asks{note}")
    if not is_served:
        message = "the apiserver does not serve MutatingAdmissionPolicy in admissionregistration.k8s.io/v1"
        return Decision(False, "NotServed", f"the webhook applies it: {message}{note}")
    if refusals:
        message = f"the webhook applies it: {_describe_refusals(refusals)}{note}"
        return Decision(False, "DoesNotCompile", message)
    return Decision(True, "Compiled", f"policies apply it{note}")


def refuse_for_want_of_room(limit: int) -> Decision:
    """Return the decision about an overrider for whose policies there is no room.

    Args:
        limit: The number of places for policies.
    """
    message = (
        f"the webhook applies it: the limit of {limit} policies for all overriders leaves no room for it; "
        "the setting policy_limit changes it"
    )
    return Decision(False, "LimitReached", message)


def _describe_refusals(refusals: tuple[Refusal, ...]) -> str:
    shown = [
        f"{one.entry}{f' ({one.pointer})' if one.pointer else ''}: {one.reason}" for one in refusals[:_MAX_REFUSALS]
    ]
    more = f" and {len(refusals) - _MAX_REFUSALS} more" if len(refusals) > _MAX_REFUSALS else ""
    return "; ".join(shown) + more


def describe(decision: Decision, *, is_active: bool, problem: str = "") -> Condition:
    """Return the condition `MODE`.

    Args:
        decision: The decision.
        is_active: Whether a dry run has shown that the policies act.
        problem: The reason why the policies could not be applied or tested, ``""`` for none.
    """
    if not decision.uses_policy:
        # With `auto`, the webhook is a normal state and not a failure.
        return Condition(MODE, "False", decision.reason, decision.message)
    if is_active:
        return Condition(MODE, "True", "Active", decision.message)
    if problem:
        return Condition(MODE, "False", "NotApplied", f"the webhook applies it: {problem}")
    return Condition(MODE, "Unknown", "Activating", "the webhook applies it until the apiserver uses the policies")


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


def is_probe(metadata: Mapping[str, JSON]) -> bool:
    """Return whether the metadata of a workload are those of a probe."""
    return PROBE_ANNOTATION in as_object(metadata.get("annotations"))
