import pytest

from fleethook.cluster.manifests.yaml_reader import read_values
from fleethook.console.yaml_paths import dump_yaml, list_lines


def test_each_line_has_the_path_of_its_member() -> None:
    value = {"spec": {"list": [{"name": "a", "image": "b"}, "text"], "empty": {}}}
    assert [(one.text, "/".join(one.path)) for one in list_lines(value)] == [
        ("spec:", "spec"),
        ("  list:", "spec/list"),
        ("  - name: a", "spec/list/0/name"),
        ("    image: b", "spec/list/0/image"),
        ("  - text", "spec/list/1"),
        ("  empty: {}", "spec/empty"),
    ]


@pytest.mark.parametrize(
    "text", ["<script>alert(1)</script>", "a\u202eb", "x\x1b[31m", "a\nb", "# no", "- x", "\u2028", "'", '"']
)
def test_the_text_of_any_value_is_read_back_and_has_no_active_character(text: str) -> None:
    dumped = dump_yaml({"name": text, text: ["ü", text]})
    assert read_values(dumped, source="x")[0].value == {"name": text, text: ["ü", text]}
    assert not set("\u202e\x1b\u2028") & set(dumped)
