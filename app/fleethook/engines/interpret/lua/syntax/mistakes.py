"""Recognizes scripts that are in the wrong place: those of Argo CD, and those of another operation.

Source: argo-cd v3.1 util/lua/lua.go: a script is a chunk that reads the resource from the global ``obj``.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Final

from fleethook.engines.interpret.lua.syntax.parser import Script

OBJECT: Final = "obj"
"""The global with the resource in Argo CD's scripts."""
CONVERT: Final = "fleethook interpret convert --from argocd FILE"

_DOCUMENTS: Final = frozenset({"desiredObj", "observedObj", "runtimeObj", "statusItems", "desiredReplica"})
"""The usual names of the parameters of Karmada's functions."""
_HEALTH: Final = re.compile(
    r"""(?i:\bstatus)["']?\]?\s*=\s*["'](?:Healthy|Progressing|Degraded|Suspended|Missing|Unknown)["']"""
)


def is_argocd_script(script: Script, text: str) -> bool:
    """Return whether a script without functions of Karmada is one of Argo CD."""
    if reads_documents(script):
        return False
    return OBJECT in script.reads or _HEALTH.search(text) is not None


def explain_misplaced(script: Script, text: str, *, members: Mapping[str, str]) -> str:
    """Return the mistake of a script that belongs to another operation or to Argo CD, ``""`` if it has none.

    Args:
        script: The parsed script, without the function of its operation.
        text: Its source.
        members: The members of ``spec.customizations`` by the names of their functions.
    """
    others = sorted(script.assigned & members.keys())
    if others and not reads_documents(script):
        places = " and ".join(f"spec.customizations.{members[name]}.luaScript" for name in others)
        return f"the script defines {' and '.join(others)}: move it to {places} of a ResourceInterpreterCustomization"
    if is_argocd_script(script, text):
        line = script.reads.get(OBJECT)
        where = f"it reads the global {OBJECT} (line {line})" if line else "it sets a status of Argo CD"
        return (
            f"the script is one of Argo CD, because {where}: convert a health check with `{CONVERT}`; "
            "actions have no counterpart in Karmada"
        )
    return ""


def explain_body(script: Script, *, name: str, parameters: Sequence[str]) -> str:
    """Return the mistake of a script that is only the body of the function ``name``, ``""`` if it is none."""
    if not reads_documents(script):
        return ""
    return (
        f"the script is only the body of the function: write `function {name}({', '.join(parameters)})` before it and "
        "`end` after it"
    )


def explain_undefined(finding: str) -> str:
    """Return the remedy for a global that only Argo CD defines, ``""`` for other findings."""
    if not finding.startswith(f"{OBJECT} is undefined"):
        return ""
    return ". Scripts of Argo CD read it: here the parameter of the function has the resource"


def reads_documents(script: Script) -> bool:
    """Return whether a script reads a global that has the name of a document of Karmada's functions."""
    return not script.reads.keys().isdisjoint(_DOCUMENTS)
