"""Rules by the metadata of objects of every kind: a label retains replicas, an annotation lists dependencies.

Karmada labels the objects of any kind that a HorizontalPodAutoscaler scales, but retains the replicas of Deployments
only (karmada v1.19 pkg/controllers/hpascaletargetmarker, pkg/resourceinterpreter/default/native/retain.go).
"""

from collections.abc import Iterator
from typing import Final

import msgspec

from fleethook.cluster.manifests.yaml_reader import ManifestError, read_values
from fleethook.engines.interpret.hooks.hook_configuration import find_target
from fleethook.interpret.typed_members import InterpretError, json_type, text
from fleethook.model.formats.labels import validate_selector
from fleethook.model.gvk import GroupVersionKind, parse_api_version
from fleethook.model.json import JSON, JSONObject, as_object
from fleethook.model.karmada import RETAIN_REPLICAS_LABEL
from fleethook.patch.pointer import format_tokens

DEPENDENCIES_ANNOTATION: Final = "fleethook.io/dependencies"
"""Lists further dependencies of an object in YAML or JSON: apiVersion, kind, namespace, and name or labelSelector."""
_POINTER: Final = format_tokens(("metadata", "annotations", DEPENDENCIES_ANNOTATION))
_MEMBERS: Final = ("apiVersion", "kind", "namespace", "name", "labelSelector")


def retains_replicas(desired: JSONObject) -> bool:
    """Return whether the member cluster scales an object, for example by a HorizontalPodAutoscaler."""
    labels = as_object(as_object(desired.get("metadata")).get("labels"))
    return labels.get(RETAIN_REPLICAS_LABEL) == "true"


def make_missing_count_error(observed: JSONObject) -> InterpretError:
    """Return the error for an object of a member cluster that does not say how many replicas it has."""
    metadata = as_object(observed.get("metadata"))
    name = f"{metadata.get('namespace') or ''}/{metadata.get('name') or ''}"
    return InterpretError(
        f"failed to get spec.replicas from {observed.get('kind') or ''} {name}: "
        f"the object has the label {RETAIN_REPLICAS_LABEL}, but no number of replicas in the member cluster"
    )


def read_listed_dependencies(document: JSONObject) -> list[JSONObject]:
    """Return the dependencies that the annotation of an object lists.

    A reference without ``namespace`` is to an object in the same namespace, or to a cluster-scoped one if its kind is.

    Raises:
        InterpretError: The annotation is malformed; the text has a JSON pointer for each problem.
    """
    written = text(document, "metadata", "annotations", DEPENDENCIES_ANNOTATION)
    listed = _decode(written) if written.strip() else []
    if not isinstance(listed, list):
        raise InterpretError(f"{_POINTER}: expected a list of references, found {json_type(listed)}")
    if problems := [problem for index, one in enumerate(listed) for problem in _find_problems(one, f"/{index}")]:
        raise InterpretError("; ".join(f"{_POINTER}{problem}" for problem in problems))
    return [_complete(reference, document) for reference in listed]


def _decode(written: str) -> JSON:
    try:
        decoded: JSON = msgspec.json.decode(written)
    except (msgspec.DecodeError, RecursionError):
        pass
    else:
        return decoded
    if "&" in written and "*" in written:
        # They could expand to a million values, and no reference needs them.
        raise InterpretError(f"{_POINTER}: anchors and aliases of YAML are not supported")
    try:
        values = read_values(written, source=_POINTER)
    except ManifestError as error:
        raise InterpretError(f"{error.source}: line {error.line}: {error.reason}") from None
    if len(values) > 1:
        raise InterpretError(f"{_POINTER}: expected one list of references, found {len(values)} documents")
    return values[0].value if values else []


def _find_problems(reference: JSON, place: str) -> Iterator[str]:
    if not isinstance(reference, dict):
        yield f"{place}: expected an object with apiVersion, kind, and name or labelSelector"
        return
    for unknown in sorted(reference.keys() - set(_MEMBERS)):
        yield f"{place}/{format_tokens((unknown,))[1:]}: unknown member, expected one of {', '.join(_MEMBERS)}"
    for member in ("apiVersion", "kind"):
        if not isinstance(reference.get(member), str) or not reference[member]:
            yield f"{place}/{member}: expected a string that is not empty"
    for member in ("namespace", "name"):
        if reference.get(member) is not None and not isinstance(reference[member], str):
            yield f"{place}/{member}: expected a string"
    selector = reference.get("labelSelector")
    if bool(reference.get("name")) == (selector is not None):
        yield f"{place}: expected either name or labelSelector"
    elif selector is not None:
        for pointer, problem in validate_selector(selector, f"{place}/labelSelector"):
            yield f"{pointer}: {problem}"


def _complete(reference: JSONObject, document: JSONObject) -> JSONObject:
    """Return a reference in the form that Karmada expects, with the namespace of the object."""
    found = {name: value for name, value in reference.items() if value}
    if "labelSelector" in reference:
        found["labelSelector"] = reference["labelSelector"]
    if reference.get("namespace") is None:
        kind = GroupVersionKind(*parse_api_version(str(reference["apiVersion"])), str(reference["kind"]))
        own = text(document, "metadata", "namespace")
        if own and find_target(kind, document, lambda _: None).namespaced:
            found["namespace"] = own
    return found
