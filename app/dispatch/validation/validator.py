"""Reviews webhook configurations without blocking the event loop: one may have thousands of conditions."""

from collections.abc import Mapping
from functools import partial
from typing import Final

from app.control.slices import Pauses
from app.control.turns import Executor, Turns
from app.dispatch.cel import ExpressionError, compile_condition
from app.dispatch.cel.compiler import Compiler, Rejected, compile_here, is_short
from app.dispatch.validation.admission import validate_configuration
from app.dispatch.validation.match_conditions import list_expressions
from app.model.admission import AdmissionRequest, Response
from app.model.json import JSON, as_object
from app.model.kcp import cluster_of
from app.model.size import count_values

# The largest configuration, in values, that is validated on the event loop: about fifty webhooks.
_SMALL: Final = 2_000
# Characters of short expressions that are compiled before other requests get a turn: about 3 ms.
_SLICE: Final = 1_000


class ConfigurationValidator:
    """Reviews webhook configurations, as `validate_configuration` does."""

    def __init__(self, compiler: Compiler, *, worker: Executor, turns: Turns) -> None:
        """Initialize the validator.

        Args:
            compiler: Compiles long expressions.
            worker: Executor the validation of large configurations in a thread.
            turns: Schedules long work of clusters fairly on the event loop.
        """
        self._compiler: Final = compiler
        self._worker: Final = worker
        self._turns: Final = turns

    async def review(self, request: AdmissionRequest) -> Response:
        """Review a configuration; raises msgspec.DecodeError."""
        document = request.object
        cluster = cluster_of(document) if isinstance(as_object(document).get("metadata"), dict) else ""
        known = await self._compile_new(document, _list_all_expressions(request.old_object), cluster)

        def compile_expression(expression: str) -> None:
            # The validation strips expressions.
            error = known[expression] if expression in known else _find_error(expression)
            if error is not None:
                raise error

        if count_values(document, limit=_SMALL) <= _SMALL:
            return validate_configuration(request, compile_expression=compile_expression)
        return await self._worker.run(
            cluster, partial(validate_configuration, request, compile_expression=compile_expression)
        )

    async def _compile_new(
        self, document: JSON, stored: frozenset[str], cluster: str
    ) -> Mapping[str, ExpressionError | None]:
        """Compile the expressions that the stored configuration does not have; return their errors."""
        found: dict[str, ExpressionError | None] = {}
        pauses = Pauses(_SLICE)
        for expression in {one.strip() for one in _list_all_expressions(document)} - stored:
            if is_short(expression):
                compiled = compile_here(expression)
                if pauses.due(100 + len(expression)):
                    await self._turns.pause(cluster)
            else:
                compiled = await self._compiler.compile(expression, cluster=cluster)
            found[expression] = compiled.error if isinstance(compiled, Rejected) else None
        return found


def _list_all_expressions(document: JSON) -> frozenset[str]:
    webhooks = as_object(document).get("webhooks")
    listed = webhooks if isinstance(webhooks, list) else ()
    found = (list_expressions(as_object(one).get("matchConditions")) for one in listed)
    return frozenset(expression for expressions in found for expression in expressions)


def _find_error(expression: str) -> ExpressionError | None:
    try:
        compile_condition(expression)
    except ExpressionError as error:
        return error
    return None
