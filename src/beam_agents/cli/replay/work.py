"""`beam-agents replay`: opens the journal to read, runs the activation, says what came of it."""

from __future__ import annotations

from rich.console import Console

from beam_agents.activation.loop import ActivationLoop, activation_loop, close_activation_loop
from beam_agents.activation.replay import Replay, Story
from beam_agents.activation.replay import replay as replay_story
from beam_agents.cli.complaint import Complaint
from beam_agents.cli.replay.estimate import Estimate
from beam_agents.cli.replay.plan import ReplayOptions, ReplayPlan, chosen_namespace, make_plan
from beam_agents.cli.replay.show import replay_json, show_replay
from beam_agents.cli.replay.wording import EXIT_CODES
from beam_agents.cli.result_lines import json_line
from beam_agents.cli.run_plan import price_book
from beam_agents.errors import JournalError
from beam_agents.journals import JournalReader, RecordFilter, open_reader

__all__ = ["replay"]


def replay(options: ReplayOptions) -> int:
    """Run one activation again, offline; returns the exit code.

    Raises:
        Complaint: when the arguments will not do, or the journal cannot be read.
    """
    prices = price_book(options.prices)
    plan = make_plan(options)
    loop = activation_loop()
    try:
        replays = loop.run(_replayed(options, plan, loop))
    except JournalError as error:
        raise Complaint(str(error)) from error
    except ImportError as error:
        raise Complaint(f"the journal needs a package that is not installed: {error}") from error
    finally:
        close_activation_loop()
    if not replays:
        _say_unknown(options)
        return EXIT_CODES["not_in_journal"]
    estimate = None if plan.what_if is None else Estimate(plan.what_if, prices, loop.now_ms())
    if options.as_json:
        print(json_line(replay_json(replays, answers=options.answers, estimate=estimate)).decode(), end="")
    else:
        show_replay(replays, Console(), answers=options.answers, estimate=estimate)
    told = replays[-1]
    if estimate is not None:
        return 0 if told.broken_off_at is None else EXIT_CODES["not_in_journal"]
    return EXIT_CODES[told.verdict]


async def _replayed(options: ReplayOptions, plan: ReplayPlan, loop: ActivationLoop) -> tuple[Replay, ...]:
    """The replays of the key's events; none when the journal does not know the position."""
    reader = open_reader(options.journal)
    try:
        namespace = chosen_namespace(options, await _namespaces(reader, plan))
        if namespace is None:
            return ()
        story = Story(plan.agent, plan.entity_key, plan.events, namespace)
        config = plan.config(options, namespace)
        return await replay_story(story, config, reader, loop, what_if=plan.other_config())
    finally:
        await reader.aclose()


async def _namespaces(reader: JournalReader, plan: ReplayPlan) -> list[str]:
    """The namespaces under which the journal knows the position."""
    where = RecordFilter(entity_key=plan.entity_key, seq=plan.seq)
    return list(dict.fromkeys([record.call.scope async for record in reader.records(where)]))


def _say_unknown(options: ReplayOptions) -> None:
    given = options.default_namespace
    under = "" if given is None else f" under the namespace {given!r}"
    words = f"not in the journal: nothing is known of {options.entity!r} seq {options.seq}{under}"
    if options.as_json:
        print(json_line({"verdict": "not_in_journal", "words": words, "calls": []}).decode(), end="")
    else:
        Console(soft_wrap=True).print(words, style="bold yellow", markup=False, highlight=False)
