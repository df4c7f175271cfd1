"""The engine for the CRD tarballs of Karmada."""

from typing import Final

from fleethook.engine import Engine, EngineCommand

_FOLDER: Final = "fleethook.engines.crds"

ENGINE: Final = Engine(
    name="crds",
    order=40,
    server=f"{_FOLDER}.crds_server:CrdsServer",
    commands={
        "crds": EngineCommand(f"{_FOLDER}.commands.crds:crds", "Fetch, verify and cache the CRD tarballs of Karmada."),
    },
    page=f"{_FOLDER}.pages.crds:PAGE",
)
"""All that the engine contributes."""
