"""A tarball that cannot be rendered is found out without an instance."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleethook.engines.crds.apply.documents import read_files
from fleethook.engines.crds.apply.patches import CA_BUNDLE, NAME, NAMESPACE, build_patches, render_crds
from fleethook.engines.crds.apply.trial import render_trial
from fleethook.engines.crds.archive import archive
from fleethook.engines.crds.crds_errors import CRDsError, Exit
from tests.engines.crds.tarballs import build, small

PATCH = "crds/patches/webhook_in_works.yaml"
LABELS = st.from_regex(r"[a-z]([-a-z]{0,20}[a-z])?", fullmatch=True)
LINES = st.sampled_from(
    ["spec:", "  conversion:", "    strategy: Webhook", "  versions: []", "metadata:", "  finalizers: [a]", "  name: other", "  labels:",
     '    caBundle: "{{caBundle}}"', "    name: {{name}}", '    url: "https://{{name}}.{{namespace}}.svc"', "    {{other}}: a", "{{name}}",
     "$patch: replace", "  $patch: delete", "  $setElementOrder/versions: []", "  - a", "- b", "[", "a: *a", "a: &a b", "---", "%TAG", "\t", "null",
     "  ownerReferences: [{uid: a}, 5]", "  finalizers: {a: b}", "  $deleteFromPrimitiveList/finalizers: a", "spec: {versions: 5}", "a: 1e999"]
)  # fmt: skip


@given(st.lists(LINES, max_size=8), LABELS, LABELS)
def test_the_trial_refuses_each_tarball_that_an_instance_refuses(lines: list[str], name: str, namespace: str) -> None:
    body = "\n".join(lines).encode()
    _, files = archive.read_files(build({**small(), PATCH: body}))
    values = {NAME: name, NAMESPACE: namespace, CA_BUNDLE: "QQ=="}
    try:
        tree = read_files(files)
        render_crds(tree.crds, build_patches(tree, values))
    except CRDsError:
        with pytest.raises(CRDsError):
            render_trial(files)


@pytest.mark.parametrize(
    ("patch", "text"),
    [
        (b"[", "cannot be read"),
        (b"- a", "is no object"),
        (b"a: '{{other}}'", "has the placeholder {{other}}"),
        (b"spec: [1]", "does not fit"),
    ],
)
def test_a_patch_that_cannot_be_rendered_is_named(patch: bytes, text: str) -> None:
    _, files = archive.read_files(build({**small(), PATCH: patch}))
    with pytest.raises(CRDsError, match=text) as caught:
        render_trial(files)
    assert caught.value.exit is Exit.ARCHIVE
    assert PATCH in str(caught.value)
