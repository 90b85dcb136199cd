"""Approved actions: a workflow, a request to another program, or nothing but the record."""

import json

from Middleware.conversations.model import RunWorkflow, TurnRun
from Middleware.conversations.models import ActionCall
from Middleware.conversations.profiles import HttpCall, Profile
from Middleware.core.cancellation import CancelToken
from Middleware.core.errors import ConfigError, MiddlewareError
from Middleware.core.events import collect
from Middleware.core.messages import Message
from Middleware.tools.json_call import CallFailed, JsonCaller

TIMEOUT_SECONDS = 60.0


class ActionFailed(MiddlewareError):
    """The other side refused, or did not answer."""

    status = 502
    code = "action_failed"


class ProfileActions:
    """Carries out what the profile's file says. Every attempt of one approval shows the other
    side the same key, so that one which honours it acts once (FAIL-6).
    """

    def __init__(self, run: RunWorkflow | None = None) -> None:
        self._run = run
        self._caller = JsonCaller(timeout_seconds=TIMEOUT_SECONDS)

    def carry_out(self, call: ActionCall, profile: Profile, cancel: CancelToken) -> str | None:
        """See :class:`Middleware.conversations.activities.ActionRunner`."""
        rule = profile.actions.get(call.action.name)
        if rule is None:
            raise ConfigError(f"The profile has no action {call.action.name!r} any more.")
        if rule.http is not None:
            self._request(rule.http, call)
            return None
        if not rule.workflow:
            return None
        return self._workflow(rule.workflow, call, cancel)

    def _workflow(self, workflow: str, call: ActionCall, cancel: CancelToken) -> str | None:
        if self._run is None:
            raise ConfigError(f"There is nothing here that could run {workflow!r}.")
        arguments = json.dumps(dict(call.action.arguments), ensure_ascii=False)
        run = TurnRun(
            workflow=workflow,
            conversation_id=call.conversation_id,
            request_id=call.reference,
            messages=(Message("user", arguments),),
            inputs=(arguments, call.reference),
            variables={
                "conversation_id": call.conversation_id,
                "turn": call.turn,
                "attempt": call.attempt,
                "action": call.action.name,
                "arguments": dict(call.action.arguments),
                "idempotency_key": call.reference,
            },
        )
        return collect(self._run(run, cancel)).text or None

    def _request(self, http: HttpCall, call: ActionCall) -> None:
        body = {
            "conversation_id": call.conversation_id,
            "turn": call.turn,
            "action": call.action.name,
            "arguments": dict(call.action.arguments),
            "reference": call.reference,
        }
        key = {"Idempotency-Key": call.reference}
        try:
            answer = self._caller.call(http.method, http.url, body, key)
        except CallFailed as error:
            raise ActionFailed(
                f"The receiver of {call.action.name!r} cannot be reached.", detail=error.detail
            ) from error
        if not 200 <= answer.status < 300:
            raise ActionFailed(
                f"The receiver of {call.action.name!r} answered {answer.status}: {answer.text()}"
            )
