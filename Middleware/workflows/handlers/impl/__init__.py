"""Importing this package registers every node type. A new one adds one line here."""

from Middleware.workflows.handlers.impl import agent_handler as agent_handler
from Middleware.workflows.handlers.impl import (
    arithmetic_processor_handler as arithmetic_processor_handler,
)
from Middleware.workflows.handlers.impl import branching_handler as branching_handler
from Middleware.workflows.handlers.impl import conditional_handler as conditional_handler
from Middleware.workflows.handlers.impl import (
    context_compactor_handler as context_compactor_handler,
)
from Middleware.workflows.handlers.impl import curl_command_handler as curl_command_handler
from Middleware.workflows.handlers.impl import (
    delimited_chunker_handler as delimited_chunker_handler,
)
from Middleware.workflows.handlers.impl import get_custom_file_handler as get_custom_file_handler
from Middleware.workflows.handlers.impl import image_processor_handler as image_processor_handler
from Middleware.workflows.handlers.impl import json_extractor_handler as json_extractor_handler
from Middleware.workflows.handlers.impl import keyword_search_handler as keyword_search_handler
from Middleware.workflows.handlers.impl import mcp_tool_call_handler as mcp_tool_call_handler
from Middleware.workflows.handlers.impl import (
    offline_researcher_handler as offline_researcher_handler,
)
from Middleware.workflows.handlers.impl import (
    offline_wikipedia_handler as offline_wikipedia_handler,
)
from Middleware.workflows.handlers.impl import parallel_handler as parallel_handler
from Middleware.workflows.handlers.impl import python_code_handler as python_code_handler
from Middleware.workflows.handlers.impl import python_module_handler as python_module_handler
from Middleware.workflows.handlers.impl import save_custom_file_handler as save_custom_file_handler
from Middleware.workflows.handlers.impl import (
    slow_but_quality_rag_handler as slow_but_quality_rag_handler,
)
from Middleware.workflows.handlers.impl import standard_handler as standard_handler
from Middleware.workflows.handlers.impl import start_handler as start_handler
from Middleware.workflows.handlers.impl import static_response_handler as static_response_handler
from Middleware.workflows.handlers.impl import (
    string_concatenator_handler as string_concatenator_handler,
)
from Middleware.workflows.handlers.impl import sub_workflow_handler as sub_workflow_handler
from Middleware.workflows.handlers.impl import (
    tag_text_extractor_handler as tag_text_extractor_handler,
)
from Middleware.workflows.handlers.impl import web_fetch_handler as web_fetch_handler
from Middleware.workflows.handlers.impl import workflow_lock_handler as workflow_lock_handler
