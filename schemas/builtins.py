"""Write the table of built-in resources that share a storage: engines/dispatch/match/builtins.json.

``python -m schemas.builtins`` starts the control plane of the end-to-end tests with all APIs and feature gates enabled.
It finds the binaries as the tests do (tests/e2e/controlplane/build.py).
"""

import json
import sys
import tempfile
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

from tests.e2e.cluster import ControlPlane
from tests.e2e.controlplane import build

_DISPATCH: Final = Path(__file__).parent.parent / "app" / "fleethook" / "engines" / "dispatch"
TABLE: Final = _DISPATCH / "match" / "builtins.json"

Read = Callable[[str], Any]
"""Returns the decoded response to a GET of a path."""

_ENABLE_ALL: Final = ("--runtime-config=api/all=true", "--feature-gates=AllAlpha=true,AllBeta=true")


class Discovered(NamedTuple):
    """The resources of one group in one version."""

    api_version: str
    resources: list[Any]


def discover(read: Read, *, without: Collection[str] = ()) -> Iterator[Discovered]:
    """Yield the served resources by version, in the order of the apiserver's preference, the core group first.

    Args:
        read: Reads a path of the apiserver.
        without: Groups to skip, because they are not built in.
    """
    paths = [f"/api/{version}" for version in read("/api")["versions"]]
    for group in read("/apis")["groups"]:
        if group["name"] not in without:
            paths += [f"/apis/{version['groupVersion']}" for version in group["versions"]]
    for path in paths:
        found = read(path)
        yield Discovered(found["groupVersion"], found["resources"])


def table(discovered: Iterator[Discovered]) -> list[dict[str, Any]]:
    """Return one entry for each storage, sorted by the name of its resource.

    Versions of a group share the storage of a resource. Groups share it if their resources have the same name and the
    same ``storageVersionHash``, such as the Events of two groups.
    """
    storages: dict[tuple[str, str], dict[str, Any]] = {}
    for api_version, resources in discovered:
        group = api_version.rpartition("/")[0]
        for one in resources:
            resource, _, subresource = one["name"].partition("/")
            if not subresource:
                entry = _find_storage(storages, group, one)
                entry["namespaced"] = one["namespaced"]
            kinds = storages[group, resource]["served"].setdefault(api_version, {})
            kinds[subresource] = _qualify_kind(one, api_version)
    entries = {id(entry): entry for entry in storages.values()}.values()
    for entry in entries:
        entry["served"] = {version: dict(sorted(kinds.items())) for version, kinds in entry["served"].items()}
    return sorted(
        ({name: value for name, value in entry.items() if name != "hash"} for entry in entries),
        key=lambda entry: (entry["resource"], *entry["served"]),
    )


def _find_storage(storages: dict[tuple[str, str], dict[str, Any]], group: str, one: Any) -> dict[str, Any]:
    """Return the entry of a resource's storage; it is new unless another version or group shares the storage."""
    key = (group, one["name"])
    if key not in storages:
        stored_as = one.get("storageVersionHash")
        shared = (
            entry
            for (_, resource), entry in storages.items()
            if stored_as and (resource, entry["hash"]) == (one["name"], stored_as)
        )
        storages[key] = next(shared, {"resource": one["name"], "namespaced": None, "served": {}, "hash": stored_as})
    return storages[key]


def _qualify_kind(one: Any, api_version: str) -> str:
    """Return the kind of a resource, with group and version if they differ from those of the resource."""
    if not one.get("version"):
        return str(one["kind"])
    own = f"{one['group']}/{one['version']}" if one.get("group") else one["version"]
    return str(one["kind"]) if own == api_version else f"{own}/{one['kind']}"


def text_of(entries: list[dict[str, Any]]) -> str:
    """Return the text of the table, with one storage per line."""
    lines = ",\n".join(json.dumps(entry, separators=(",", ":")) for entry in entries)
    return f"[\n{lines}\n]\n"


class Everything(ControlPlane):
    """A control plane with all APIs enabled."""

    def _run(self, name: str, arguments: list[str]) -> None:
        super()._run(name, [*arguments, *(_ENABLE_ALL if name == "kube-apiserver" else ())])


def main() -> int:
    """Write the table; return the exit code."""
    binaries = build.find()
    if binaries is None:
        print("control plane not found: run `make controlplane`", file=sys.stderr)
        return 1
    with tempfile.TemporaryDirectory() as directory:
        plane = Everything(binaries, Path(directory))
        try:
            plane.start()
            TABLE.write_text(text_of(table(discover(plane.api().__getitem__))))
        finally:
            plane.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
