"""What agents over a stream put out, and how it is parted into streams."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import orjson
from pyflink.common import Row, TypeInformation, Types
from pyflink.datastream import DataStream, OutputTag, ProcessFunction

from beam_agents.activation import DeadLetter, Outcome
from beam_agents.flink.types import BYTES

__all__ = ["AgentStreams", "Parting", "Tags", "letter_row", "row_type", "rows_of"]


def row_type(output: TypeInformation, *further: TypeInformation) -> TypeInformation:
    """Of what leaves an operator of agents: whether it has an output, the output, traces, a dead letter, `further`."""
    return Types.ROW([Types.BOOLEAN(), output, Types.LIST(BYTES()), Types.STRING(), *further])


def rows_of(outcome: Outcome, *further: Any) -> list[Row]:
    """What an activation came to. Everything in one row where it can be: each costs much on its way."""
    if outcome.dead_letter is not None:
        return [letter_row(outcome.dead_letter, *further)]
    traces = list(outcome.traces)
    if not outcome.outputs:
        return [Row(False, None, traces, None, *further)]
    first, *others = outcome.outputs
    return [Row(True, first, traces, None, *further), *(Row(True, one, None, None, *further) for one in others)]


def letter_row(letter: DeadLetter, *further: Any) -> Row:
    """A dead letter."""
    return Row(False, None, None, orjson.dumps(letter.to_json()).decode(), *further)


@dataclass(frozen=True, slots=True)
class Tags:
    """Where traces and dead letters go."""

    traces: OutputTag
    errors: OutputTag

    @classmethod
    def of_agents(cls) -> Tags:
        """With the types that they have."""
        return cls(OutputTag("beam_agents.traces", BYTES()), OutputTag("beam_agents.errors", Types.STRING()))


class Parting(ProcessFunction):  # type: ignore[misc]
    """Parts the rows into outputs, traces and dead letters."""

    def __init__(self, tags: Tags) -> None:
        self._tags = tags

    def process_element(self, value: Row, ctx: ProcessFunction.Context) -> Iterator[Any]:
        """Called by Flink."""
        del ctx
        has_output, output, traces, letter = value[0], value[1], value[2], value[3]
        if has_output:
            yield output
        for data in traces or ():
            yield self._tags.traces, data
        if letter is not None:
            yield self._tags.errors, letter


class AgentStreams:
    """What agents over a stream put out. Unpacking it asks for all three.

    Attributes:
        main: what the agents emitted, at the times of their events.
        errors: a dead letter for each activation that failed, as JSON text for `DeadLetter.from_json`. Always a
            stage of the job: PyFlink parts nothing where no side output is asked for.
    """

    def __init__(self, main: DataStream, tags: Tags) -> None:
        self.main = main
        self.errors: DataStream = main.get_side_output(tags.errors)
        self._tags = tags

    @cached_property
    def traces(self) -> DataStream:
        """The bytes of a `TraceEvent` for each activation and for each call of a committed activation.

        In the job only if it is asked for: it is a stage of its own in Python.
        """
        return self.main.get_side_output(self._tags.traces)

    def __iter__(self) -> Iterator[DataStream]:
        return iter((self.main, self.traces, self.errors))
