import pytest

from fleethook.cel import AccessDecision, AccessQuestion, CostError, EvaluationError, PendingChecksError
from tests.cel.evaluating import evaluate

JANE = {"user": "jane", "uid": "7", "groups": ("dev",), "extra": (("scopes", ("b", "a")),)}
HEALTH = AccessQuestion(verb="get", path="/healthz", **JANE)
PODS = AccessQuestion(verb="list", version="*", resource="pods", **JANE)
MAY_READ_HEALTH = "authorizer.path('/healthz').check('get').allowed()"
MAY_LIST_PODS = "authorizer.group('').resource('pods').check('list').allowed()"


def collect_checks(expression: str) -> frozenset[AccessQuestion]:
    with pytest.raises(PendingChecksError) as undecided:
        evaluate(expression, access={})
    return undecided.value.questions


def test_a_check_of_a_path_becomes_a_pending_check() -> None:
    assert collect_checks(MAY_READ_HEALTH) == {HEALTH}


def test_a_check_of_a_resource_has_all_attributes_of_its_chain() -> None:
    expression = (
        "authorizer.group('apps').resource('deployments').subresource('scale').namespace('a').name('b')"
        ".fieldSelector('x=y').labelSelector('l=m').check('update').allowed()"
    )

    assert collect_checks(expression) == {
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


def test_request_resource_checks_the_resource_of_the_request() -> None:
    assert collect_checks("authorizer.requestResource.check('delete').allowed()") == {
        AccessQuestion(verb="delete", version="*", resource="pods", namespace="default", name="web", **JANE)
    }


def test_a_service_account_has_its_groups() -> None:
    expression = "authorizer.serviceAccount('ns', 'robot').path('/x').check('get').allowed()"

    assert collect_checks(expression) == {
        AccessQuestion(
            user="system:serviceaccount:ns:robot",
            verb="get",
            groups=("system:serviceaccounts", "system:serviceaccounts:ns", "system:authenticated"),
            path="/x",
        )
    }


def test_one_evaluation_collects_all_pending_checks() -> None:
    assert collect_checks(f"{MAY_READ_HEALTH} || {MAY_LIST_PODS}") == {HEALTH, PODS}


def test_pending_checks_are_limited_to_the_affordable_number() -> None:
    assert len(collect_checks("['a', 'b', 'c', 'd'].all(x, authorizer.path('/' + x).check('get').allowed())")) == 2


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
def test_a_decision_has_the_authorizers_answer(expression: str) -> None:
    access = {
        HEALTH: AccessDecision(allowed=True, reason="RBAC"),
        PODS: AccessDecision(allowed=False, error="unavailable"),
    }

    assert evaluate(expression, access=access)


def test_a_decisive_operand_needs_no_check() -> None:
    assert evaluate(f"true || {MAY_READ_HEALTH}", access={})
    assert evaluate(f"{MAY_READ_HEALTH} || true", access={})
    assert not evaluate(f"{MAY_READ_HEALTH} && false", access={})


def test_the_third_check_exceeds_the_cost_limit() -> None:
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
def test_invalid_arguments_of_a_check_are_errors(chain: str, cause: str) -> None:
    with pytest.raises(EvaluationError) as failed:
        evaluate(f"authorizer.{chain}.check('get').allowed()", access={})

    assert failed.value.cause == cause
