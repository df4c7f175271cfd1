"""Write app/dispatch/builtins.json: which built-in resources are the same storage, as a kube-apiserver says it.

``python -m schemas.builtins`` starts the control plane of the end-to-end tests with everything in it that can be
enabled; the directory of its binaries is found as the tests find it (tests/e2e/controlplane/build.py).
"""

import json
import sys
import tempfile
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

from tests.e2e.cluster import ControlPlane
from tests.e2e.controlplane import build

TABLE: Final = Path(__file__).parent.parent / "app" / "dispatch" / "builtins.json"

Read = Callable[[str], Any]
"""Returns the decoded answer to a GET of a path."""

_EVERYTHING: Final = ("--runtime-config=api/all=true", "--feature-gates=AllAlpha=true,AllBeta=true")


class Discovered(NamedTuple):
    """The resources of one group in one version."""

    api_version: str
    resources: list[Any]


def discover(read: Read, *, without: Collection[str] = ()) -> Iterator[Discovered]:
    """Yield what an apiserver serves, version after version in the order of its preference, the core group first.

    Args:
        read: How to ask it.
        without: Groups to leave out: those that are not its own.
    """
    paths = [f"/api/{version}" for version in read("/api")["versions"]]
    for group in read("/apis")["groups"]:
        if group["name"] not in without:
            paths += [f"/apis/{version['groupVersion']}" for version in group["versions"]]
    for path in paths:
        answer = read(path)
        yield Discovered(answer["groupVersion"], answer["resources"])


def table(discovered: Iterator[Discovered]) -> list[dict[str, Any]]:
    """Return the resources that are one storage as one entry each, sorted by name.

    Versions of a group that have a resource of the same name store it in the same place. So do groups whose resources
    have the same name and the same storage version, of which the apiserver tells a hash: the Events of two groups.
    """
    storages: dict[tuple[str, str], dict[str, Any]] = {}
    for api_version, resources in discovered:
        group = api_version.rpartition("/")[0]
        for one in resources:
            resource, _, subresource = one["name"].partition("/")
            if not subresource:
                entry = _storage(storages, group, one)
                entry["namespaced"] = one["namespaced"]
            kinds = storages[group, resource]["served"].setdefault(api_version, {})
            kinds[subresource] = _kind(one, api_version)
    entries = {id(entry): entry for entry in storages.values()}.values()
    for entry in entries:
        entry["served"] = {version: dict(sorted(kinds.items())) for version, kinds in entry["served"].items()}
    return sorted(
        ({name: value for name, value in entry.items() if name != "hash"} for entry in entries),
        key=lambda entry: (entry["resource"], *entry["served"]),
    )


def _storage(storages: dict[tuple[str, str], dict[str, Any]], group: str, one: Any) -> dict[str, Any]:
    """Return the storage that a resource is in, which is a new one unless another version or group is there too."""
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


def _kind(one: Any, api_version: str) -> str:
    """Return the kind of a resource, with its group and version where they are not those of the resource."""
    if not one.get("version"):
        return str(one["kind"])
    own = f"{one['group']}/{one['version']}" if one.get("group") else one["version"]
    return str(one["kind"]) if own == api_version else f"{own}/{one['kind']}"


def text_of(entries: list[dict[str, Any]]) -> str:
    """Return the text of the table: a storage a line."""
    lines = ",\n".join(json.dumps(entry, separators=(",", ":")) for entry in entries)
    return f"[\n{lines}\n]\n"


class _Everything(ControlPlane):
    """A control plane that serves all that it can."""

    def _run(self, name: str, arguments: list[str]) -> None:
        super()._run(name, [*arguments, *(_EVERYTHING if name == "kube-apiserver" else ())])


def main() -> int:
    """Write the table; return the exit code."""
    binaries = build.find()
    if binaries is None:
        print("no control plane: run `make controlplane`", file=sys.stderr)
        return 1
    with tempfile.TemporaryDirectory() as directory:
        plane = _Everything(binaries, Path(directory))
        try:
            plane.start()
            TABLE.write_text(text_of(table(discover(plane.api().__getitem__))))
        finally:
            plane.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
