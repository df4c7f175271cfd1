"""The patches of a tarball: filled in for an instance, and merged into their CRDs.

Upstream: ``patchCrds`` in operator/pkg/tasks/init/karmadaresource.go (v1.17.1).
"""

import re
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from fleethook.engines.crds.apply.documents import Tree, read_first_document
from fleethook.engines.crds.apply.placeholders import NAME, NAMESPACE, substitute
from fleethook.engines.crds.archive.content import name_patched_crd
from fleethook.engines.crds.archive.limits import LIMITS, ArchiveLimits, YAMLBudget
from fleethook.engines.crds.crds_errors import CRDsError, Exit
from fleethook.model.json import JSONObject, as_object
from fleethook.model.merge_keys import MergeSchema
from fleethook.patch.merge.strategic_merge_patch import strategic_merge
from fleethook.patch.patch_errors import StrategicMergeError

# The patchMergeKey tags of apiextensions/v1 and meta/v1. The one of x-kubernetes-validations is left out: it is below
# `versions`, a list that a patch replaces.
_METADATA: Final = {"finalizers": MergeSchema(primitive=True), "ownerReferences": MergeSchema(merge_key="uid")}
_HOST: Final = re.compile(r"https://([^/:?#]*)")
_CRD: Final = MergeSchema({"metadata": MergeSchema(_METADATA)})


class Patch(NamedTuple):
    """A strategic merge patch, ready to be sent."""

    path: str
    crd: str
    body: JSONObject


def build_patches(tree: Tree, values: Mapping[str, str], limits: ArchiveLimits = LIMITS) -> list[Patch]:
    """Return the patches of a tarball for an instance.

    Raises:
        CRDsError: ARCHIVE if a patch is not a YAML object, has an unknown placeholder or patches a CRD that the tarball
            does not have; LIMIT if the YAML is too large; USAGE if a value is missing.
    """
    budget = YAMLBudget(limits)
    return [_build_patch(tree, path, substitute(path, text, values), budget) for path, text in tree.patches.items()]


def render_crds(crds: Mapping[str, JSONObject], patches: Sequence[Patch]) -> dict[str, JSONObject]:
    """Return the CRDs with the patches merged in, by name and in order; the arguments stay unchanged.

    Raises:
        CRDsError: ARCHIVE if a patch cannot be merged.
    """
    return {name: render_one(name, crds, patches) for name in crds}


def render_one(name: str, crds: Mapping[str, JSONObject], patches: Sequence[Patch]) -> JSONObject:
    """Return one of the CRDs that `render_crds` returns; raises as that."""
    crd = crds[name]
    for patch in patches:
        if patch.crd == name:
            try:
                crd = strategic_merge(crd, patch.body, _CRD)
            except StrategicMergeError as error:
                raise CRDsError(Exit.ARCHIVE, f"{patch.path} does not fit {name}: {error}") from None
    return crd


def find_foreign_webhooks(patches: Sequence[Patch], values: Mapping[str, str]) -> dict[str, str]:
    """Return a warning by CRD for each patch with a fixed address that is not the one of the instance's webhook.

    Releases before 1.13 have no ``{{name}}`` and ``{{namespace}}``: conversion works for one instance only.
    """
    wanted = f"{values.get(NAME, '')}.{values.get(NAMESPACE, '')}.svc"
    return {
        patch.crd: f"{patch.path} converts {patch.crd} at {host}, and the instance has {wanted}: releases before 1.13"
        " have this fixed address; use a later release, or an instance named karmada in karmada-system"
        for patch in patches
        if (host := _read_host(patch.body))
        and not f"{host}.".startswith(f"{wanted}.")
        and values.keys() >= {NAME, NAMESPACE}
    }


def _read_host(patch: JSONObject) -> str:
    conversion = as_object(as_object(patch.get("spec")).get("conversion"))
    url = as_object(as_object(conversion.get("webhook")).get("clientConfig")).get("url")
    host = _HOST.match(url) if isinstance(url, str) else None
    return "" if host is None else host[1]


def check_patches(crds: Mapping[str, JSONObject], patches: Sequence[Patch]) -> None:
    """Raise the CRDsError that `render_crds` raises, with one CRD in memory at a time."""
    for name in dict.fromkeys(patch.crd for patch in patches):
        render_one(name, crds, patches)


def _build_patch(tree: Tree, path: str, text: str, budget: YAMLBudget) -> Patch:
    crd = name_patched_crd(path)
    if crd not in tree.crds:
        raise CRDsError(Exit.ARCHIVE, f"{path} patches {crd}, which the tarball does not have")
    return Patch(path, crd, _drop_name(read_first_document(path, text.encode(), budget)))


def _drop_name(body: JSONObject) -> JSONObject:
    """Drop ``metadata.name``: the file name selects the CRD, and the API server refuses a different name."""
    metadata = {name: value for name, value in as_object(body.get("metadata")).items() if name != "name"}
    rest = {name: value for name, value in body.items() if name != "metadata" or not isinstance(value, dict)}
    return {**rest, "metadata": metadata} if metadata else rest
