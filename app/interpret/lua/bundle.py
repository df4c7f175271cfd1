"""What comes with this server: customizations of well-known kinds, each with the fixtures that it was tested by.

``app/interpret/bundle/<group>/<kind>/customization.yaml`` is a ResourceInterpreterCustomization as Karmada takes it,
but that its scripts may ``require("fleet")``; ``fleethook.io/also-for`` names other versions that it is right for.
"""

from collections.abc import Iterator
from functools import lru_cache
from importlib import resources
from importlib.resources.abc import Traversable
from typing import Any, Final

import yaml

from app.interpret.lua.layer import Rules, by_kind
from app.interpret.lua.rules import Rule, read_customization
from app.model.gvk import GroupVersionKind, parse_api_version

ALSO_FOR: Final = "fleethook.io/also-for"
"""An annotation: other apiVersions of the kind, separated by commas."""


def bundle_files() -> Iterator[tuple[str, Traversable]]:
    """Yield the folder, as ``<group>/<kind>``, and the customization of each kind."""
    root = resources.files("app.interpret").joinpath("bundle")
    for group in sorted(root.iterdir(), key=lambda entry: entry.name):
        if not group.is_dir() or group.name.startswith("__"):
            continue
        for kind in sorted(group.iterdir(), key=lambda entry: entry.name):
            file = kind.joinpath("customization.yaml")
            if file.is_file():
                yield f"{group.name}/{kind.name}", file


def versions_of(document: Any) -> list[str]:
    """Return the apiVersions that a customization of the bundle is for."""
    also = (document["metadata"].get("annotations") or {}).get(ALSO_FOR) or ""
    return [document["spec"]["target"]["apiVersion"], *(name.strip() for name in also.split(",") if name.strip())]


def bundle_rules() -> Iterator[Rule]:
    """Yield the rules of the bundle; raises ValueError where it is not sound, which its tests rule out."""
    for folder, file in bundle_files():
        document = yaml.load(file.read_text("utf-8"), yaml.CSafeLoader)
        found = read_customization(document)
        if found.problems:
            raise ValueError(f"bundle {folder}: {found.problems[0].place}: {found.problems[0].text}")
        for version in versions_of(document):
            kind = GroupVersionKind(*parse_api_version(version), document["spec"]["target"]["kind"])
            for rule in found.rules:
                yield rule._replace(kind=kind, source=f"bundle {folder}")


@lru_cache(maxsize=1)
def bundled() -> Rules:
    """Return the bundle, read when it is first asked for."""
    return by_kind(bundle_rules())
