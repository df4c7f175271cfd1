"""The objects and reviews that ``fleethook explain`` explains."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from fleethook.cli.exit_codes import fail
from fleethook.cli.inputs.manifests import fail_input, read_values
from fleethook.cluster.manifests.yaml_reader import Document, ManifestError
from fleethook.cluster.store import key_of
from fleethook.engines.dispatch.hooks.hooks import PHASES
from fleethook.engines.dispatch.review.request_plan import InputDocument, find_problem
from fleethook.model.gvk import DEFINITION
from fleethook.model.json import JSONObject, as_object
from fleethook.model.kcp import API_BINDING, API_EXPORT, API_RESOURCE_SCHEMA, LOGICAL_CLUSTER, cluster_of

# Kinds that configure dispatching. `--all` explains requests for all other kinds.
_CONFIGURATION_KINDS: Final = {
    *PHASES.values(),
    API_BINDING,
    API_EXPORT,
    API_RESOURCE_SCHEMA,
    DEFINITION,
    LOGICAL_CLUSTER,
}


def select_all(stored: Sequence[Document], cluster: str | None) -> Iterator[InputDocument]:
    """Yield the objects of a cluster, or of all clusters if it is None, without configuration."""
    for one in stored:
        key = key_of(one.object)
        if key.group_kind not in _CONFIGURATION_KINDS and cluster in (None, key.cluster):
            yield InputDocument(one.object, one.place, key.cluster)


def read_inputs(path: Path, cluster: str | None) -> Iterator[InputDocument]:
    """Yield the objects and reviews in a file. Exits with a message if a document is neither."""
    for found in read_values(path):
        place = f"{_name(path)}:{found.line}"
        items = as_object(found.value).get("items")
        for one in items if isinstance(items, list) else (found.value,):
            problem = find_problem(one)
            if problem:
                fail_input([ManifestError(_name(path), found.line, problem)])
            yield InputDocument(one, place, cluster_of(one) or None if cluster is None else cluster)


def _name(path: Path) -> str:
    return "<stdin>" if str(path) == "-" else str(path)


def read_old(path: Path) -> JSONObject:
    """Return the only object in a file. Exits with a message if it holds several."""
    found = list(read_inputs(path, None))
    if len(found) != 1:
        fail(f"{path} holds {len(found)} objects, expected one")
    return found[0].document
