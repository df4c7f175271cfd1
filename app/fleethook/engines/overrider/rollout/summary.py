"""Counts the predicted effects of an edit, for the command and for admission."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from fleethook.engines.overrider.rollout.effect import EFFECTS, Effect, EffectName
from fleethook.engines.overrider.rollout.prediction import Outcome

_VERBS: Final[Mapping[EffectName, str]] = {
    "rolls": "rolls",
    "scales": "scales",
    "created": "creates",
    "deleted": "deletes",
    "spec": "changes other fields of",
    "metadata": "changes metadata of",
    "error": "cannot render",
}
_QUIET: Final = frozenset({"unchanged"})


class Totals(NamedTuple):
    """Numbers of workloads and pods by effect."""

    workloads: int
    """All workloads of the affected subjects, without those that will be created."""
    effects: Mapping[EffectName, int]
    pods: Mapping[EffectName, int]

    @property
    def changes(self) -> bool:
        """Whether any workload changes, or cannot be rendered."""
        return any(number and name not in _QUIET for name, number in self.effects.items())

    @property
    def headline(self) -> str:
        """The numbers on one line, such as ``rolls 48 of 200 workloads, 312 pods``."""
        parts = [
            self._describe(name, first=not position)
            for position, name in enumerate(name for name in EFFECTS if name not in _QUIET and self.effects.get(name))
        ]
        return "; ".join(parts) or f"changes none of {count(self.workloads, 'workload')}"

    def _describe(self, name: EffectName, *, first: bool) -> str:
        number = self.effects[name]
        total = f" of {count(self.workloads, 'workload')}" if first and name != "created" else ""
        noun = "" if total else f" {'workload' if number == 1 else 'workloads'}"
        pods = f", {count(self.pods.get(name, 0), 'pod')}" if name in ("rolls", "scales", "created", "deleted") else ""
        return f"{_VERBS[name]} {number}{total}{noun}{pods}"


def count(number: int, noun: str) -> str:
    """Return a number with its noun: ``1 pod``, ``2 pods``."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def sum_effects(effects: Iterable[Effect]) -> Totals:
    """Return the totals of effects."""
    workloads, numbers, pods = 0, Counter[EffectName](), Counter[EffectName]()
    for effect in effects:
        workloads += effect.name != "created"
        numbers[effect.name] += 1
        pods[effect.name] += effect.pods
    return Totals(workloads, numbers, pods)


def sum_outcomes(outcomes: Sequence[Outcome]) -> Totals:
    """Return the totals of outcomes."""
    return sum_effects(one.effect for one in outcomes)
