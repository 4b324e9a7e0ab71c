"""Sort support tickets with an agent on Flink: generated tickets in, JSON lines out.

    python examples/flink/tickets.py --model openai:gpt-4o-mini --out out/tickets

runs it in this process; `flink run -py examples/flink/tickets.py …` runs it on a cluster (docs/flink.md).
"""

from __future__ import annotations

import argparse

from pyflink.common import Encoder, Types
from pyflink.datastream import DataStream, StreamExecutionEnvironment
from pyflink.datastream.connectors.file_system import FileSink, RollingPolicy
from pyflink.table import StreamTableEnvironment

from beam_agents.activation import AgentConfig
from beam_agents.flink import run_agent

TEXTS = (
    "I was charged twice this month.",
    "The export button does nothing since the update.",
    "Just wanted to say that your support is great!",
    "How do I invite a colleague?",
)


async def sort_ticket(ctx, ticket):
    """One call for each ticket; the customer's state counts the tickets of each kind."""
    customer, text = ticket.split("|", 1)
    answer = await ctx.complete(
        f"Sort this support ticket. Answer with one word, billing, bug, praise or question.\n\n{text}", temperature=0
    )
    kind = (answer.text or "").strip().lower()
    counts = ctx.state or {}
    counts[kind] = counts.get(kind, 0) + 1
    ctx.state = counts
    return {"customer": customer, "ticket": ctx.seq, "kind": kind, "of_this_kind": counts[kind]}


def customer_of(ticket: str) -> str:
    """The key: what comes before the bar."""
    return ticket.split("|", 1)[0]


def tickets(env: StreamExecutionEnvironment, count: int, per_second: int) -> DataStream:
    """`customer|text`, some per second."""
    tables = StreamTableEnvironment.create(env)
    tables.execute_sql(
        "CREATE TABLE numbers (n BIGINT) WITH ('connector'='datagen', 'fields.n.kind'='sequence',"
        f" 'fields.n.start'='0', 'fields.n.end'='{count - 1}', 'rows-per-second'='{per_second}')"
    )
    return tables.to_data_stream(tables.from_path("numbers")).map(
        lambda row: f"customer-{row[0] % 7}|{TEXTS[row[0] % len(TEXTS)]}", output_type=Types.STRING()
    )


def write(stream: DataStream, out: str, name: str) -> None:
    """To files that become visible with each checkpoint."""
    stream.sink_to(
        FileSink.for_row_format(f"{out}/{name}", Encoder.simple_string_encoder())
        .with_rolling_policy(RollingPolicy.on_checkpoint_rolling_policy())
        .build()
    ).uid(name)


def main() -> None:
    """Build the job and run it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="openai:gpt-4o-mini")
    parser.add_argument("--base-url", help="another endpoint than the vendor's")
    parser.add_argument("--journal", help="such as redis://host:6379/0")
    parser.add_argument("--out", required=True, help="folder for outputs and dead letters")
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--per-second", type=int, default=10)
    given = parser.parse_args()

    env = StreamExecutionEnvironment.get_execution_environment()
    env.enable_checkpointing(2_000)
    config = AgentConfig(given.model, base_url=given.base_url, journal=given.journal, namespace="tickets")
    streams = run_agent(tickets(env, given.count, given.per_second), sort_ticket, config, key_by=customer_of)
    write(streams.main, given.out, "sorted")
    write(streams.errors, given.out, "dead-letters")
    env.execute("tickets")


if __name__ == "__main__":
    main()
