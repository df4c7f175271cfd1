"""The errors of dispatch have the texts and codes of an apiserver."""

from fleethook.engines.dispatch.dispatch_errors import forbidden, internal
from fleethook.model.admission import StatusDetails


def test_forbidden_names_the_resource_and_its_group() -> None:
    error = forbidden("widgets.example.org", "b", "no")
    assert error.status.details == StatusDetails(name="b", group="example.org", kind="widgets")
    assert (error.status.code, str(error)) == (403, 'widgets.example.org "b" is forbidden: no')


def test_internal_errors_have_the_text_as_a_cause() -> None:
    error = internal("broken")
    assert error.status.details is not None
    assert [cause.message for cause in error.status.details.causes] == ["broken"]
    assert str(error) == "Internal error occurred: broken"
