"""Who stands in for an endpoint that has failed (config-files §14)."""

import logging
from collections.abc import Callable

from Middleware.config.files import Snapshot
from Middleware.core.errors import BackendError, ConfigError
from Middleware.llm.failover import Backup, backup_of
from Middleware.workflows.models.execution_context import ExecutionContext

logger = logging.getLogger(__name__)


def nobody() -> Backup | None:
    return None


def stand_in(
    config: Snapshot, context: ExecutionContext | None, error: BaseException, tried: set[str]
) -> Callable[[], Backup | None]:
    """What finds it, when it is wanted. ``tried``: endpoints that failed before; it is added to.

    Only for a failure of the node's own endpoint: errors of workflows below it, which are located
    already, are those of other nodes.
    """
    plan = None if context is None else context.plan
    if plan is None or not isinstance(error, BackendError) or error.place is not None:
        return nobody
    endpoint, problem_of = plan.endpoint, error
    if getattr(error, "endpoint", None) != endpoint.name:
        return nobody

    def find() -> Backup | None:
        try:
            backup = backup_of(config, endpoint, tried)
        except ConfigError as problem:
            problem_of.text = f"{problem_of.text} Its backup cannot be used: {problem.text}"
            return None
        tried.add(endpoint.file)
        if backup is not None:
            logger.warning("%s Its backup %r takes over.", problem_of.text, backup.endpoint)
        return backup

    return find
