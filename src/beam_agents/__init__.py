"""Resilient, replayable, accountable calls of language models from inside Apache Beam pipelines."""
