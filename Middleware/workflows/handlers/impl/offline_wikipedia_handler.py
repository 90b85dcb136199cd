"""The offline Wikipedia nodes (nodes §16)."""

from typing import Final

from pydantic import AliasChoices, Field

from Middleware.config.models import Text
from Middleware.core.cancellation import CancelToken
from Middleware.core.errors import WorkflowError
from Middleware.tools.json_service import JsonService
from Middleware.tools.offline_wikipedia import Wikipedia
from Middleware.workflows.handlers.base.node_handler import NodeHandler, node_type, options_of
from Middleware.workflows.handlers.base.node_options import IntOrTemplate, NodeOptions
from Middleware.workflows.handlers.base.option_types import FractionOrTemplate
from Middleware.workflows.models.execution_context import ExecutionContext
from Middleware.workflows.models.workflow_context import WorkflowPayload

_SECONDS: Final = 60.0


class _WikiOptions(NodeOptions):
    """What all of them share. The server is the one of the user's file (`useOfflineWikiApi`)."""

    prompt_to_search: Text = Field(min_length=1)
    """What to look for."""


class FullArticleOptions(_WikiOptions):
    """Give the text of the article that an offline Wikipedia finds first."""


class BestFullArticleOptions(_WikiOptions):
    """Give the text of the article that an offline Wikipedia thinks best."""


class PartialArticleOptions(_WikiOptions):
    """Give the beginnings of the articles that an offline Wikipedia finds."""

    percentile: FractionOrTemplate = 0.5
    """How well an article must fit, from 0 to 1."""
    num_results: IntOrTemplate = Field(
        1, validation_alias=AliasChoices("num_results", "numResults")
    )
    """How many articles are found at most."""


class TopNFullArticlesOptions(_WikiOptions):
    """Give the texts of the articles that an offline Wikipedia thinks best."""

    percentile: FractionOrTemplate = 0.5
    """How well an article must fit, from 0 to 1."""
    num_results: IntOrTemplate = Field(
        10, validation_alias=AliasChoices("num_results", "numResults")
    )
    """How many articles the best are chosen from."""
    top_n_articles: IntOrTemplate = Field(
        3, validation_alias=AliasChoices("top_n_articles", "topNArticles")
    )
    """How many are given; below 0 the least relevant comes first."""


class _WikiHandler(NodeHandler):
    has_side_effects = False


@node_type("OfflineWikiApiFullArticle", options=FullArticleOptions)
class FullArticleHandler(_WikiHandler):
    def handle(self, context: ExecutionContext) -> WorkflowPayload:
        query = _query(context, options_of(context, FullArticleOptions))
        return WorkflowPayload.of(_wikipedia(context).full_article(query, _cancel(context)))


@node_type("OfflineWikiApiBestFullArticle", options=BestFullArticleOptions)
class BestFullArticleHandler(_WikiHandler):
    def handle(self, context: ExecutionContext) -> WorkflowPayload:
        query = _query(context, options_of(context, BestFullArticleOptions))
        return WorkflowPayload.of(_wikipedia(context).best_full_article(query, _cancel(context)))


@node_type("OfflineWikiApiTopNFullArticles", options=TopNFullArticlesOptions)
class TopNFullArticlesHandler(_WikiHandler):
    def handle(self, context: ExecutionContext) -> WorkflowPayload:
        options = options_of(context, TopNFullArticlesOptions)
        text = _wikipedia(context).top_articles(
            _query(context, options),
            _number(options.percentile, 0.5),
            int(_number(options.num_results, 10)),
            int(_number(options.top_n_articles, 3)),
            _cancel(context),
        )
        return WorkflowPayload.of(text)


@node_type("OfflineWikiApiPartialArticle", options=PartialArticleOptions)
class PartialArticleHandler(_WikiHandler):
    def handle(self, context: ExecutionContext) -> WorkflowPayload:
        options = options_of(context, PartialArticleOptions)
        text = _wikipedia(context).summaries(
            _query(context, options),
            _number(options.percentile, 0.5),
            int(_number(options.num_results, 1)),
            _cancel(context),
        )
        return WorkflowPayload.of(text)


def _query(context: ExecutionContext, options: _WikiOptions) -> str:
    return context.render(options.prompt_to_search)


def _wikipedia(context: ExecutionContext) -> Wikipedia:
    if context.request_scope is None:
        raise WorkflowError("The offline Wikipedia can be asked inside of a request only.")
    user = context.request_scope.config.user
    if not user.use_offline_wiki_api:
        return Wikipedia(service=None)
    host, port = user.offline_wiki_api_host, user.offline_wiki_api_port
    return Wikipedia(service=JsonService(host=host, port=port, seconds=_SECONDS))


def _cancel(context: ExecutionContext) -> CancelToken:
    return context.request_scope.cancel if context.request_scope else CancelToken()


def _number(value: float | int | str | None, instead: float) -> float:
    """What is no number by now is not one that a variable could still fill (variables §6)."""
    return instead if value is None or isinstance(value, str) else value
