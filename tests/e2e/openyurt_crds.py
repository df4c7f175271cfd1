"""OpenYurt's own CustomResourceDefinitions, with the served versions that a test needs."""

from collections.abc import Collection
from pathlib import Path
from typing import Any

import yaml

from schemas.definitions import RESOURCES, custom_resource_definition
from tests.e2e.cluster import CRDS, Api, is_established
from tests.waiting import wait_for

_FILES = Path(__file__).parent.parent / "conformance" / "openyurt" / "crds"
CURRENT = {"yurtappsets": ("v1beta1",), "nodepools": ("v1beta2",), "yurtappdaemons": ("v1alpha1",)}
"""The versions that OpenYurt 1.7 stores."""


def openyurt_crd(plural: str, served: Collection[str], *, conversion: dict[str, Any] | None = None) -> dict[str, Any]:
    """Return a definition that serves these versions and stores the last of OpenYurt's among them.

    Without a ``conversion`` (`tests.e2e.openyurt_conversion`), another version of an object has only the members of both
    versions.
    """
    definition: dict[str, Any] = yaml.safe_load((_FILES / f"apps.openyurt.io_{plural}.yaml").read_text())
    definition["spec"]["conversion"] = conversion or {"strategy": "None"}
    versions = definition["spec"]["versions"]
    stored = [version["name"] for version in versions if version["name"] in served][-1]
    for version in versions:
        version["served"] = version["name"] in served
        version["storage"] = version["name"] == stored
    return definition


def install_openyurt_crds(
    admin: Api, *, sets_conversion: dict[str, Any] | None = None, **served: Collection[str]
) -> None:
    """Install OpenYurt's definitions, and our definition of the overrider.

    Args:
        admin: An administrator.
        sets_conversion: The webhook that converts YurtAppSets; None for none.
        served: Versions by the plural of the kind.
    """
    conversions = {"yurtappsets": sets_conversion}
    made = [
        openyurt_crd(plural, versions, conversion=conversions.get(plural))
        for plural, versions in {**CURRENT, **served}.items()
    ]
    made += [custom_resource_definition(one) for one in RESOURCES if one.plural not in CURRENT]
    for definition in made:
        admin.apply(f"{CRDS}/{definition['metadata']['name']}", definition)
    for definition in made:
        name = definition["metadata"]["name"]
        wait_for(lambda name=name: is_established(admin, name), what=f"{name} is established")
        wait_for(lambda definition=definition: _serves(admin, definition["spec"]), what=f"{name} is served")


def _serves(admin: Api, spec: dict[str, Any]) -> bool:
    """Whether every version answers as the definition says."""
    group, plural = spec["group"], spec["names"]["plural"]
    codes = {one["name"]: admin.call("GET", f"/apis/{group}/{one['name']}/{plural}")[0] for one in spec["versions"]}
    return all(codes[one["name"]] == (200 if one["served"] else 404) for one in spec["versions"])
