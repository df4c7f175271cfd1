import pytest

from app.dispatch.cel.error_texts import translate_compile_error, translate_evaluation_error


@pytest.mark.parametrize(
    ("text", "translated"),
    [
        ('NOT_FOUND: Key not found in map : "a"', "no such key: a"),
        ("Key not found in map : 7 [NOT_FOUND]", "no such key: 7"),
        ("INVALID_ARGUMENT: Index error: index=-1 size=2", "index out of bounds: -1"),
        ("No matching overloads found : f(int)", "no such overload"),
        ("Applying SELECT to non-message type", "no such overload"),
        ('No value with name "x" found in Activation', "no such attribute(s): x"),
        ("basic_string: construction from null", "a text is not valid UTF-8"),
        ("INVALID_ARGUMENT: divide by zero", "division by zero"),
        ("Integer value '70000' out of range int16", "integer out of range: 70000"),
        ("OUT_OF_RANGE: some other error", "some other error"),
    ],
)
def test_errors_of_evaluations_become_cel_gos(text: str, translated: str) -> None:
    assert translate_evaluation_error(text) == translated


def test_errors_of_the_type_checker_become_cel_gos() -> None:
    text = (
        "INVALID_ARGUMENT: ERROR: <input>:1:8: undefined field 'foo' not found in struct 'kubernetes.AdmissionRequest'"
    )

    assert translate_compile_error(text) == "ERROR: <input>:1:8: undefined field 'foo'"
