import pytest

from app.dispatch.cel import AccessDecision, AccessQuestion, CostError, EvaluationError, PendingChecksError
from tests.dispatch.cel.evaluating import evaluate

JANE = {"user": "jane", "uid": "7", "groups": ("dev",), "extra": (("scopes", ("b", "a")),)}
HEALTH = AccessQuestion(verb="get", path="/healthz", **JANE)
PODS = AccessQuestion(verb="list", version="*", resource="pods", **JANE)
MAY_READ_HEALTH = "authorizer.path('/healthz').check('get').allowed()"
MAY_LIST_PODS = "authorizer.group('').resource('pods').check('list').allowed()"


def asked(expression: str) -> frozenset[AccessQuestion]:
    with pytest.raises(PendingChecksError) as undecided:
        evaluate(expression, access={})
    return undecided.value.questions


def test_a_check_of_a_path_is_a_question() -> None:
    assert asked(MAY_READ_HEALTH) == {HEALTH}


def test_a_check_of_a_resource_says_all_that_was_said() -> None:
    expression = (
        "authorizer.group('apps').resource('deployments').subresource('scale').namespace('a').name('b')"
        ".fieldSelector('x=y').labelSelector('l=m').check('update').allowed()"
    )

    assert asked(expression) == {
        AccessQuestion(
            verb="update",
            group="apps",
            version="*",
            resource="deployments",
            subresource="scale",
            namespace="a",
            name="b",
            field_selector="x=y",
            label_selector="l=m",
            **JANE,
        )
    }


def test_the_resource_of_the_request_is_at_hand() -> None:
    assert asked("authorizer.requestResource.check('delete').allowed()") == {
        AccessQuestion(verb="delete", version="*", resource="pods", namespace="default", name="web", **JANE)
    }


def test_a_service_account_is_asked_for_with_its_groups() -> None:
    expression = "authorizer.serviceAccount('ns', 'robot').path('/x').check('get').allowed()"

    assert asked(expression) == {
        AccessQuestion(
            user="system:serviceaccount:ns:robot",
            verb="get",
            groups=("system:serviceaccounts", "system:serviceaccounts:ns", "system:authenticated"),
            path="/x",
        )
    }


def test_all_questions_that_are_met_are_asked_at_once() -> None:
    assert asked(f"{MAY_READ_HEALTH} || {MAY_LIST_PODS}") == {HEALTH, PODS}


def test_no_more_is_asked_at_once_than_may_be_spent() -> None:
    assert len(asked("['a', 'b', 'c', 'd'].all(x, authorizer.path('/' + x).check('get').allowed())")) == 2


@pytest.mark.parametrize(
    "expression",
    [
        MAY_READ_HEALTH,
        "authorizer.path('/healthz').check('get').reason() == 'RBAC'",
        "!authorizer.path('/healthz').check('get').errored()",
        "authorizer.path('/healthz').check('get').error() == ''",
        "!authorizer.group('').resource('pods').check('list').allowed()",
        "authorizer.group('').resource('pods').check('list').errored()",
        "authorizer.group('').resource('pods').check('list').error() == 'unavailable'",
    ],
)
def test_decisions_say_what_was_answered(expression: str) -> None:
    access = {
        HEALTH: AccessDecision(allowed=True, reason="RBAC"),
        PODS: AccessDecision(allowed=False, error="unavailable"),
    }

    assert evaluate(expression, access=access)


def test_what_is_decided_without_a_check_needs_no_answer() -> None:
    assert evaluate(f"true || {MAY_READ_HEALTH}", access={})
    assert evaluate(f"{MAY_READ_HEALTH} || true", access={})
    assert not evaluate(f"{MAY_READ_HEALTH} && false", access={})


def test_the_third_check_is_too_dear() -> None:
    access = {HEALTH: AccessDecision(allowed=True)}

    assert evaluate(f"{MAY_READ_HEALTH} && {MAY_READ_HEALTH}", access=access)
    with pytest.raises(CostError, match="operation cancelled: actual cost limit exceeded"):
        evaluate(f"{MAY_READ_HEALTH} && {MAY_READ_HEALTH} && {MAY_READ_HEALTH}", access=access)


@pytest.mark.parametrize(
    ("chain", "cause"),
    [
        ("path(' ')", "path must not be empty"),
        ("group('').resource('')", "resource must not be empty"),
        ("serviceAccount('ns', 'Robot').path('/')", "Invalid service account name"),
        ("serviceAccount('a.b', 'robot').path('/')", "Invalid service account namespace"),
    ],
)
def test_checks_of_nothing_are_errors(chain: str, cause: str) -> None:
    with pytest.raises(EvaluationError) as failed:
        evaluate(f"authorizer.{chain}.check('get').allowed()", access={})

    assert failed.value.cause == cause
