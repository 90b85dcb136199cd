"""The page at ``/`` for people who look what listens here."""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Final

from Middleware.config.problems import Problem

_SHOWN_PROBLEMS: Final = 5
_STYLE: Final = """
:root{color-scheme:light dark;--soft:#667;--line:#8884;--box:#8881;--good:#1a7f4b;--bad:#c0392b}
body{font:1rem/1.55 system-ui,sans-serif;max-width:46rem;margin:3rem auto;padding:0 1.25rem}
h1{margin:0;font-size:2rem}h1 small{font-size:1rem;font-weight:400;color:var(--soft)}
h2{margin:2.2rem 0 .6rem;font-size:1.15rem}
code{font:.92em ui-monospace,monospace}
pre{background:var(--box);border-radius:.4rem;padding:.8rem 1rem;overflow-x:auto;font-size:.95em}
table{border-collapse:collapse;width:100%}
td{border-top:1px solid var(--line);padding:.4rem .8rem .4rem 0;vertical-align:top}
ul.models{list-style:none;padding:0;display:flex;flex-wrap:wrap;gap:.5rem}
ul.models li{background:var(--box);border-radius:.4rem;padding:.15rem .6rem}
.good::before{content:"\\25CF\\00A0";color:var(--good)}
.bad::before{content:"\\25B2\\00A0";color:var(--bad)}
@media(prefers-color-scheme:dark){:root{--soft:#99a;--good:#4fc98a;--bad:#ff7b6b}
body{background:#14161a;color:#dde}a{color:#8bf}}
"""
_DOORS: Final = (
    ("Open WebUI, SillyTavern, Codex, the SDKs of OpenAI, most others", "v1"),
    ("programs that talk to Ollama", ""),
    ("Claude Code, the SDKs of Anthropic", ""),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class FrontPage:
    """What the page tells. A caller who would need a key and has none is told nothing of the
    inside: then ``version`` is empty, and so are the lists."""

    base: str
    """The address that the browser used, with a slash at its end."""
    stranger: bool = False
    version: str = ""
    models: Sequence[str] = ()
    problems: Sequence[Problem] = ()

    def html(self) -> str:
        version = f" <small>{escape(self.version)}</small>" if self.version else ""
        parts = [
            '<!doctype html><html lang="en"><meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width"><title>Headrace</title>',
            f"<style>{_STYLE}</style><h1>Headrace{version}</h1>",
            "<p>Workflows between chat programs and model servers: a program talks to a "
            "workflow as if it were a model.</p>",
            "<p class=good>The server is running. Without a key there is no more to see.</p>"
            if self.stranger
            else self._state(),
            self._addresses(),
            *(() if self.stranger else (self._models(), self._links())),
        ]
        return "\n".join([*parts, "</html>", ""])

    def _state(self) -> str:
        broken = [problem for problem in self.problems if problem.severity == "error"]
        if not broken:
            return "<p class=good>The server is running.</p>"
        shown = "".join(f"<li>{escape(str(problem))}" for problem in broken[:_SHOWN_PROBLEMS])
        return (
            f"<p class=bad>The server is running, but files have mistakes ({len(broken)}). What "
            f"was good before them is still in use.</p><ul>{shown}</ul>"
        )

    def _addresses(self) -> str:
        rows = "".join(
            f"<tr><td>{who}<td><code>{escape((self.base + path).rstrip('/'))}</code>"
            for who, path in _DOORS
        )
        key = "one that the owner of the server gave you" if self.stranger else "any text will do"
        return (
            f"<h2>What to type into your program</h2><table>{rows}<tr><td>API key<td>{key}</table>"
        )

    def _models(self) -> str:
        if not self.models:
            return (
                "<h2>Models</h2><p>There are none yet: make a folder in the workflows folder.</p>"
            )
        listed = "".join(f"<li><code>{escape(name)}</code>" for name in self.models)
        example = escape(self.models[0])
        return f"""<h2>Models: each is a workflow</h2><ul class=models>{listed}</ul>
<h2>Try it in a terminal</h2>
<pre><code>curl -N {escape(self.base)}v1/chat/completions -d '{{
  "model": "{example}", "stream": true,
  "messages": [{{"role": "user", "content": "Hello"}}]}}'</code></pre>"""

    def _links(self) -> str:
        return (
            '<p><a href="api/runs">What ran lately</a>, <a href="health">what is wrong with '
            'files</a>, <a href="v1/models">the models</a>, as JSON.</p>'
        )
