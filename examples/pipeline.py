"""The same agent inside a pipeline of your own: python examples/pipeline.py examples/tickets.jsonl openai:MODEL"""

import json
import sys

import apache_beam as beam
from triage import triage

from beam_agents import AgentConfig, RunAgent, local_options


def main(path: str, model: str) -> None:
    config = AgentConfig(model, journal="sqlite:///journal.db", namespace="triage")
    with beam.Pipeline(options=local_options()) as pipeline:
        results = (
            pipeline
            | beam.io.ReadFromText(path)
            | beam.Map(json.loads)
            | beam.Map(lambda ticket: (ticket["customer"], ticket))
            | RunAgent(triage, config)
        )
        results.main | "Answers" >> beam.Map(print)
        results.errors | "Dead letters" >> beam.Map(lambda letter: print(letter.message, file=sys.stderr))


if __name__ == "__main__":
    main(*sys.argv[1:])
