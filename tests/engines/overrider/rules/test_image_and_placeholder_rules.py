"""Tests of the grammar of images, and of misspelled placeholders; mistakes.md has further mistakes."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fleethook.engines.overrider.entries.entry_selection import sample_names
from fleethook.engines.overrider.rules.image_and_placeholder_rules import check_image, image_problem, misspelled_token
from tests.hypothesis_profiles import examples

SHA = "sha256:" + "0123456789abcdef" * 4
# The grammar of github.com/distribution/reference v0.6, regexp.go, as one expression.
COMPONENT = r"(?:[a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9-]*[a-zA-Z0-9])"
HOST = rf"(?:{COMPONENT}(?:\.{COMPONENT})*|\[(?:[a-fA-F0-9:]+)\])(?::[0-9]+)?"
PART = r"[a-z0-9]+(?:(?:[._]|__|[-]+)[a-z0-9]+)*"
ORACLE = re.compile(
    rf"(?:{HOST}/)?{PART}(?:/{PART})*(?::[A-Za-z0-9_][A-Za-z0-9_.-]{{0,127}})?"
    r"(?:@(?:sha256:[a-f0-9]{64}|sha384:[a-f0-9]{96}|sha512:[a-f0-9]{128}))?"
)


@pytest.mark.parametrize(
    ("reference", "problem"),
    [
        ("http://registry.example.org/app", "an image reference has no scheme: remove http://"),
        ("docker://app", "an image reference has no scheme: remove docker://"),
        ("${REGISTRY}/app:1", "an image reference has no '$': nothing replaces variables in it"),
        (SHA, "64 hexadecimal digits are an image ID, not a name"),
        ("r.io:0/app", "the port of the registry 'r.io:0' must be from 1 to 65535"),
        ("r.io:65536/app", "the port of the registry 'r.io:65536' must be from 1 to 65535"),
        ("r.io:1000443/app", "the port of the registry 'r.io:1000443' must be from 1 to 65535"),
        ("[::1]:70000/app:1", "the port of the registry '[::1]:70000' must be from 1 to 65535"),
        ("my app:1", "an image reference has no spaces"),
        ("app:1\n", "an image reference has no spaces"),
        ("Nginx:1", "the repository name 'Nginx' must be lowercase"),
        ("registry.example.org/Team/app", "the repository name 'Team/app' must be lowercase"),
        ("app:", "the tag after ':' is empty"),
        ("app:1:2", "the tag '1:2' must have 1 to 128 letters"),
        ("app:-1", "the tag '-1' must have"),
        ("app:" + "x" * 129, "must have 1 to 128"),
        ("app@sha256:abc", "the digest 'sha256:abc' must be sha256: and 64 lowercase hexadecimal digits"),
        ("app@", "the digest '' must be"),
        (f"app@{SHA.upper()}", "the digest"),
        ("a..b", "the repository name 'a..b' must be lowercase letters and digits"),
        ("a/", "the repository name 'a/' must be"),
        ("/a", "the repository name '/a' must be"),
        (":1", "the repository name is missing"),
        ("example.org/", "the repository name is missing"),
        ("-example.org/app", "the registry '-example.org' must be a host name"),
        ("example.org:port/app", "the registry 'example.org:port' must be"),
        ("0" * 64, "64 hexadecimal digits are an image ID"),
        ("a/" * 130 + "b", "must not have more than 255 characters"),
        ("{{ nodepool }}/app", "no spaces"),
        ("<registry>/<name>:<tag>", "the repository name"),
    ],
)
def test_invalid_references_have_a_problem(reference: str, problem: str) -> None:
    assert problem in (image_problem(reference) or "")


PIECES = [
    "a", "bc", "Z", "0", "-", "--", ".", "_", "__", ":", "/", "@", "[::1]", "localhost", " ", f"@{SHA}", ":80/", "x.y/",
]  # fmt: skip


@settings(max_examples=examples(500))
@given(st.lists(st.sampled_from(PIECES), max_size=8).map("".join))
def test_the_result_equals_the_grammar(reference: str) -> None:
    # The first part is a registry only if it has '.', ':', uppercase letters or is localhost (normalize.go).
    first, slash, _ = reference.partition("/")
    registry = bool(slash) and (first == "localhost" or first != first.lower() or any(c in first for c in ".:"))
    path = reference.partition("/")[2] if registry else reference
    normalized = reference if registry else f"docker.io/{reference}"
    lowercase = path.partition(":")[0] == path.partition(":")[0].lower()
    assert (image_problem(reference) is None) == (lowercase and ORACLE.fullmatch(normalized) is not None)


@pytest.mark.parametrize(
    ("text", "token"),
    [
        ("a-{{ nodepool }}", "{{ nodepool }}"),
        ("{{nodepool-name}}/app", "{{nodepool-name}}"),
        ("{{NodePool}}", "{{NodePool}}"),
        ("{{ .NodePool }}", "{{ .NodePool }}"),
        ("{{node_pool}}", "{{node_pool}}"),
        ("{{nodepoool}}", None),
        ("{{pool}}", "{{pool}}"),
        ("{nodepool}", "{nodepool}"),
        ("{{nodepool}", "{{nodepool}"),
        ("{{nodepool}}", None),
        ("x{{nodepool}}y{{nodepool}}", None),
        ("{{nodepool}}-{{ nodepool }}", "{{ nodepool }}"),
        ("${nodepool}", None),
        ("$(nodepool)", None),
        ("{{ .Values.nodepool.size }}", None),
        ('{{ include "pool" . }}', None),
        ('{"pool": 1}', None),
        ("{" * 1000, None),
    ],
)  # fmt: skip
def test_misspelled_tokens_are_found(text: str, token: str | None) -> None:
    assert misspelled_token(text) == token


def test_an_image_is_checked_with_the_names_of_the_pools() -> None:
    assert list(check_image("r.io/{{nodepool}}:1", "f", pools=("hangzhou",))) == []
    (finding,) = check_image("r.io/{{nodepool}}:1", "f", pools=("hangzhou", "a..b"))
    assert finding.message.startswith("'r.io/{{nodepool}}:1' is not an image for node pool a..b: ")
    assert list(check_image("{{nodepool}}/x:1", "f", pools=())) == []


NAMES = st.from_regex(r"[a-z0-9]([a-z0-9.-]{0,8}[a-z0-9])?", fullmatch=True)
IMAGES = st.sampled_from(
    [
        "r.io/{{nodepool}}/x:1",
        "{{nodepool}}:1",
        "r.io:{{nodepool}}/x:1",
        "x:{{nodepool}}",
        "{{nodepool}}.io/x",
        "a-{{nodepool}}-",
    ]
)


@given(image=IMAGES, names=st.lists(NAMES, min_size=1, max_size=8))
def test_an_image_that_is_valid_for_the_sample_is_valid_for_all_names(image: str, names: list[str]) -> None:
    every = {bool(list(check_image(image, "f", pools=[name]))) for name in names}
    assert bool(list(check_image(image, "f", pools=sample_names(names)))) == (True in every)
