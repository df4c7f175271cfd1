"""Patches, and CRDs with them merged in."""

import base64
from datetime import UTC, datetime
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from fleethook.cluster.certificates.authority_and_serving_certificate import new_authority
from fleethook.engines.crds.archive import tarball_unpacking
from fleethook.engines.crds.archive.names_content_limits import Tree
from fleethook.engines.crds.archive.patches_and_ca import (
    CA_BUNDLE,
    NAME,
    NAMESPACE,
    Patch,
    build_patches,
    build_values,
    find_foreign_webhooks,
    render_crds,
    render_tree,
    substitute,
)
from fleethook.engines.crds.redaction_and_exit_codes import CRDsError, Exit
from tests.engines.crds.tarballs import build, crd, patch, small

AUTHORITY = new_authority(now=datetime.now(UTC))
PEM = AUTHORITY.certificate_pem


def refused(**given: Any) -> str:
    with pytest.raises(CRDsError) as raised:
        build_values(**given)
    assert raised.value.exit is Exit.USAGE
    return str(raised.value)


def test_certificates_go_in_as_they_are() -> None:
    bundle = b"# our own\n" + PEM + PEM
    values = build_values(name="demo", namespace="test", ca_pem=bundle)
    assert values == {
        "{{name}}": "demo-karmada-webhook", "{{namespace}}": "test", "{{caBundle}}": base64.b64encode(bundle).decode(),
    }  # fmt: skip


@pytest.mark.parametrize("text", ['a"', "a\nb", "a: b", "Demo", "-a", "a.b", "{{name}}", "a" * 64, "ä", "a\n"])
def test_a_text_that_could_end_another_is_refused(text: str) -> None:
    assert refused(namespace=text) == f"the namespace is {text!r}, which is not a DNS label"
    called = f"{text}-karmada-webhook"
    assert refused(name=text) == f"the webhook of {text!r} would be called {called!r}, which is not a DNS label"


@pytest.mark.parametrize(
    ("pem", "text"),
    [
        (b"", "unexpected empty ca cert data"),
        (b" \n", "unexpected empty ca cert data"),
        (b"text", "the CA's certificates are not PEM"),
        (b"\x00\xff", "the CA's certificates are not PEM"),
        (
            b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
            "the CA's certificates are not PEM",
        ),
        (
            PEM + AUTHORITY.key_pem,
            "the file of the CA's certificates also has a private key, which the CRDs would publish",
        ),
    ],
    ids=range(6),
)
def test_invalid_certificates_are_refused(pem: bytes, text: str) -> None:
    assert refused(ca_pem=pem) == text


@pytest.mark.parametrize(
    ("text", "code", "words"),
    [
        (
            "a: {{foo}}",
            Exit.ARCHIVE,
            "p.yaml has the placeholder {{foo}}: known are {{caBundle}}, {{name}}, {{namespace}}",
        ),
        (
            "a: {{ name }}",
            Exit.ARCHIVE,
            "p.yaml has the placeholder {{ name }}: known are {{caBundle}}, {{name}}, {{namespace}}",
        ),
        ("a: {{}}", Exit.ARCHIVE, "p.yaml has the placeholder {{}}: known are {{caBundle}}, {{name}}, {{namespace}}"),
        (
            "a: {{namespace}}",
            Exit.USAGE,
            "p.yaml needs the namespace of the instance for {{namespace}}: give --namespace",
        ),
        (
            "{{caBundle}}",
            Exit.USAGE,
            "p.yaml needs the certificates of the instance's CA for {{caBundle}}: give --ca-file",
        ),
    ],
)
def test_a_placeholder_without_a_value_is_reported_with_its_path(text: str, code: Exit, words: str) -> None:
    with pytest.raises(CRDsError) as raised:
        substitute("p.yaml", text, {"{{name}}": "a"})
    assert (raised.value.exit, str(raised.value)) == (code, words)


WORKS = "works.work.karmada.io"
PATH = "crds/patches/webhook_in_works.yaml"
VALUES = {"{{caBundle}}": "Q0E=", "{{name}}": "demo-karmada-webhook", "{{namespace}}": "test"}
CONVERSION = {
    "strategy": "Webhook",
    "webhook": {
        "clientConfig": {"url": "https://demo-karmada-webhook.test.svc:443/convert", "caBundle": "Q0E="},
        "conversionReviewVersions": ["v1"],
    },
}


def works(**members: Any) -> Any:
    return {**yaml.safe_load(crd("works", "work.karmada.io")), **members}


def tree(text: str, **members: Any) -> Tree:
    return Tree({WORKS: works(**members)}, {PATH: text})


def merged(text: str, **members: Any) -> Any:
    given = tree(text, **members)
    return render_crds(given.crds, build_patches(given, VALUES))[WORKS]


def problem(text: str, path: str = PATH) -> tuple[Exit, str]:
    given = Tree({WORKS: works()}, {path: text})
    with pytest.raises(CRDsError) as raised:
        render_crds(given.crds, build_patches(given, VALUES))
    return raised.value.exit, str(raised.value)


def test_a_patch_sets_the_conversion_and_nothing_else() -> None:
    before = works()
    given = tree(patch("works").decode())
    found = render_crds(given.crds, build_patches(given, VALUES))
    assert found == {WORKS: {**before, "spec": {**before["spec"], "conversion": CONVERSION}}}
    assert given.crds == {WORKS: before}, "what was given is not changed"


def test_only_the_file_name_selects_the_crd() -> None:
    text = patch("somethingelse").decode()
    assert merged(text)["metadata"]["name"] == WORKS
    (one,) = build_patches(tree(text), VALUES)
    assert (one.path, one.crd, "metadata" in one.body) == (PATH, WORKS, False)


def test_other_metadata_of_a_patch_is_merged() -> None:
    text = "metadata: {name: other, labels: {a: b}}\n"
    assert build_patches(tree(text), VALUES) == [Patch(PATH, WORKS, {"metadata": {"labels": {"a": "b"}}})]
    assert merged(text)["metadata"]["labels"] == {"a": "b"}


def test_lists_merge_as_the_apiserver_merges_them() -> None:
    text = "metadata: {finalizers: [b]}\nspec: {names: {shortNames: [x]}, versions: [{name: v2}]}\n"
    names = {"shortNames": ["w"], "plural": "works"}
    found = merged(
        text, metadata={"name": WORKS, "finalizers": ["a"]}, spec={"names": names, "versions": [{"name": "v1"}]}
    )
    assert sorted(found["metadata"]["finalizers"]) == ["a", "b"]
    assert found["spec"] == {"names": {"plural": "works", "shortNames": ["x"]}, "versions": [{"name": "v2"}]}


def test_null_and_directives_take_away() -> None:
    text = "spec: {scope: null, names: {$patch: replace, plural: works}}\n"
    found = merged(text)
    assert "scope" not in found["spec"]
    assert found["spec"]["names"] == {"plural": "works"}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", f"{PATH} is no object"),
        ("- a\n", f"{PATH} is no object"),
        (
            "{{foo}}",
            f"{PATH} has the placeholder {{{{foo}}}}: known are {{{{caBundle}}}}, {{{{name}}}}, {{{{namespace}}}}",
        ),
        ("spec: [1]\n", f"{PATH} does not fit {WORKS}: /spec: the patch has a list where the object has an object"),
        (
            "metadata: [1]\n",
            f"{PATH} does not fit {WORKS}: /metadata: the patch has a list where the object has an object",
        ),
        (
            "spec: {$patch: explode}\n",
            f"{PATH} does not fit {WORKS}: /spec/$patch: must be delete, replace or merge, not 'explode'",
        ),
        ("$unknown: 1\n", f"{PATH} does not fit {WORKS}: /$unknown: is an unknown directive"),
        ('{"a":' * 1000 + "1" + "}" * 1000, f"{PATH} cannot be read: it has more than 200 levels"),
        ("a: &b [1]\nc: [*b, *b]\n", f"{PATH} cannot be read: it has aliases"),
    ],
    ids=range(9),
)
def test_an_invalid_patch_is_reported_with_its_path(text: str, words: str) -> None:
    assert problem(text) == (Exit.ARCHIVE, words)


@pytest.mark.parametrize(
    ("address", "instance", "warned"),
    [
        ("https://{{name}}.{{namespace}}.svc:443/convert", "demo", False),
        ("https://{{name}}.{{namespace}}.svc.cluster.local/convert", "demo", False),
        ("https://karmada-webhook.karmada-system.svc:443/convert", "demo", True),  # up to v1.12
        ("https://karmada-webhook.karmada-system.svc:443/convert", "karmada", False),
        ("no address", "demo", False),
    ],
)
def test_a_fixed_address_of_another_instance_is_a_warning(address: str, instance: str, *, warned: bool) -> None:
    values = build_values(name=instance, namespace="karmada-system")
    text = f'spec: {{conversion: {{webhook: {{clientConfig: {{url: "{address}"}}}}}}}}'
    patches = build_patches(tree(text), values)
    found = find_foreign_webhooks(patches, values)
    assert found.keys() == ({WORKS} if warned else set())
    if warned:
        wanted = "converts works.work.karmada.io at karmada-webhook.karmada-system.svc"
        assert (
            f"{PATH} {wanted}, but the instance's webhook is demo-karmada-webhook.karmada-system.svc: releases"
            in found[WORKS]
        )
    assert find_foreign_webhooks(patches, {}) == {}, "the instance is unknown"


def test_a_patch_for_a_missing_crd_is_reported() -> None:
    path = "crds/patches/webhook_in_policies.yaml"
    words = f"{path} patches policies.work.karmada.io, which the tarball does not have"
    assert problem("a: 1", path) == (Exit.ARCHIVE, words)


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
    values = {NAME: name, NAMESPACE: namespace, CA_BUNDLE: "QQ=="}
    _, tree = tarball_unpacking.read_tree(build({**small(), PATCH: body}))
    try:
        render_crds(tree.crds, build_patches(tree, values))
    except CRDsError:
        with pytest.raises(CRDsError):
            render_tree(tree)
