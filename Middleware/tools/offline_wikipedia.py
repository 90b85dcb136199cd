"""Articles of an offline Wikipedia server (nodes §16)."""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from Middleware.core.cancellation import CancelToken
from Middleware.tools.json_service import JsonService, ServiceFailed

logger = logging.getLogger(__name__)

OFF: Final = "No additional information provided"
_OFF_TITLE: Final = "Offline Wikipedia is turned off"


@dataclass(frozen=True, slots=True)
class Article:
    title: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Wikipedia:
    """``service`` None: the user has not turned it on."""

    service: JsonService | None

    def full_article(self, query: str, cancel: CancelToken) -> str:
        asked = {"prompt": query, "percentile": 0.5, "num_results": 1}
        return self._text("articles", asked, lambda found: found[0]["text"], cancel)

    def best_full_article(self, query: str, cancel: CancelToken) -> str:
        asked = {"prompt": query, "percentile": 0.5, "num_results": 10}
        return self._text("top_article", asked, lambda found: found["text"], cancel)

    def top_articles(
        self, query: str, percentile: float, results: int, articles: int, cancel: CancelToken
    ) -> str:
        """``articles`` below 0: so many, the least relevant first."""
        asked = {
            "prompt": query,
            "percentile": percentile,
            "num_results": results,
            "num_top_articles": articles,
        }
        end = "--- END ARTICLE ---"
        return self._text("top_n_articles", asked, lambda found: _listed(found, end), cancel)

    def summaries(self, query: str, percentile: float, results: int, cancel: CancelToken) -> str:
        if self.service is None:
            return _shown([Article(_OFF_TITLE, OFF)], "")
        asked = {"prompt": query, "percentile": percentile, "num_results": results}
        end = "--- END SUMMARY ---"
        return self._text("summaries", asked, lambda found: _listed(found, end), cancel)

    def _text(
        self, path: str, asked: dict[str, Any], read: Callable[[Any], Any], cancel: CancelToken
    ) -> str:
        """The output, whatever happens: a failure is a text that says so."""
        if self.service is None:
            return OFF
        query = asked["prompt"]
        try:
            text = read(self.service.get(path, asked, cancel))
        except ServiceFailed as error:
            if error.status == 404:
                return _not_found(query)
            logger.warning("offline Wikipedia: %s", error.reason)
            return _sorry(query)
        except (LookupError, TypeError, AttributeError):
            logger.warning("offline Wikipedia: the answer of /%s is not as it should be", path)
            return _sorry(query)
        return str(text) if text else _not_found(query)


def _listed(found: Any, end: str) -> str:
    return _shown([Article(str(one["title"]), str(one["text"])) for one in found], end)


def _shown(articles: list[Article], end: str) -> str:
    return f"\n\n{end}\n\n".join(f"Title: {one.title}\n{one.text}" for one in articles)


def _not_found(query: str) -> str:
    return f"No article was found in the offline Wikipedia for: {query}"


def _sorry(query: str) -> str:
    return f"Sorry, the offline Wikipedia could not be asked about: {query}"
