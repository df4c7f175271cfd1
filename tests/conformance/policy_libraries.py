"""The Pods of policy_libraries.yaml, with the answers of fleethook, kopf and Kyverno."""

from pathlib import Path
from typing import Any, Final, NamedTuple

import yaml

from fleethook.patch import merge_patch

TOOLS: Final = ("fleethook", "kopf", "kyverno")
RECORDED: Final[dict[str, Any]] = yaml.safe_load((Path(__file__).parent / "policy_libraries.yaml").read_text())


class PodCase(NamedTuple):
    """A Pod, and the answers to its creation by tool.

    Attributes:
        name: How the Pod differs from the good one.
        pod: The Pod.
        answers: ``code`` with ``patch`` or with ``webhook`` and ``message``, by tool.
    """

    name: str
    pod: dict[str, Any]
    answers: dict[str, dict[str, Any]]


class UpdateCase(NamedTuple):
    """A change of a stored Pod, and the answers to it by tool.

    Attributes:
        name: The change.
        stored: The Pod, created while no tool is registered.
        is_deleted: Whether it is being deleted.
        change: A JSON merge patch.
        subresource: The subresource that gets the change; ``""`` for the Pod itself.
        differs: The tools with another verdict than fleethook.
        answers: ``code``, with ``webhook`` and ``message`` of a refusal, by tool.
    """

    name: str
    stored: dict[str, Any]
    is_deleted: bool
    change: dict[str, Any]
    subresource: str
    differs: tuple[str, ...]
    answers: dict[str, dict[str, Any]]


def load_cases() -> list[PodCase]:
    """Return the recorded Pods in the order of the file."""
    good = RECORDED["good"]
    return [PodCase(one["name"], merge_patch(good, one["with"]), _read_answers(one)) for one in RECORDED["objects"]]


def load_updates() -> list[UpdateCase]:
    """Return the recorded changes of Pods in the order of the file."""
    return [
        UpdateCase(
            one["name"],
            merge_patch(RECORDED["good"], one["stored"]),
            one.get("deleted", False),
            one["with"],
            one.get("subresource", ""),
            tuple(one.get("differs", ())),
            _read_answers(one),
        )
        for one in RECORDED["updates"]
    ]


def _read_answers(one: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {tool: one[tool] for tool in TOOLS}
