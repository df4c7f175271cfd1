"""The output of ``fleethook diff``: effects by subject and node pool, with totals."""

from collections.abc import Iterator, Sequence
from enum import StrEnum
from itertools import groupby
from typing import Any, Final, NamedTuple

from fleethook.cli.output.json_output import write_json
from fleethook.cli.output.terminal import concatenate, styled, write, write_styled
from fleethook.cluster.store import ObjectKey
from fleethook.engines.overrider.rollout.effect import EFFECTS
from fleethook.engines.overrider.rollout.guard import ALLOW_ANNOTATION
from fleethook.engines.overrider.rollout.prediction import Outcome, Totals, count, sum_outcomes

_STYLES: Final = {
    "rolls": "bold red", "deleted": "bold red", "error": "bold red", "scales": "yellow", "created": "green",
}  # fmt: skip
_LABELS: Final = {"spec": "changes spec", "metadata": "changes metadata", "error": "cannot be rendered"}
_COUNTED: Final = frozenset({"rolls", "created", "deleted"})
_OWN: Final = "/metadata/annotations/fleethook.io~1"
_MAX_PATHS: Final = 3


class Output(StrEnum):
    """Output formats of the command."""

    TEXT = "text"
    JSON = "json"
    MARKDOWN = "markdown"


class Allowed(NamedTuple):
    """An overrider, and the annotation value that allows its edit."""

    overrider: ObjectKey
    value: str


def print_outcomes(outcomes: Sequence[Outcome], allowed: Sequence[Allowed], output: Output) -> None:
    """Write the effects to standard output. Text and Markdown leave out unchanged workloads."""
    {Output.TEXT: _print_text, Output.JSON: _print_json, Output.MARKDOWN: _print_markdown}[output](outcomes, allowed)


def _group(outcomes: Sequence[Outcome]) -> Iterator[tuple[str, list[Outcome]]]:
    for subject, group in groupby(outcomes, key=lambda one: one.subject):
        yield _describe_key(subject), list(group)


def _describe_key(key: ObjectKey) -> str:
    inside = f" of {key.cluster}" if key.cluster else ""
    return f"{key.group_kind.kind} {key.namespace or 'default'}/{key.name}{inside}"


def _print_text(outcomes: Sequence[Outcome], allowed: Sequence[Allowed]) -> None:
    groups = list(_group(outcomes))
    for title, group in groups:
        write_styled(concatenate(styled(title, "bold"), styled(f": {sum_outcomes(group).headline}")))
        for one in group:
            if one.effect.name == "unchanged" and not one.effect.notes:
                continue
            label = _LABELS.get(one.effect.name, one.effect.name)
            write_styled(
                styled(f"  {one.pool}: {_describe_workload(one)}"),
                styled(label, _STYLES.get(one.effect.name, "")),
                styled(_describe_details(one)),
            )
            for note in one.effect.notes:
                write_styled(styled(f"    {note}", "dim"))
    if len(groups) != 1:
        write_styled(styled(f"Total: {sum_outcomes(outcomes).headline}", "bold"))
    for line in _describe_allowed(allowed):
        write_styled(styled(line))


def _describe_workload(one: Outcome) -> str:
    return f"{one.kind} {one.name}" if one.name else one.kind


def _describe_details(one: Outcome) -> str:
    """Return the numbers, the error or the changed fields of a workload."""
    if one.error:
        return one.error
    effect, parts = one.effect, []
    if effect.name in _COUNTED:
        parts.append(count(effect.pods, "pod"))
    if effect.replicas[0] != effect.replicas[1] and effect.name in ("rolls", "scales"):
        parts.append(f"replicas {effect.replicas[0]} → {effect.replicas[1]}")
    paths = _select_paths(one)
    more = f" and {len(paths) - _MAX_PATHS} more" if len(paths) > _MAX_PATHS else ""
    parts += [f"({', '.join(paths[:_MAX_PATHS])}{more})"] if paths else []
    return " ".join(parts)


def _select_paths(one: Outcome) -> list[str]:
    """Return the changed fields that a reader looks for: without fleethook's own annotations and replicas."""
    paths = [path for path in one.effect.paths if path != "/spec/replicas"]
    foreign = [path for path in paths if not path.startswith(_OWN)]
    return foreign if foreign or one.effect.name != "metadata" else paths


def _describe_allowed(allowed: Sequence[Allowed]) -> Iterator[str]:
    for one in allowed:
        yield f"A guard against rollouts allows {_describe_key(one.overrider)} with {ALLOW_ANNOTATION}: {one.value}"


def _print_json(outcomes: Sequence[Outcome], allowed: Sequence[Allowed]) -> None:
    subjects = [
        {"subject": title, **_describe_totals(sum_outcomes(group)), "workloads": list(map(_describe_outcome, group))}
        for title, group in _group(outcomes)
    ]
    allowances = [
        {"overrider": _describe_key(one.overrider), "annotation": ALLOW_ANNOTATION, "value": one.value}
        for one in allowed
    ]
    write_json({**_describe_totals(sum_outcomes(outcomes)), "subjects": subjects, "allowances": allowances})


def _describe_totals(totals: Totals) -> dict[str, Any]:
    effects = {name: totals.effects[name] for name in EFFECTS if totals.effects.get(name)}
    pods = {name: totals.pods[name] for name in EFFECTS if totals.pods.get(name)}
    return {"summary": totals.headline, "count": totals.workloads, "effects": effects, "pods": pods}


def _describe_outcome(one: Outcome) -> dict[str, Any]:
    effect = one.effect
    return {
        "pool": one.pool,
        "kind": one.kind,
        "name": one.name,
        "effect": effect.name,
        "pods": effect.pods,
        "replicas": {"before": effect.replicas[0], "after": effect.replicas[1]},
        "paths": effect.paths,
        "notes": effect.notes,
        "error": one.error,
    }


def _print_markdown(outcomes: Sequence[Outcome], allowed: Sequence[Allowed]) -> None:
    write(f"**{_escape(sum_outcomes(outcomes).headline)}**")
    for title, group in _group(outcomes):
        write("", f"### {_escape(title)}", "", f"{_escape(sum_outcomes(group).headline)}")
        changed = [one for one in group if one.effect.name != "unchanged"]
        if changed:
            write("", "| node pool | workload | effect | details |", "|---|---|---|---|")
        for one in changed:
            details = "; ".join(filter(None, (_describe_details(one), *one.effect.notes)))
            cells = (one.pool, _describe_workload(one), _LABELS.get(one.effect.name, one.effect.name), details)
            write(f"| {' | '.join(map(_escape, cells))} |")
    if allowed:
        write("", *(_escape(line) for line in _describe_allowed(allowed)))


def _escape(text: str) -> str:
    """Escape the characters that Markdown and HTML interpret."""
    for character in "\\`*_|<>[]":
        text = text.replace(character, f"\\{character}")
    return text
