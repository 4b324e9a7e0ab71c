"""What the namespaces that `beam-agents run` gives by default tell."""

from __future__ import annotations

from beam_agents.providers import PROVIDERS

__all__ = ["model_of", "vendor_of"]


def model_of(namespace: str) -> str:
    """The `vendor:model` in a default namespace; empty for any other namespace."""
    for word in reversed(namespace.split(" ")):
        vendor, colon, name = word.partition(":")
        if colon and name and vendor in PROVIDERS:
            return word
    return ""


def vendor_of(namespace: str) -> str:
    """The vendor in a default namespace; empty for any other namespace."""
    return model_of(namespace).partition(":")[0]
