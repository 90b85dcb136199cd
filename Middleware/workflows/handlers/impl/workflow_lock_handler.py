"""WorkflowLock (nodes §20, workflow-engine §7, memory-and-state §17)."""

import logging
from typing import Final

from pydantic import Field

from Middleware.config.models import Text
from Middleware.core.errors import WorkflowError
from Middleware.storage.encryption import key_hash
from Middleware.workflows.handlers.base.node_handler import NodeHandler, node_type, options_of
from Middleware.workflows.handlers.base.node_options import NodeOptions
from Middleware.workflows.models.early_end import RunEndsEarly
from Middleware.workflows.models.execution_context import ExecutionContext
from Middleware.workflows.models.workflow_context import WorkflowPayload

logger = logging.getLogger(__name__)

NOTICE: Final = (
    "This is being worked on already by an earlier request. Please try again in a moment."
)
"""What the client reads when a run ends at a lock before it has answered."""


class WorkflowLockOptions(NodeOptions):
    """Go on only if no other run holds this lock; otherwise the run ends here, quietly.

    The lock is held until the run of this workflow file ends, however it ends; one that is taken
    in a sub-workflow protects that sub-workflow only. An answer that was given before counts;
    without one the client gets a short notice. Put the node behind the responder, in front of
    work that must not overlap.
    """

    workflow_lock_id: Text = Field(min_length=1)
    """Name of the lock, as it stands here: variables are not filled in. Each user has locks of
    their own."""


@node_type("WorkflowLock", options=WorkflowLockOptions)
class WorkflowLockHandler(NodeHandler):
    guards_what_follows = True

    def handle(self, context: ExecutionContext) -> WorkflowPayload:
        options = options_of(context, WorkflowLockOptions)
        scope = context.request_scope
        if scope is None:
            raise WorkflowError("A lock can be taken inside of a request only.")
        name = options.workflow_lock_id
        if scope.api_key:
            # What belongs to a key is kept apart from all others (S52).
            name = f"{key_hash(scope.api_key)}:{name}"
        locks = scope.server.workflow_locks
        place = scope.server.lock_place(scope.config)
        run, request = context.workflow_id, scope.request_id
        if not locks.acquire(place, name, run=run, request=request):
            logger.info(
                "the lock %r is held by another run, so this one ends run=%s",
                options.workflow_lock_id,
                run,
            )
            raise RunEndsEarly(NOTICE)
        scope.at_end.add(lambda: locks.release(run))
        return WorkflowPayload()
