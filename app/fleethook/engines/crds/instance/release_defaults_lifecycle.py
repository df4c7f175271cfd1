"""A Karmada instance as an object: its release, its defaults, and its lifecycle.

Releases are parsed from versions and images, and have the URLs of tarballs. Upstream: pkg/version/release.go and
operator/pkg/init.go (v1.17.1).

The release of an instance is that of its images. Upstream's proposal has this as a goal
(docs/proposals/karmada-operator/operator-custom-crd-download-strategy); upstream v1.17.1 does not implement it.

The lifecycle is finalizer, label, suspension and deletion. Their names are those of upstream
(operator/pkg/controller/karmada/controller.go, v1.17.1), so that Karmada's operator can take over from fleethook
and the reverse.
"""

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from fleethook.engines.crds.redaction_and_exit_codes import CRDsError, Exit
from fleethook.model import admission
from fleethook.model.admission import AdmissionRequest, Response, not_for_review
from fleethook.model.crd_tarball import KARMADA, Policy
from fleethook.model.json import JSON, JSONObject, as_list, as_object

_NUMBER: Final = r"(?:0|[1-9][0-9]*)"
_IDENTIFIERS: Final = r"[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*"
_SEMANTIC: Final = re.compile(
    rf"v?(?P<version>{_NUMBER}\.{_NUMBER}\.{_NUMBER}(?:-{_IDENTIFIERS})?(?:\+{_IDENTIFIERS})?)", re.ASCII
)
_RELEASE: Final = re.compile(rf"v{_NUMBER}\.{_NUMBER}\.{_NUMBER}(?:-(?:alpha|beta|rc)\.{_NUMBER})?", re.ASCII)
_RELEASE_URL: Final = "https://github.com/karmada-io/karmada/releases/download/{version}/crds.tar.gz"
# The suffix of `git describe`, as in pkg/version/release.go.
_COMMITS: Final = re.compile(r"-[0-9]+-g[0-9a-z]{7}")


def is_release(text: str) -> bool:
    """Return whether a text is the name of a Karmada release, as in its tags and images."""
    return _RELEASE.fullmatch(text) is not None


def parse_release(version: str) -> str:
    """Return the release of an operator's version: ``v1.1.1`` for ``v1.1.1-6-gf20c721a``.

    Raises:
        CRDsError: The version is not a semantic version. Upstream continues with the release ``<nil>`` and fails with
            this message.
    """
    found = _SEMANTIC.fullmatch(version.strip())
    if found is None:
        text = f"unexpected karmada invalid version <nil>: {version!r} is not a semantic version such as v1.10.0"
        raise CRDsError(Exit.USAGE, text)
    return f"v{_COMMITS.split(found['version'], maxsplit=1)[0]}"


def build_release_url(release: str) -> str:
    """Return the URL of a release's tarball."""
    return _RELEASE_URL.format(version=release)


# Components with Karmada's version. The others (etcd, kube-apiserver, kube-controller-manager) have their own versions.
_COMPONENTS: Final = (
    "karmadaAggregatedAPIServer",
    "karmadaControllerManager",
    "karmadaScheduler",
    "karmadaWebhook",
    "karmadaDescheduler",
    "karmadaSearch",
    "karmadaMetricsAdapter",
)
_MAX_TAG: Final = 128
_FIELD: Final = "spec.components"


class Instance(NamedTuple):
    """The release of an instance's images."""

    release: str
    """``""`` if the images have no tags, or different ones."""
    warning: str
    """The reason if there is no release; ``""`` without tags."""


def read_instance_release(karmada: JSONObject) -> Instance:
    """Return the common release of an instance's components; fields may have any type."""
    tags = dict(_read_tags(karmada))
    distinct = sorted(set(tags.values()))
    if not distinct:
        return Instance("", "")
    if len(distinct) > 1:
        listed = ", ".join(f"{component} {tag}" for component, tag in tags.items())
        return Instance("", f"{_FIELD}: image tags disagree ({listed}), so they say nothing about the CRDs")
    (tag,) = distinct
    if not is_release(tag):
        return Instance("", f"{_FIELD}: the image tag {tag} is no release, so it says nothing about the CRDs")
    return Instance(tag, "")


def _read_tags(karmada: JSONObject) -> Iterator[tuple[str, str]]:
    components = as_object(as_object(karmada.get("spec")).get("components"))
    for name in _COMPONENTS:
        tag = as_object(components.get(name)).get("imageTag")
        if not isinstance(tag, str):
            continue
        # A digest after the tag pins the image; the tag still names the release.
        tag = tag.partition("@")[0].strip()
        if tag and len(tag) <= _MAX_TAG:
            yield name, tag


FINALIZER: Final = "operator.karmada.io/finalizer"
CASCADE_LABEL: Final = "operator.karmada.io/disable-cascading-deletion"
_CASCADES: Final = "false"


def is_suspended(karmada: JSONObject) -> bool:
    """Return whether an instance is suspended: it is not reconciled, even if it is deleted."""
    return as_object(karmada.get("spec")).get("suspend") is True


def is_being_deleted(karmada: JSONObject) -> bool:
    """Return whether an instance is being deleted."""
    return bool(as_object(karmada.get("metadata")).get("deletionTimestamp"))


def cascades_deletion(karmada: JSONObject) -> bool:
    """Return whether deleting an instance also deletes its control plane."""
    labels = as_object(as_object(karmada.get("metadata")).get("labels"))
    return bool(labels.get(CASCADE_LABEL, _CASCADES) == _CASCADES)


def needs_reconcile(before: JSONObject | None, after: JSONObject) -> bool:
    """Return whether a change needs a reconciliation: a new instance, a deletion, or a new spec."""
    if is_suspended(after):
        return False
    return (
        not is_same_instance(before, after)
        or is_being_deleted(after)
        or as_object(before).get("spec") != after.get("spec")
    )


def is_same_instance(before: JSONObject | None, after: JSONObject) -> bool:
    """Return whether both states are of the same instance, by uid."""
    return before is not None and _uid(before) == _uid(after)


def mutate_karmada(request: AdmissionRequest) -> Response:
    """Answer a review with a patch that adds the missing defaults."""
    answer = not_for_review(request, (KARMADA,))
    if answer is not None:
        return answer
    operations = build_default_patch(request.object)
    return admission.patched(operations) if operations else admission.allowed()


def build_default_patch(karmada: JSONObject) -> list[JSONObject]:
    """Return the RFC 6902 operations that add the defaults.

    As in upstream's schema, only the policy has a default, and only if there is a ``crdTarball``. The effective URL is
    not written, because a stored URL would not follow the version of the operator.
    """
    tarball = as_object(karmada.get("spec")).get("crdTarball")
    if not isinstance(tarball, dict) or tarball.get("crdDownloadPolicy") is not None:
        return []
    return [{"op": "add", "path": "/spec/crdTarball/crdDownloadPolicy", "value": Policy.IF_NOT_PRESENT.value}]


def build_ownership_patch(karmada: JSONObject) -> JSONObject | None:
    """Return the merge patch that adds finalizer, label and defaults to an instance; None if it has them."""
    metadata = as_object(karmada.get("metadata"))
    change: JSONObject = {}
    if FINALIZER not in _finalizers(karmada):
        change["metadata"] = {"finalizers": [*_finalizers(karmada), FINALIZER]}
    if CASCADE_LABEL not in as_object(metadata.get("labels")):
        change.setdefault("metadata", {})["labels"] = {CASCADE_LABEL: _CASCADES}
    if build_default_patch(karmada):
        change["spec"] = {"crdTarball": {"crdDownloadPolicy": Policy.IF_NOT_PRESENT.value}}
    return change or None


def build_release_patch(karmada: JSONObject) -> JSONObject | None:
    """Return the merge patch that removes the finalizer of an instance; None if it has none."""
    finalizers = _finalizers(karmada)
    if FINALIZER not in finalizers:
        return None
    return {"metadata": {"finalizers": [finalizer for finalizer in finalizers if finalizer != FINALIZER]}}


def _uid(karmada: JSONObject) -> JSON:
    return as_object(karmada.get("metadata")).get("uid")


def _finalizers(karmada: JSONObject) -> list[str]:
    return as_list(as_object(karmada.get("metadata")).get("finalizers"))
