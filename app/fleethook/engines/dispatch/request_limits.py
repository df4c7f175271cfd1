"""Limits one request: calls of webhooks, and questions to the authorizer.

Kubernetes has no such limits, since one administrator writes all configurations of a cluster. Here each workspace
writes its own. A request beyond a limit is refused even with failurePolicy Ignore. Otherwise, an author of a large
request could switch off such webhooks.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Final, NamedTuple

from fleethook.cel.evaluation import AccessDecision, AccessQuestion
from fleethook.engines.dispatch.dispatch_errors import StatusError, forbidden
from fleethook.engines.dispatch.match.match_conditions import MAX_COST_OF_REQUEST
from fleethook.engines.dispatch.match.rules import Attributes

Questions = frozenset[AccessQuestion]
Decisions = Mapping[AccessQuestion, AccessDecision]


class RequestLimits(NamedTuple):
    """The limits of one request in one phase."""

    webhooks: int = 128
    """The maximum number of webhook calls; a reinvocation counts as a call."""
    access_reviews: int = 64
    """The maximum number of SubjectAccessReviews. An apiserver's cost budget allows 7 for each webhook."""
    cel_cost: int = MAX_COST_OF_REQUEST
    """The maximum cost of all matchConditions, in Kubernetes' units; a higher cost is an error."""


def too_many_webhooks(attributes: Attributes, limit: int) -> StatusError:
    """Return the refusal of a request that matches too many webhooks."""
    text = f"it matches more than {limit} webhooks, the limit of one request"
    return forbidden(attributes.resource_name, attributes.name, text)


class Authorizer:
    """Asks the authorizer for one request: each question once, up to a limit."""

    def __init__(
        self, ask: Callable[[str, Questions], Awaitable[Decisions]], attributes: Attributes, *, limit: int
    ) -> None:
        """Initialize the authorizer of a request.

        Args:
            ask: Asks the authorizer of a logical cluster.
            attributes: The request.
            limit: The maximum number of questions.
        """
        self._ask: Final = ask
        self._attributes: Final = attributes
        self._limit: Final = limit
        self._decisions: Final[dict[AccessQuestion, AccessDecision]] = {}

    async def __call__(self, questions: Questions) -> Decisions:
        """Return the decisions of the authorizer.

        Raises:
            StatusError: The request exceeds the limit; no question is asked.
        """
        new = questions - self._decisions.keys()
        if len(self._decisions) + len(new) > self._limit:
            text = (
                f"its matchConditions ask the authorizer more than {self._limit} questions, the limit of one request "
                "(setting dispatch_request_access_reviews)"
            )
            raise forbidden(self._attributes.resource_name, self._attributes.name, text)
        if new:
            self._decisions.update(await self._ask(self._attributes.cluster, new))
        return {question: self._decisions[question] for question in questions}
