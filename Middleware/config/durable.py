"""Limits of durable conversations: ``durable`` of a user file."""

from pydantic import Field

from Middleware.config.loose import Settings, Whole


class Durable(Settings):
    """How durable conversations are worked on and kept. Those of the first user count, for the
    whole process, and are read when it starts."""

    max_payload_bytes: Whole = Field(256 * 1024, ge=1)
    """Of the arguments of one signal; larger ones are refused with 413."""
    max_unapplied_signals: Whole = Field(1000, ge=1)
    """Of one conversation; further ones are refused with 429."""
    max_waiting_readers: Whole = Field(200, ge=0)
    """Requests that may wait for news of conversations at once; status polling always gets
    through."""
    response_wait_seconds: float = Field(600.0, gt=0)
    """How long a chat or a response waits for its turn; then it is 504, and the turn goes on."""
    turns_at_once: Whole = Field(32, ge=1, le=64)
    """Turns that one process works on at once; the others wait in order."""
    model_max_attempts: Whole = Field(3, ge=1)
    """How often a failing model call or action is tried before the turn ends as failed."""
    retry_pause_seconds: float = Field(1.0, ge=0)
    """Before the second attempt; each further pause is twice as long, up to a minute."""
    task_max_failures: Whole = Field(20, ge=1)
    """Failures in a row of a conversation's own logic after which it ends as ``failed``."""
    lease_seconds: float = Field(30.0, ge=1)
    """Silence after which others take over what a process was doing. The same for all processes,
    and longer than the longest freeze to be tolerated."""
    repair_every_seconds: float = Field(5.0, gt=0)
    """Between two repair passes of all processes together."""
    redispatch_after_seconds: float = Field(3.0, gt=0)
    """How long a task may wait for a worker before the repair pass looks at it."""
    repair_scan_limit: Whole = Field(25, ge=1)
    """Tasks that one repair pass looks at."""
    failure_backoff_max_seconds: float = Field(60.0, ge=1)
    """The longest pause before a task that keeps failing is handed on again."""
    keep_replies_days: float | None = Field(None, ge=0)
    """Older replies are removed; the history stays readable. Absent: never."""
    keep_conversations_days: float | None = Field(None, ge=0)
    """Conversations that ended longer ago are removed with all they had. Absent: never."""
