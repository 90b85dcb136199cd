"""Importing this package registers every node type. A new one adds one line here."""

from Middleware.workflows.handlers.impl import agent_handler as agent_handler
from Middleware.workflows.handlers.impl import branching_handler as branching_handler
from Middleware.workflows.handlers.impl import parallel_handler as parallel_handler
from Middleware.workflows.handlers.impl import python_code_handler as python_code_handler
from Middleware.workflows.handlers.impl import standard_handler as standard_handler
from Middleware.workflows.handlers.impl import start_handler as start_handler
from Middleware.workflows.handlers.impl import static_response_handler as static_response_handler
from Middleware.workflows.handlers.impl import (
    string_concatenator_handler as string_concatenator_handler,
)
from Middleware.workflows.handlers.impl import sub_workflow_handler as sub_workflow_handler
