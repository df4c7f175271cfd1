"""Write the schemas of Deployments and StatefulSets with which fleethook validates and normalizes workloads.

``python -m schemas.workloads`` starts the control plane of the end-to-end tests, needs Go, and writes two files:

- ``schemas/kubernetes/apps-v1.json``: the OpenAPI v3 schemas of the two kinds and of all referenced types, as
  kube-apiserver publishes them, without descriptions;
- ``app/fleethook/workload_schema/fields.json``: the encoding of the Go types, printed by
  tests/e2e/controlplane/workloads, and the keys by which server-side apply identifies the elements of each list.

``make schemas`` derives ``app/fleethook/workload_schema/json_schema.json`` from the first file by
`schemas.workload_rules`.
"""

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from tests.e2e.cluster import control_plane
from tests.e2e.controlplane import build

ROOT: Final = Path(__file__).parent.parent
OPENAPI_FILE: Final = ROOT / "schemas" / "kubernetes" / "apps-v1.json"
FIELDS_FILE: Final = ROOT / "app" / "fleethook" / "workload_schema" / "fields.json"
OPENAPI_PATH: Final = "/openapi/v3/apis/apps/v1"
KINDS: Final = ("Deployment", "StatefulSet")

_PREFIXES: Final = ("io.k8s.api.", "io.k8s.apimachinery.pkg.apis.")
_REFERENCE: Final = "#/components/schemas/"

Schemas = dict[str, Any]
Fields = dict[str, dict[str, dict[str, Any]]]


def workload_schemas(published: Schemas) -> Schemas:
    """Return the schemas of `KINDS` and of all referenced types, sorted by name and without descriptions.

    Args:
        published: ``components.schemas`` of the OpenAPI v3 document of apps/v1.
    """
    found: Schemas = {}
    names = [f"io.k8s.api.apps.v1.{kind}" for kind in KINDS]
    while names:
        name = names.pop()
        if name not in found:
            found[name] = _without_descriptions(published[name])
            names += _references(found[name])
    return dict(sorted(found.items()))


def _without_descriptions(schema: Schemas) -> Schemas:
    """Copy a schema without its description and those of nested schemas."""
    copy = {word: value for word, value in schema.items() if word != "description"}
    if "properties" in copy:
        copy["properties"] = {name: _without_descriptions(inner) for name, inner in copy["properties"].items()}
    for word in ("items", "additionalProperties"):
        if isinstance(copy.get(word), dict):
            copy[word] = _without_descriptions(copy[word])
    return copy


def _references(node: Any) -> Iterator[str]:
    if isinstance(node, list):
        for inner in node:
            yield from _references(inner)
    elif isinstance(node, dict):
        for word, value in node.items():
            if word == "$ref":
                yield value.removeprefix(_REFERENCE)
            else:
                yield from _references(value)


def with_list_keys(fields: Fields, schemas: Schemas) -> Fields:
    """Return ``fields`` with ``keys`` for each list that server-side apply merges by keys.

    ``keys`` maps each key to its default, None if it has no default.
    """
    by_name = {_short(name): schema for name, schema in schemas.items()}
    result: Fields = {}
    for struct, members in fields.items():
        properties = by_name[struct]["properties"]
        if members.keys() != properties.keys():
            raise ValueError(f"{struct}: Go and OpenAPI differ in {members.keys() ^ properties.keys()}")
        result[struct] = {}
        for name, member in members.items():
            keys = properties[name].get("x-kubernetes-list-map-keys")
            element = by_name.get(member["type"].lstrip("*[]"), {}).get("properties", {})
            defaults = {key: element[key].get("default") or None for key in keys or ()}
            result[struct][name] = member | ({"keys": defaults} if keys else {})
    return result


def _short(name: str) -> str:
    for prefix in _PREFIXES:
        name = name.removeprefix(prefix)
    return name


def openapi_text(schemas: Schemas) -> str:
    """Return the text of `OPENAPI_FILE`."""
    return json.dumps(schemas, indent=1) + "\n"


def fields_text(fields: Fields) -> str:
    """Return the text of `FIELDS_FILE`, with one struct per line."""
    lines = (f"{json.dumps(name)}:{json.dumps(members, separators=(',', ':'))}" for name, members in fields.items())
    return "{\n" + ",\n".join(lines) + "\n}\n"


def go_fields() -> Fields:
    """Return the fields of the Go types; needs Go and the modules of tests/e2e/controlplane/go.mod."""
    return json.loads(run_go("fields"))


def run_go(command: str, stdin: str = "") -> str:
    """Return the output of a command of tests/e2e/controlplane/workloads."""
    arguments = ["go", "run", "-mod=readonly", "./workloads", command]
    return subprocess.run(  # noqa: S603 - a program of this repository
        arguments, cwd=build.HERE, input=stdin, capture_output=True, text=True, check=True
    ).stdout


def main() -> int:
    """Write the files; return the exit code."""
    binaries = build.find()
    if binaries is None:
        print("control plane not found: run `make controlplane`", file=sys.stderr)
        return 1
    with tempfile.TemporaryDirectory() as directory, control_plane(binaries, Path(directory)) as plane:
        schemas = workload_schemas(plane.api()[OPENAPI_PATH]["components"]["schemas"])
    OPENAPI_FILE.write_text(openapi_text(schemas))
    FIELDS_FILE.write_text(fields_text(with_list_keys(go_fields(), schemas)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
