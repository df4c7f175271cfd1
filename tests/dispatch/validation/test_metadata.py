"""Names and annotations of configurations are validated."""

from tests.dispatch.validation.builders import configuration, found


def test_generate_name_replaces_the_name() -> None:
    assert found({"metadata": {"generateName": "config-"}}) == []
    assert [field for field, _ in found({"metadata": {"generateName": "Config-"}})] == ["metadata.generateName"]


def test_the_total_size_of_annotations_is_limited() -> None:
    limit = 256 * 1024
    assert found(configuration(annotations={"a": "x" * (limit - 1)})) == []
    expected = [("metadata.annotations", f"Too long: may not be more than {limit} bytes")]
    assert found(configuration(annotations={"a": "x" * (limit - 2), "b": "é"})) == expected
