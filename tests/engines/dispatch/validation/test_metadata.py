"""Names and annotations of configurations are validated."""

from tests.engines.dispatch.validation.builders import configuration, find_errors


def test_generate_name_replaces_the_name() -> None:
    assert find_errors({"metadata": {"generateName": "config-"}}) == []
    assert [field for field, _ in find_errors({"metadata": {"generateName": "Config-"}})] == ["metadata.generateName"]


def test_the_total_size_of_annotations_is_limited() -> None:
    limit = 256 * 1024
    assert find_errors(configuration(annotations={"a": "x" * (limit - 1)})) == []
    expected = [("metadata.annotations", f"Too long: may not be more than {limit} bytes")]
    assert find_errors(configuration(annotations={"a": "x" * (limit - 2), "b": "é"})) == expected
