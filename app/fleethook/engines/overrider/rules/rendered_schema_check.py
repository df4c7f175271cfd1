"""Checks rendered workloads as kube-apiserver does, so that each mistake of an overrider names its entry."""

from collections.abc import Callable, Collection, Sequence
from functools import cache, partial
from typing import Final

from fleethook.engines.overrider.entries.patch_paths_and_protected_fields import find_reserved_keys, protected_change
from fleethook.engines.overrider.entries.steps_and_limits import RenderError, Step, Traced
from fleethook.engines.overrider.render.template_delta import Token, name_tokens
from fleethook.model.json import JSONObject
from fleethook.workload_schema import WorkloadFinding, check_decoded, decode_workload
from fleethook.workload_schema.go_structs import Kind

MAX_FINDINGS: Final = 10


def check_rendered(traced: Traced, steps: Sequence[Step], *, stored: JSONObject) -> tuple[str, ...]:
    """Return warnings about a rendered workload, without the mistakes that the template has on its own.

    An unknown field is a warning: kube-apiserver drops it, unless it knows more fields than our schema.

    Args:
        traced: The workload with the overrider's entries.
        steps: The steps of the entries.
        stored: The workload in the form that kube-apiserver stores.

    Raises:
        RenderError: A member has a value that the API refuses, or a protected member was changed.
    """
    states = traced.states
    if (path := protected_change(states[0], traced.rendered)) is not None:
        number = _find_cause(steps, lambda number: protected_change(states[0], states[number]) is not None)
        message = f"{path} identifies the workload or selects its pods and cannot be overridden"
        raise RenderError(steps[number].field, message)
    for path in find_reserved_keys(traced.rendered):
        number = _find_cause(steps, lambda number: any(find_reserved_keys(states[number])))
        raise RenderError(steps[number].field, f"{path} belongs to fleethook and cannot be overridden")
    findings = _find_new_findings(traced, steps, stored)
    if wrong := [(field, finding) for field, finding in findings if finding.problem != "unknown"]:
        further = "".join(f"; {field}: {finding}" for field, finding in wrong[1:MAX_FINDINGS])
        raise RenderError(wrong[0][0], f"the rendered workload is not valid: {wrong[0][1]}{further}")
    return tuple(f"{field}: {finding}" for field, finding in findings)


_Key = tuple[tuple[Token, ...], str]
"""The place of a finding, with list elements by identity, and the kind of problem."""


def _find_new_findings(traced: Traced, steps: Sequence[Step], stored: JSONObject) -> list[tuple[str, WorkloadFinding]]:
    """Return the findings that rendering causes, each with the path of the step whose change decoded it true.

    That step may be far from the place of the finding: a removed volume makes the mounts of all containers invalid.
    """
    kind: Kind = "StatefulSet" if stored["kind"] == "StatefulSet" else "Deployment"
    decoded = _identify(stored, kind)
    if not decoded:
        return []

    @cache
    def find_at(number: int) -> Collection[_Key]:
        return _identify(decode_workload(traced.states[number], kind), kind)

    def has(key: _Key, number: int) -> bool:
        return key in find_at(number)

    numbers = {step.field: number for number, step in enumerate(steps)}
    caused: list[tuple[str, WorkloadFinding]] = []
    for key, finding in decoded.items():
        # A step that replaces an invalid value by another one causes the finding, too.
        setting = (
            source for source in reversed(traced.sources) if len(source.tokens) <= len(key[0]) and source.made(key[0])
        )
        direct = next((numbers[change.field] for change in setting), -1)
        number = direct if has(key, 0) else max(direct, _find_cause(steps, partial(has, key)))
        if number >= 0:
            caused.append((steps[number].field, finding))
    return caused


def _identify(decoded: JSONObject, kind: Kind) -> dict[_Key, WorkloadFinding]:
    return {(name_tokens(decoded, one.pointer), one.problem): one for one in check_decoded(decoded, kind)}


def _find_cause(steps: Sequence[Step], is_wrong: Callable[[int], bool]) -> int:
    """Return the number of a step that makes a workload wrong.

    Args:
        steps: The steps. The workload is right before the first one, and wrong after the last one.
        is_wrong: Returns whether it is wrong after a number of steps. It is asked for some numbers only.
    """
    right, wrong = 0, len(steps)
    while wrong - right > 1:
        middle = (right + wrong) // 2
        right, wrong = (right, middle) if is_wrong(middle) else (middle, wrong)
    return wrong - 1
