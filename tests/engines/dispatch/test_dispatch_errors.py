"""The errors of dispatch have the texts and codes of an apiserver."""

import pytest

from fleethook.engines.dispatch.dispatch_errors import denial, forbidden, internal
from fleethook.model.admission import Status, StatusDetails


@pytest.mark.parametrize(
    ("result", "code", "text"),
    [
        (None, 400, "without explanation"),
        (Status(reason="Conflict", code=409), 409, ": Conflict"),
        (Status(message="too large", reason="Invalid", code=422), 422, ": too large"),
        (Status(message="fine", code=200), 400, ": fine"),
    ],
)
def test_denials_have_the_code_and_the_text_of_the_webhook(result: Status | None, code: int, text: str) -> None:
    error = denial("w.example.org", result)
    separator = "" if text.startswith(":") else " "
    assert (error.status.code, error.status.status) == (code, "Failure")
    assert str(error) == f'admission webhook "w.example.org" denied the request{separator}{text}'


def test_denials_keep_a_custom_status() -> None:
    assert denial("w.example.org", Status(status="Warning")).status.status == "Warning"
    assert denial("w.example.org", Status(status="Success")).status.status == "Failure"


def test_forbidden_names_the_resource_and_its_group() -> None:
    error = forbidden("widgets.example.org", "b", "no")
    assert error.status.details == StatusDetails(name="b", group="example.org", kind="widgets")
    assert (error.status.code, str(error)) == (403, 'widgets.example.org "b" is forbidden: no')


def test_internal_errors_have_the_text_as_a_cause() -> None:
    error = internal("broken")
    assert error.status.details is not None
    assert [cause.message for cause in error.status.details.causes] == ["broken"]
    assert str(error) == "Internal error occurred: broken"
