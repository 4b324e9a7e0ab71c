"""Activations run once more from their journal and their events: nothing is sent, nothing is written."""

from __future__ import annotations

from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any, Literal, TypeAlias

from beam_agents import attributes as names
from beam_agents.activation.agent import Agent
from beam_agents.activation.config import AgentConfig
from beam_agents.activation.loop import ActivationLoop
from beam_agents.activation.recorded import Lookup, NotInJournalError, RecordedJournal, Source
from beam_agents.activation.resources import ModelAccess, Resources
from beam_agents.activation.run import Activation, Outcome, run_activation
from beam_agents.activation.staging import Position, Scope
from beam_agents.journals import JournalReader, JournalRecord, RecordFilter
from beam_agents.model import RetryPolicy
from beam_agents.ports import Decode
from beam_agents.proto import TraceEvent
from beam_agents.values import DecodedResponse, LlmRequest, LlmResponse, TokenUsage

__all__ = ["Replay", "ReplayedCall", "Story", "Verdict", "replay"]

Verdict: TypeAlias = Literal["reproduced", "diverged", "not_in_journal"]
"""Whether an activation took the way that the journal knows."""

_ONCE = RetryPolicy(max_attempts=1, base_ms=0, max_ms=0)


@dataclass(frozen=True, slots=True)
class Story:
    """What is run again: the events of one key, from its first to the one that is asked about.

    The earlier ones are run for the state that they leave behind.
    """

    agent: Agent
    entity_key: bytes
    events: tuple[Any, ...]
    scope: str = ""


@dataclass(frozen=True, slots=True)
class ReplayedCall:
    """One model call or step of a replay.

    Attributes:
        step_index: its place in the activation, from 0.
        kind: `call` or `step`.
        call_id: its id; empty where the request had none.
        model_id: the model that it asks.
        source: where its end came from; `activation` for an answer that the activation already had.
        record: the journal's record behind `source`.
        changed: parts of the request that differ from what the journal knows there.
        usage: tokens of the answer, when known.
        text: the answer's text, or a step's result, or `None`.
    """

    step_index: int
    kind: Literal["call", "step"]
    call_id: str
    model_id: str
    source: Source | Literal["activation"]
    record: JournalRecord | None = None
    changed: tuple[str, ...] = ()
    usage: TokenUsage | None = None
    text: str | None = None

    @property
    def text_digest(self) -> str | None:
        """The sha256 of the text, or `None` where there is none."""
        return None if self.text is None else sha256(self.text.encode("utf-8", "surrogatepass")).hexdigest()


@dataclass(frozen=True, slots=True)
class Replay:
    """One activation, run once more.

    Attributes:
        position: where it stood.
        calls: what it asked, in order.
        unmade: records of calls that the journal knows and this run did not make.
        outcome: what the activation came to.
    """

    position: Position
    calls: tuple[ReplayedCall, ...]
    unmade: tuple[JournalRecord, ...]
    outcome: Outcome

    @property
    def deviation(self) -> ReplayedCall | None:
        """The first call that is not as the journal knows it."""
        return next((call for call in self.calls if call.source in ("stand_in", "diverged", "missing")), None)

    @property
    def broken_off_at(self) -> ReplayedCall | None:
        """The first call that got no end at all."""
        return next((call for call in self.calls if call.source in ("diverged", "missing")), None)

    @property
    def verdict(self) -> Verdict:
        """Whether it took the way that the journal knows."""
        deviation = self.deviation
        if deviation is not None:
            return "not_in_journal" if deviation.source == "missing" else "diverged"
        if self.unmade:
            return "diverged"
        return "reproduced" if self.calls else "not_in_journal"


async def replay(
    story: Story,
    config: AgentConfig,
    reader: JournalReader,
    loop: ActivationLoop,
    *,
    what_if: AgentConfig | None = None,
) -> tuple[Replay, ...]:
    """Run the events of a story once more, in order, from what `reader` knows. On the loop's own thread.

    The earlier events, and with `what_if` the last one under that configuration, go on where they diverge: such a
    model call gets the answer that the journal knows at its step, as a stand-in.

    Raises:
        JournalError: when the journal cannot be read.
    """
    recorded: dict[int, list[JournalRecord]] = {}
    async for record in reader.records(RecordFilter(scope=story.scope, entity_key=story.entity_key), answers=True):
        recorded.setdefault(record.call.seq, []).append(record)
    state, replays = b"", []
    for seq, event in enumerate(story.events):
        is_last = seq == len(story.events) - 1
        journal = RecordedJournal(recorded.get(seq, ()), stand_ins=not is_last or what_if is not None)
        used = what_if if is_last and what_if is not None else config
        resources = _OfflineResources(used, loop, journal, original=config)
        position = Position(Scope(story.scope), story.entity_key, seq)
        outcome = await run_activation(Activation(story.agent, event, position, state), resources)
        replays.append(_told(position, journal, resources, outcome))
        state = outcome.state
    return tuple(replays)


class _OfflineResources(Resources):
    """The resources of a replay: the recorded journal, a clock that stands still, and clients that refuse."""

    def __init__(
        self, config: AgentConfig, loop: ActivationLoop, journal: RecordedJournal, *, original: AgentConfig
    ) -> None:
        offline = replace(
            config,
            journal=None,
            retry_policy=_ONCE,
            on_divergence="strict",
            on_in_doubt="repay",
            on_open="dead_letter",
            on_error="raise",
        )
        began_ms = min((record.began_ms for record in journal.records), default=loop.now_ms())
        super().__init__(offline, loop, now_ms=lambda: began_ms)
        self._recorded = journal
        self._original = None if original is config else Resources(original, loop)
        self._refusing: dict[int, ModelAccess] = {}
        self.texts: dict[bytes, str | None] = {}

    @property
    def journal(self) -> RecordedJournal:
        """What was recorded at the position."""
        return self._recorded

    def model(self, name: str | None = None) -> ModelAccess:
        """See `Resources.model`; its client refuses to call."""
        access = super().model(name)
        found = self._refusing.get(id(access))
        if found is None:
            found = replace(access, client=_RefusingClient(access.client), decode=self._noting(access.decode))
            self._refusing[id(access)] = found
        return found

    def _noting(self, decode: Decode) -> Decode:
        def noted(response: bytes) -> DecodedResponse:
            digest = sha256(response).digest()
            borrowed = self._original is not None and digest in self._recorded.borrowed
            reads = self._original.model().decode if borrowed and self._original is not None else decode
            decoded = reads(response)
            self.texts[digest] = decoded.text
            return decoded

        return noted


class _RefusingClient:
    """Stands for a client in the trace, and never sends anything."""

    def __init__(self, client: object) -> None:
        self.provider_name = getattr(client, "provider_name", None)
        self.endpoint = getattr(client, "endpoint", None)

    async def complete(self, request: LlmRequest) -> LlmResponse:
        raise NotInJournalError(f"a replay does not ask {request.model_id}")


def _told(position: Position, journal: RecordedJournal, resources: _OfflineResources, outcome: Outcome) -> Replay:
    found = {step: _call(lookup, resources) for (_, step), lookup in journal.lookups.items()}
    letter = outcome.dead_letter
    for event in outcome.trace_events if letter is None else letter.trace_events:
        if event.event_type == TraceEvent.LLM_CALL and event.step_index not in found:
            found[event.step_index] = _repeated(event)
    calls = tuple(found[step] for step in sorted(found))
    return Replay(position, calls, _unmade(journal), outcome)


def _call(lookup: Lookup, resources: _OfflineResources) -> ReplayedCall:
    call, record = lookup.call, lookup.record
    text = None
    if record is not None and record.response is not None and lookup.source in ("journal", "stand_in"):
        if call.kind == "step":
            text = record.response.decode("utf-8", "replace")
        else:
            text = resources.texts.get(sha256(record.response).digest())
    usage = record.usage if record is not None and lookup.source in ("journal", "stand_in") else None
    return ReplayedCall(
        call.step_index, call.kind, call.call_id, call.model_id, lookup.source, record, lookup.changed, usage, text
    )


def _repeated(event: TraceEvent) -> ReplayedCall:
    """A call that did not get as far as the journal: the activation had its answer, or it could not be asked."""
    said = event.attributes
    return ReplayedCall(
        event.step_index,
        "call",
        said.get(names.CALL_ID, ""),
        said.get(names.GEN_AI_REQUEST_MODEL, ""),
        "activation",
    )


def _unmade(journal: RecordedJournal) -> tuple[JournalRecord, ...]:
    """Records of steps that were not taken. Those older than what was found are of an earlier version of the agent."""
    found = [one.record for one in journal.lookups.values() if one.record is not None]
    since_ms = max((record.began_ms for record in found), default=0)
    taken = set(journal.lookups)
    steps: dict[tuple[str, int], JournalRecord] = {}
    for record in journal.records:
        step = (record.call.kind, record.call.step_index)
        if step not in taken and record.began_ms >= since_ms:
            steps.setdefault(step, record)
    return tuple(sorted(steps.values(), key=lambda record: record.call.step_index))
