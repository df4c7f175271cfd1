"""What is read by lines: never what the parser refuses, and never as anything else than what the parser reads."""

import random
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.crds.archive import yaml_lines
from app.crds.archive.yaml_head import Head, NotYAMLError, read_head
from app.crds.archive.yaml_lines import KnownLines, read_lines
from tests.crds.tarballs import crd, members

PATHS = (("apiVersion",), ("kind",), ("metadata", "name"), ("spec", "group"))
# All that controller-gen writes, of several of its releases, and what is close to it.
STYLES = """---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  annotations:
    controller-gen.kubebuilder.io/version: (unknown)
  creationTimestamp: null
  labels: {}
  name: styles.x.karmada.io
spec:
  group: x.karmada.io
  names:
    categories:
    - all
    - x
    kind: Style
    plural: styles
  preserveUnknownFields: false
  scope: Namespaced
  versions:
  - additionalPrinterColumns:
    - jsonPath: .status.conditions[?(@.type=="Ready")].status
      name: READY
      type: string
    - description: 'CreationTimestamp is a time: it''s not guaranteed
        to be set in happens-before order

        across separate operations. # really'
      jsonPath: .metadata.creationTimestamp
      name: AGE
    name: v1
    schema:
      openAPIV3Schema:
        description: Style is what a file is written in, which may take more
          than one line (or two), or https://example.com/#more, to say.
        properties:
          first:
            anyOf:
            - type: integer
            - type: string
            default: '*'
            description: |-
              First says: what - comes before.

                * even *before*: 'this "one'
              - and not a list

              key: |-
            enum:
            - "True"
            - 'no: one'
            - ""
            - a\\b
            - several words that
              go on
            pattern: ^(\\+|-)?(([0-9]+(\\.[0-9]*)?)|(\\.[0-9]+))(([KMGTPE]i))$
            x-kubernetes-int-or-string: true
          second:
            default:
              any: []
            items:
              properties:
                third:
                  description: "quoted: \\"twice\\"\\n"
                  type: object
              type: object
            type: array
          text:
            description: Text with \u2013 say \u2013 dashes and \U0001f600.
          $ref: ok
        required:
        - first
        type: object
    served: true
  - name: v2
    text:
    - |-
      in a list
    - last
status:
  acceptedNames:
    kind: ""
    plural: ""
  conditions: []
  storedVersions: []
"""
MANIFESTS = [STYLES, crd("xs", "x.karmada.io", properties=2).decode()]
PIECES = [
    *" -:#\n'\"|>?*&!%@`[]{},.\\~<a0\t\r", "  ", "\n\n", "- ", ": ", " #", "''", "|-", "|", ">-", "|2-", "---\n", "...\n", "\n---\n", "%YAML 1.1\n", "&a ",
    "*a", "<<: ", "!!str ", "? ", "key: value\n", "kind: Other\n", "  name: other\n", "- item\n", "  - item\n", "key:\n", "x: |-\n", "{}", "[]", "\ufeff", "\x85",
    "\u2028", "\u00a0", "\0", "\x7f", "\u00e9", "\U0001f600", "\\q", "'", '"', "    ", "a" * 1200, "spec:\n", "metadata:\n",
]  # fmt: skip


def by_lines(text: str, known: KnownLines | None = None) -> dict[tuple[str, ...], str] | None:
    return read_lines(text, PATHS, KnownLines() if known is None else known)


def by_parser(text: str) -> Head | None:
    with pytest.MonkeyPatch.context() as patching:
        patching.setattr("app.crds.archive.yaml_head.read_lines", lambda *_: None)
        try:
            return read_head(text.encode())
        except NotYAMLError:
            return None


def check(text: str, known: KnownLines | None = None) -> bool:
    """Hold what the lines tell to what the parser tells; tells whether they told anything."""
    found = by_lines(text, known)
    if found is None:
        return False
    assert Head(*(found.get(path, "") for path in PATHS), 1) == by_parser(text), text
    return True


def changed(chance: random.Random, text: str) -> str:
    """The text after one to four changes: pieces put in, taken out, lines moved, copied and put in or out."""
    for _ in range(chance.randrange(1, 5)):
        lines = text.split("\n")
        line, other, place = chance.randrange(len(lines)), chance.randrange(len(lines)), chance.randrange(len(text) + 1)
        match chance.randrange(7):
            case 0:
                text = text[:place] + chance.choice(PIECES) + text[place:]
            case 1:
                text = text[:place] + text[place + chance.randrange(1, 4) :]
            case 2:
                lines[line] = chance.choice(["  ", " ", "    ", "- "]) + lines[line]
                text = "\n".join(lines)
            case 3:
                lines[line] = lines[line][chance.randrange(1, 5) :]
                text = "\n".join(lines)
            case 4:
                lines.insert(other, lines[line])
                text = "\n".join(lines)
            case 5:
                lines.insert(other, lines.pop(line))
                text = "\n".join(lines)
            case _:
                end = place + chance.randrange(4)
                text = text[:place] + chance.choice(PIECES) + text[end:]
    return text


def blocks(chance: random.Random) -> Iterator[str]:
    """Lines of the kinds known, at columns chosen at random: what may follow what."""
    column = 0
    for _ in range(chance.randrange(1, 12)):
        column = max(0, column + chance.choice([-6, -4, -2, -2, 0, 0, 0, 2, 2, 2, 1, 4]))
        kind = chance.choice(["key:", "key:", "- key:", "- item", "key: value", "- key: value", "key: {}", "more", "key: |-", "- |-", "- - x", "key: 'open", "closed'", "", "- 'a"])  # fmt: skip
        yield " " * column + kind


@pytest.mark.parametrize("text", MANIFESTS)
def test_what_controller_gen_writes_is_read_by_lines(text: str) -> None:
    assert check(text)


def test_every_crd_of_a_release_is_read_by_lines() -> None:
    known = KnownLines()
    for path, body in members().items():
        if body is not None and path.startswith("crds/bases/"):
            assert check(body.decode(), known), path


@pytest.mark.parametrize("seed", range(20))
def test_changed_manifests_are_read_as_the_parser_reads_them(seed: int) -> None:
    chance, known = random.Random(seed), KnownLines()
    told = sum(check(changed(chance, chance.choice(MANIFESTS)), known) for _ in range(500))
    assert told > 20  # else this would say little


@pytest.mark.parametrize("seed", range(5))
def test_lines_in_any_order_are_read_as_the_parser_reads_them(seed: int) -> None:
    chance, known = random.Random(seed), KnownLines()
    told = sum(check("\n".join(blocks(chance)) + "\n", known) for _ in range(4000))
    assert told > 20


@given(st.text(alphabet=" -:#'\"|\nab[]{}.", max_size=40))
def test_any_text_is_read_as_the_parser_reads_it(text: str) -> None:
    check(text + "\n")


@pytest.mark.parametrize(
    "text",
    [
        "a:\n  b:\n    c: 1\n  - x\n",  # a list where a mapping is
        "a:\n- x\n  - y\n",
        "a:\n    b: 1\n  c: 2\n",
        "a: b: c\n",
        "a: b\n  c: d\n",
        "- a\n",
        "a: 'b'c\n",
        'a: "\\q"\n',
        "a: \x01\n",
        "a: |-\n b\n  c\nd\n",
        "a: |-\nb\n",
        "a: &x b\n",
        "a: *x\n",
        "kind: A\nkind: B\n",
        "metadata:\n  name: a\nmetadata:\n  name: b\n",
        "kind: A\n  more\n",
        "kind: 'A'\n",
        "a: b\n---\nc: d\n",
        "a: 'b\n---\n c'\n",
        "a: b",
        "",
        "---\n",
        "\n",
    ],
)
def test_everything_else_is_for_the_parser(text: str) -> None:
    assert by_lines(text) is None


@pytest.mark.parametrize(
    "text",
    [
        "a: " + "x" * 8_000_000 + "\n",
        "a: '" + "''" * 4_000_000 + "\n",
        'a: "' + "\\n" * 4_000_000 + "\n",
        "a" * 8_000_000 + "\n",
        "a: " + ":#" * 4_000_000 + "\n",
        " " * 8_000_000 + "a: b\n",
        "a: |-\n" + "  b\n" * 1_000_000,
        "a: b\n" * 1_000_000,
        "a: 'b\n" + " b\n" * 1_000_000,
        "".join("  " * depth + "a:\n" for depth in range(2000)),
        "a: " + "[" * 100_000 + "\n",
    ],
)
def test_large_texts_take_no_more_than_their_share_of_steps(text: str) -> None:
    by_lines(text)  # what is more than linear would run into the test's timeout


def test_a_text_of_very_many_lines_is_for_the_parser() -> None:
    assert by_lines("a: b\n" * yaml_lines._MOST_LINES) == {}
    assert by_lines("a: b\n" * (yaml_lines._MOST_LINES + 1)) is None


def test_lines_are_known_in_number_and_length() -> None:
    known = KnownLines()
    by_lines("".join(f"a{index}: b\n" for index in range(yaml_lines._MOST_KNOWN + 10)), known)
    assert len(known) == yaml_lines._MOST_KNOWN
    known = KnownLines()
    assert by_lines(f"a: {'b' * yaml_lines._MOST_LENGTH}\n", known) == {}
    assert known == {}


def test_the_deepest_text_that_lines_are_read_of_is_not_too_deep_for_the_parser() -> None:
    lines = ["k:", *("  " * level + "- k:" for level in range(yaml_lines._MOST_COLUMN // 2 + 1))]
    assert check("\n".join(lines) + " v\n")
    assert by_lines("\n".join(lines) + "\n  " + lines[-1] + " v\n") is None
