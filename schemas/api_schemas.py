"""Write the schemas by which fleethook finds members and versions that an API lacks (`fleethook.api_schema`).

``python -m schemas.api_schemas`` starts the control plane of the end-to-end tests with all APIs and feature gates
enabled, needs Go, and writes two files:

- ``app/fleethook/api_schema/built_in.json``: the kinds of kube-apiserver by version, with the published schemas, and
  the versions that Kubernetes has removed, printed by tests/e2e/controlplane/workloads;
- ``schemas/upstream/projects.json``: the CustomResourceDefinitions of `MODULES`.

`make schemas` derives ``app/fleethook/api_schema/projects.json`` from the second file and from ``fleethook.model``.
"""

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import yaml

from schemas.api_members import METADATA, PROJECTS, Schemas, compact, complete, print_schemas, shorten
from schemas.builtins import Everything, Read
from schemas.workloads import run_go
from tests.e2e.controlplane import build

ROOT: Final = Path(__file__).parent.parent
BUILT_IN: Final = ROOT / "app" / "fleethook" / "api_schema" / "built_in.json"

# The newest stable release of each project, so that no member of an older one is missing.
MODULES: Final[Mapping[str, tuple[str, ...]]] = {
    "github.com/openyurtio/openyurt@v1.7.0": tuple(
        f"charts/yurt-manager/crds/apps.openyurt.io_{one}.yaml"
        for one in ("nodepools", "yurtappdaemons", "yurtappsets")
    ),
    "github.com/kcp-dev/kcp@v0.32.3": tuple(
        f"config/crds/{one}.yaml"
        for one in (
            "apis.kcp.io_apibindings", "apis.kcp.io_apiexports", "apis.kcp.io_apiresourceschemas",
            "core.kcp.io_logicalclusters", "tenancy.kcp.io_workspaces",
        )
    ),
    "github.com/karmada-io/karmada@v1.18.2": (
        "charts/karmada/_crds/bases/config/config.karmada.io_resourceinterpretercustomizations.yaml",
        "charts/karmada/_crds/bases/config/config.karmada.io_resourceinterpreterwebhookconfigurations.yaml",
        "charts/karmada/_crds/bases/policy/policy.karmada.io_propagationpolicies.yaml",
        "operator/config/crds/operator.karmada.io_karmadas.yaml",
    ),
}  # fmt: skip


def read_built_in(read: Read, removed: Mapping[str, Mapping[str, str]], *, release: str, oldest: str) -> Schemas:
    """Return the content of `BUILT_IN`.

    Args:
        read: Reads a path of the apiserver.
        removed: The releases that removed kinds, by version and kind.
        release: The release of the apiserver.
        oldest: The oldest supported release.
    """
    published: Schemas = {}
    for path in read("/openapi/v3")["paths"]:
        published |= read(f"/openapi/v3/{path}").get("components", {}).get("schemas", {})
    kinds = _list_kinds(published)
    definitions = {shorten(name): _open(compact(schema)) for name, schema in published.items()}
    for name in {name for named in kinds.values() for name in named.values()}:
        if "status" in definitions[name]["properties"]:
            definitions[name]["properties"]["status"] = {}
    reached = {name: definitions[name] for name in sorted(_reach(definitions, kinds))}
    gone: dict[str, dict[str, str]] = {}
    for version, named in sorted(removed.items()):
        for kind, when in sorted(named.items()):
            if _number(when) <= _number(oldest):
                gone.setdefault(version, {})[kind] = when
            else:
                # An older supported release serves it. If this one does not, its schema is unknown.
                kinds.setdefault(version, {}).setdefault(kind, "")
    return {"release": release, "kinds": dict(sorted(kinds.items())), "removed": gone, "definitions": reached}


def _list_kinds(published: Schemas) -> dict[str, dict[str, str]]:
    """Return the names of the schemas of all kinds, by version and kind."""
    kinds: dict[str, dict[str, str]] = {}
    for name, schema in sorted(published.items()):
        for one in schema.get("x-kubernetes-group-version-kind", ()):
            if "metadata" in schema.get("properties", {}) and not one["kind"].endswith("List"):
                version = f"{one['group']}/{one['version']}" if one["group"] else one["version"]
                kinds.setdefault(version, {})[one["kind"]] = shorten(name)
    return kinds


def _number(release: str) -> tuple[int, ...]:
    return tuple(map(int, release.removeprefix("v").split(".")[:2]))


def _open(schema: Schemas) -> Schemas:
    """Return a type of any object without type: RawExtension, for example, has no members of its own."""
    return {} if schema == {"type": "object"} else schema


def _reach(definitions: Schemas, kinds: Mapping[str, Mapping[str, str]]) -> set[str]:
    found: set[str] = set()
    names = {name for named in kinds.values() for name in named.values()} | {METADATA}
    while names:
        name = names.pop()
        if name not in found:
            found.add(name)
            names |= set(_list_references(definitions[name]))
    return found


def _list_references(node: Any) -> Iterator[str]:
    if isinstance(node, dict):
        if isinstance(node.get("$ref"), str):
            yield node["$ref"]
        for inner in node.values():
            yield from _list_references(inner)


def read_projects() -> Schemas:
    """Return the content of `PROJECTS`: the schemas by version and kind of all kinds of these groups.

    Downloads the modules.
    """
    found: Schemas = {}
    for module, paths in MODULES.items():
        command = ["go", "mod", "download", "-json", module]
        printed = subprocess.run(command, cwd=tempfile.gettempdir(), capture_output=True, text=True, check=True).stdout  # noqa: S603 - as in `run_go`
        files = [Path(json.loads(printed)["Dir"]) / path for path in paths]
        groups = {spec["group"] for spec in map(_read_definition, files)}
        for file in sorted({beside for one in files for beside in one.parent.glob("*.yaml")}):
            spec = _read_definition(file)
            for one in spec.get("versions", ()) if spec.get("group") in groups else ():
                schema = complete(one["schema"]["openAPIV3Schema"])
                found.setdefault(f"{spec['group']}/{one['name']}", {})[spec["names"]["kind"]] = schema
    return found


def _read_definition(file: Path) -> Schemas:
    return yaml.load(file.read_text(), yaml.CSafeLoader).get("spec", {})


def main() -> int:
    """Write the files; return the exit code."""
    binaries = build.find()
    if binaries is None:
        print("control plane not found: run `make controlplane`", file=sys.stderr)
        return 1
    removed = json.loads(run_go("removed"))
    with tempfile.TemporaryDirectory() as directory:
        plane = Everything(binaries, Path(directory))
        try:
            plane.start()
            release, oldest = build.version(), build.version(build.OLDEST)
            built_in = read_built_in(plane.api().__getitem__, removed, release=release, oldest=oldest)
            BUILT_IN.write_text(print_schemas(built_in))
        finally:
            plane.stop()
    PROJECTS.write_text(print_schemas(read_projects()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
