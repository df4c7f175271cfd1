"""Renders a tarball for an imaginary instance, to check that its patches can be merged."""

import base64
from collections.abc import Mapping
from typing import Final

from fleethook.engines.crds.apply.documents import Tree, read_files
from fleethook.engines.crds.apply.patches import CA_BUNDLE, NAME, NAMESPACE, build_patches, render_crds
from fleethook.model.json import JSONObject

# Values of the form that `build_values` returns.
_VALUES: Final[Mapping[str, str]] = {
    NAME: "trial-karmada-webhook",
    NAMESPACE: "karmada-system",
    CA_BUNDLE: base64.b64encode(b"-----BEGIN CERTIFICATE-----\n").decode(),
}


def render_trial(files: Mapping[str, bytes]) -> dict[str, JSONObject]:
    """Return the CRDs of a verified tarball, patched for an imaginary instance.

    Args:
        files: The tarball's files by path.

    Raises:
        CRDsError: ARCHIVE if a patch is not YAML, has an unknown placeholder or cannot be merged.
    """
    return render_tree(read_files(files))


def render_tree(tree: Tree) -> dict[str, JSONObject]:
    """Return the CRDs of a tree, patched for an imaginary instance; raises as `render_trial`."""
    return render_crds(tree.crds, build_patches(tree, _VALUES))
