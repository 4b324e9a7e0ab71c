from __future__ import annotations

import pytest

from tests.providers.wires import WIRES, Wire


@pytest.fixture(params=sorted(WIRES))
def wire(request: pytest.FixtureRequest) -> Wire:
    """Every vendor's wire, one after the other."""
    return WIRES[request.param]


@pytest.fixture(params=sorted(name for name, wire in WIRES.items() if wire.mocked))
def mocked_wire(request: pytest.FixtureRequest) -> Wire:
    """Every wire that the mock servers speak, one after the other."""
    return WIRES[request.param]


@pytest.fixture(autouse=True)
def bare_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """No key, address or proxy from outside reaches a test."""
    for name in (
        *("OPENAI_API_KEY", "OPENAI_BASE_URL", "OPENAI_API_BASE", "OPENAI_ORG_ID", "OPENAI_PROJECT_ID"),
        *("AZURE_OPENAI_API_KEY", "OPENAI_API_VERSION", "ANTHROPIC_AUTH_TOKEN"),
        *("ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL", "GOOGLE_API_KEY", "GEMINI_API_KEY", "GOOGLE_GEMINI_BASE_URL"),
        *("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy", "ALL_PROXY", "all_proxy"),
    ):
        monkeypatch.delenv(name, raising=False)
