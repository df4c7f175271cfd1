"""YAML output is parsed back to the same objects."""

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from app.crds.apply.yaml_text import dump
from app.store.yaml_reader import read_values

TRAPS = [
    "on", "off", "yes", "NO", "y", "N", "true", "null", "~", "", "1", "1_000", "0x1f", "0o17", "0b1", "017", "08", "1e3",
    "1E+3", ".5", "5.", "-.5e-3", "+1", "12:30", "12:30:45", "2020-01-01", ".nan", ".inf", "-.INF", "=", "<<", "- a",
    "a: b", "a #b", "{{name}}", "é", "\u2028", "\x85", "\ufeff", "a\nb\n", " a", "a ", "\t", "#", "|", ">", "0", "-0", "1e",
]  # fmt: skip
texts = st.sampled_from(TRAPS) | st.text(st.characters(codec="utf-8", exclude_categories=("Cc", "Cs")), max_size=12)
scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | texts
)
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4), max_leaves=20
)


@given(st.lists(st.dictionaries(texts, values, min_size=1, max_size=4), max_size=3))
def test_a_stream_is_parsed_back_to_the_same_objects(objects: list[object]) -> None:
    assert [one.value for one in read_values(dump(objects), source="x")] == objects


@pytest.mark.parametrize(
    "text", ["y", "N", "1e3", "0o17", "0b102", "08", "5.", "on", "12:30", "2020-01-01", "1_000", "~"]
)
def test_strings_that_some_reader_takes_for_another_type_are_quoted(text: str) -> None:
    assert dump([{"a": text}]) == f"---\na: '{text}'\n"


def test_ordinary_texts_are_not() -> None:
    assert dump([{"name": "works.work.karmada.io", "v": "v1", "range": "0-0", "d": "1.2.3"}]) == (
        "---\nname: works.work.karmada.io\nv: v1\nrange: 0-0\nd: 1.2.3\n"
    )


def test_members_stay_in_order_and_nothing_is_an_alias() -> None:
    shared = {"z": 1, "a": [1]}
    text = dump([{"b": shared, "a": shared}])
    assert text == "---\nb:\n  z: 1\n  a:\n  - 1\na:\n  z: 1\n  a:\n  - 1\n"
    assert yaml.safe_load(text) == {"b": shared, "a": shared}
