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


def load_cases() -> list[PodCase]:
    """Return the recorded Pods in the order of the file."""
    good = RECORDED["good"]
    return [
        PodCase(one["name"], merge_patch(good, one["with"]), {tool: one[tool] for tool in TOOLS})
        for one in RECORDED["objects"]
    ]
