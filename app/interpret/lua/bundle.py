"""The bundle: customizations of well-known custom resources, each with its fixtures.

``app/interpret/bundle/<group>/<kind>/customization.yaml`` is a ResourceInterpreterCustomization with two extensions:
its scripts may ``require("fleet")``, and it may be for more than one version (`rules.ALSO_FOR`).
"""

from collections.abc import Iterator
from functools import lru_cache
from importlib import resources
from typing import Final, NamedTuple

import yaml

from app.interpret.fixtures import Fixture, read_fixtures
from app.interpret.lua.layer import Rules, index_rules
from app.interpret.lua.rules import Rule, read_customization
from app.store.yaml_reader import read_values

_ROOT: Final = resources.files("app.interpret").joinpath("bundle")


class BundledKind(NamedTuple):
    """The rules for one kind."""

    folder: str
    """``<group>/<kind>``."""
    rules: list[Rule]

    def cases(self) -> Iterator[Fixture]:
        """Yield the fixtures of its rules."""
        for file in sorted(_ROOT.joinpath(self.folder, "testdata").iterdir(), key=lambda entry: entry.name):
            for value in read_values(file.read_text("utf-8"), source=f"{self.folder}/testdata/{file.name}"):
                yield from read_fixtures(value.value)


def read_bundle() -> Iterator[BundledKind]:
    """Yield the bundle by group and kind; raises ValueError if a customization is invalid, which tests rule out."""
    for group in sorted(_ROOT.iterdir(), key=lambda entry: entry.name):
        for kind in sorted(group.iterdir(), key=lambda entry: entry.name):
            folder = f"{group.name}/{kind.name}"
            document = yaml.load(kind.joinpath("customization.yaml").read_text("utf-8"), yaml.CSafeLoader)
            found = read_customization(document)
            if found.problems:
                raise ValueError(f"bundle {folder}: {found.problems[0].place}: {found.problems[0].text}")
            yield BundledKind(folder, [rule._replace(source=f"bundle {folder}") for rule in found.rules])


@lru_cache(maxsize=1)
def load_bundle_rules() -> Rules:
    """Return the bundle's rules; the first call reads them."""
    return index_rules(rule for kind in read_bundle() for rule in kind.rules)
