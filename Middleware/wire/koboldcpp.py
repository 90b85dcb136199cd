"""KoboldCpp's own interface, the backend's half (config-files §13.4)."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from Middleware.core.events import Event, Finish, Reply, TextDelta, Usage
from Middleware.wire.backend_errors import BackendVoice
from Middleware.wire.framing import SseEvent
from Middleware.wire.images import bare_base64
from Middleware.wire.model_call import ModelCall, as_texts, renamed
from Middleware.wire.openai_chat_stream import finish_reason
from Middleware.wire.payload_parser import PayloadParser, count_in, parse_body

PATH: Final = "/api/v1/generate"
STREAM_PATH: Final = "/api/extra/generate/stream"
ABORT_PATH: Final = "/api/extra/abort"

_NAMES: Final = {
    **{
        name: name
        for name in (
            *("temperature", "top_p", "top_k", "min_p", "presence_penalty", "frequency_penalty"),
            *("dynatemp_range", "dynatemp_exponent", "dry_multiplier", "dry_base"),
            *("dry_allowed_length", "dry_sequence_breakers", "dry_penalty_last_n"),
            *("xtc_probability", "xtc_threshold", "mirostat", "mirostat_tau", "mirostat_eta"),
        )
    },
    "typical_p": "typical",
    "top_n_sigma": "nsigma",
    "repeat_penalty": "rep_pen",
    "repeat_last_n": "rep_pen_range",
    "seed": "sampler_seed",
    "stop": "stop_sequence",
    "max_tokens": "max_length",
    "max_completion_tokens": "max_length",
}
ACCEPTS: Final = frozenset(_NAMES)
"""Fields of a client's request that KoboldCpp understands, under OpenAI's names."""


def encode_request(call: ModelCall) -> dict[str, Any]:
    """The body for :data:`PATH` and :data:`STREAM_PATH`; the server has one model, so none is
    named. Images come from messages only. Raises RequestError for one that is only an address.
    """
    body: dict[str, Any] = {"prompt": call.prompt, **call.parameters}
    body.pop("images", None)
    body |= renamed(call.client_parameters, _NAMES)
    if "stop" in call.client_parameters:
        body["stop_sequence"] = as_texts(call.client_parameters["stop"])
    if call.images:
        body["images"] = [bare_base64(image) for image in call.images]
    return body


class StreamParser(PayloadParser):
    """Makes events of the events of one stream; only those named ``message`` count.

    Newer servers say in every chunk whether and why the answer ends there. Of older ones, the
    end of the body is all there is.
    """

    def __init__(self, voice: BackendVoice) -> None:
        super().__init__(voice)
        self._reason: str | None = None
        self._tells_reasons = False

    @property
    def complete(self) -> bool:
        return self._reason is not None or (self.heard and not self._tells_reasons)

    def feed_event(self, event: SseEvent) -> list[Event]:
        """Raises BackendRejected when the event reports an error."""
        return self.feed(event.data) if event.name == "message" else []

    def take(self, said: Mapping[str, Any]) -> list[Event]:
        _raise_error_in(said, self.voice)
        if "finish_reason" in said:
            self._tells_reasons = True
            if said["finish_reason"]:
                self._reason = str(said["finish_reason"])
        token = said.get("token")
        return [TextDelta(token)] if isinstance(token, str) and token else []

    def last_events(self) -> list[Event]:
        return [Finish(finish_reason(self._reason, False))]


def parse_stream(events: Iterable[SseEvent], voice: BackendVoice) -> Iterator[Event]:
    """All events of a stream whose events are at hand."""
    parser = StreamParser(voice)
    for event in events:
        yield from parser.feed_event(event)
    yield from parser.finish()


def parse_reply(body: bytes, voice: BackendVoice) -> Reply:
    """An answer that came whole; raises BackendRejected and BackendBadReply."""
    whole = parse_body(body, voice)
    _raise_error_in(whole, voice)
    results = whole.get("results")
    result = results[0] if isinstance(results, list) and results else None
    if not isinstance(result, Mapping) or not isinstance(result.get("text"), str):
        raise voice.nonsense("sent an answer without a text.", body)
    said = result.get("finish_reason")
    return Reply(
        text=result["text"],
        finish_reason=finish_reason(str(said) if said else None, False),
        usage=_usage(result),
    )


def _usage(result: Mapping[str, Any]) -> Usage | None:
    prompt, completion = count_in(result, "prompt_tokens"), count_in(result, "completion_tokens")
    if prompt is None and completion is None:
        return None
    return Usage(prompt_tokens=prompt or 0, completion_tokens=completion or 0)


def _raise_error_in(said: Mapping[str, Any], voice: BackendVoice) -> None:
    error = said.get("error") or said.get("detail")
    if error:
        raise voice.reported(error)
