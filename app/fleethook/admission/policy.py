"""Rules with an expression as ValidatingAdmissionPolicies, which kube-apiserver evaluates without calling a webhook."""

from typing import Final

from fleethook.admission.declaration import Declaration
from fleethook.admission.rule import Rule
from fleethook.model.gvk import GroupKind
from fleethook.model.json import JSONObject
from fleethook.model.webhook_rules import write_rule

API_VERSION: Final = "admissionregistration.k8s.io/v1"
POLICY: Final = GroupKind("admissionregistration.k8s.io", "ValidatingAdmissionPolicy")
POLICY_REMEDY: Final = "delete the policy and its binding, or move the rule to a file that no server serves"
"""The remedy if kube-apiserver asks both the policy and the webhook of a rule."""
# k8s.io/kubernetes v1.36.3, pkg/kubeapiserver/admission/exclusion/resources.go: all resources of these groups.
_WITHOUT_POLICIES: Final = ("authentication.k8s.io", "authorization.k8s.io")
SUFFIX: Final = ".hooks.fleethook.io"
"""The end of the name of each webhook and policy: kube-apiserver wants at least three labels."""


def find_obstacle(rule: Rule) -> str:
    """Return why no policy can decide like the webhook of a rule; ``""`` if a policy can."""
    if rule.expression is None:
        return "it is in Python"
    group = rule.declaration.group
    return f"kube-apiserver asks no policy about kinds of {group}" if group in _WITHOUT_POLICIES else ""


def compile_policy(rule: Rule) -> list[JSONObject]:
    """Return the policy of a rule and its binding; empty if `find_obstacle` has a reason.

    A policy has the defaults of a webhook configuration, for example ``matchPolicy: Equivalent``.
    """
    if rule.expression is None or find_obstacle(rule):
        return []
    declared, name = rule.declaration, f"{rule.name}{SUFFIX}"
    spec: JSONObject = {
        "failurePolicy": declared.failure_policy,
        "matchConstraints": _build_constraints(declared),
        "validations": [
            # A webhook's refusal has this reason and code 403, too. The default of policies is Invalid and 422.
            {"expression": rule.expression.expression, "message": rule.message, "reason": "Forbidden"}
        ],
    }
    if declared.conditions:
        spec["matchConditions"] = [
            {"name": one, "expression": program.expression} for one, program in declared.conditions.items()
        ]
    return [
        {"apiVersion": API_VERSION, "kind": POLICY.kind, "metadata": {"name": name}, "spec": spec},
        {
            "apiVersion": API_VERSION,
            "kind": "ValidatingAdmissionPolicyBinding",
            "metadata": {"name": name},
            "spec": {"policyName": name, "validationActions": ["Deny"]},
        },
    ]


def name_resource(declared: Declaration) -> str:
    """Return the resource, with the subresource, as registrations name it."""
    return f"{declared.resource}/{declared.subresource}" if declared.subresource else declared.resource


def _build_constraints(declared: Declaration) -> JSONObject:
    resources = [name_resource(declared)]
    rule = write_rule(declared.group, declared.version, resources, declared.operations, declared.scope)
    constraints: JSONObject = {"resourceRules": [rule]}
    if declared.namespace_selector:
        constraints["namespaceSelector"] = declared.namespace_selector
    if declared.object_selector:
        constraints["objectSelector"] = declared.object_selector
    return constraints
