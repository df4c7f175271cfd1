import pytest

from fleethook.console.views.form_fields import (
    FieldError,
    FormFieldError,
    limit_text,
    read_document,
    read_documents,
    read_value,
)


def test_empty_documents_do_not_count() -> None:
    assert [one.value for one in read_documents("a", "---\na: 1\n---\n---\n- 2", most=100)] == [{"a": 1}, [2]]
    assert read_documents("a", "", most=100) == []


def test_a_document_has_its_line() -> None:
    found = read_document("a", "\n\na: 1", most=100)
    assert found is not None
    assert (found.value, found.line) == ({"a": 1}, 3)
    assert read_value("a", "a: 1", most=100) == {"a": 1}
    assert read_value("a", "# nothing", most=100) is None


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("a: 1\n---\nb: 2", FieldError("a", "the text has 2 documents, expected one")),
        ("x" * 4097, FieldError("a", "the text has more than 4 KiB: shorten it")),
    ],
)
def test_a_text_that_cannot_be_used_is_an_error_of_its_field(text: str, error: FieldError) -> None:
    with pytest.raises(FormFieldError) as caught:
        read_value("a", text, most=4096)
    assert caught.value.error == error


def test_an_error_of_the_syntax_has_its_line() -> None:
    with pytest.raises(FormFieldError) as caught:
        read_documents("a", "a: 1\nb: [", most=100)
    assert (caught.value.error.field, caught.value.error.line) == ("a", 3)


def test_the_limit_itself_is_allowed() -> None:
    assert limit_text("a", "x" * 4096, most=4096)
