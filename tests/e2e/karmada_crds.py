"""Karmada's own CustomResourceDefinitions of ``config.karmada.io``."""

from pathlib import Path

import yaml

from tests.e2e.cluster import CRDS, Api, is_established
from tests.waiting import wait_for

_FILES = Path(__file__).parent.parent / "conformance" / "karmada" / "crds"


def install_karmada_crds(admin: Api) -> None:
    """Install the definitions of customizations and hook configurations, and wait until they are served."""
    for file in sorted(_FILES.glob("*.yaml")):
        definition = yaml.safe_load(file.read_text())
        name, spec = definition["metadata"]["name"], definition["spec"]
        admin.apply(f"{CRDS}/{name}", definition)
        wait_for(lambda name=name: is_established(admin, name), what=f"{name} is established")
        path = f"/apis/{spec['group']}/{spec['versions'][0]['name']}/{spec['names']['plural']}"
        wait_for(lambda path=path: admin.call("GET", path)[0] == 200, what=f"{name} is served")
