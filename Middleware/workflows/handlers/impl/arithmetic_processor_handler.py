"""ArithmeticProcessor (nodes §6)."""

import logging
import operator
import re
from collections.abc import Callable, Mapping
from typing import Final

from Middleware.config.models import Text
from Middleware.workflows.handlers.base.node_handler import NodeHandler, node_type, options_of
from Middleware.workflows.handlers.base.node_options import NodeOptions
from Middleware.workflows.models.execution_context import ExecutionContext
from Middleware.workflows.models.workflow_context import WorkflowPayload

logger = logging.getLogger(__name__)

_EXPRESSION = re.compile(r"(-?\d+(?:\.\d+)?)\s*([+\-*/])\s*(-?\d+(?:\.\d+)?)")
_OPERATIONS: Final[Mapping[str, Callable[[float, float], float]]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
}
FAILED: Final = "-1"
"""What workflows compare with to see that there was nothing to calculate."""


class ArithmeticProcessorOptions(NodeOptions):
    """Calculate with two numbers: ``{agent1Output} + 1``.

    One of ``+ - * /`` between two numbers such as ``3`` or ``-0.5``. A whole result is written
    without decimals. Everything else, and a division by zero, gives ``-1``.
    """

    expression: Text = ""
    """Exactly a number, a sign and a number; white space does not count."""


@node_type("ArithmeticProcessor", options=ArithmeticProcessorOptions)
class ArithmeticProcessorHandler(NodeHandler):
    has_side_effects = False

    def handle(self, context: ExecutionContext) -> WorkflowPayload:
        options = options_of(context, ArithmeticProcessorOptions)
        return WorkflowPayload.of(calculate(context.render(options.expression)))


def calculate(expression: str) -> str:
    found = _EXPRESSION.fullmatch(expression.strip())
    if found is None:
        logger.warning("ArithmeticProcessor: there is no calculation of two numbers; it gives -1")
        return FAILED
    left, sign, right = found.groups()
    try:
        result = _OPERATIONS[sign](float(left), float(right))
    except ZeroDivisionError:
        logger.warning("ArithmeticProcessor: a division by zero gives -1")
        return FAILED
    return str(int(result)) if result.is_integer() else str(result)
