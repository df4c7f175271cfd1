"""Admission rules in Python: decorated functions that validate or change the objects of a cluster.

To write a rule, put it into a file and pass it to ``fleethook serve --rules FILE``::

    from fleethook.admission import Denied, validate

    @validate("apps/v1", "Deployment")
    def needs_owner(request):
        if "owner" not in request.labels:
            raise Denied("label `owner` is missing", field="metadata.labels")
"""

from fleethook.admission.attribute_access_and_json import Members
from fleethook.admission.decorators_and_files import mutate, validate
from fleethook.admission.refusals_and_warnings import Denied
from fleethook.admission.request_parameter import Request
from fleethook.admission.rule_in_tests import Review, Rule
from fleethook.admission.rule_scope_and_options import RuleError
from fleethook.admission.store_parameter import Objects

__all__ = ["Denied", "Members", "Objects", "Request", "Review", "Rule", "RuleError", "mutate", "validate"]
