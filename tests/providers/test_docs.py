"""What the pages promise about providers and errors."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from beam_agents import errors
from beam_agents.model import LLMClient, LlmRequest
from beam_agents.providers import PROVIDERS, load_provider
from beam_agents.providers.anthropic import _FINISH as ANTHROPIC_FINISH
from beam_agents.providers.gemini import _BLOCKED as GEMINI_BLOCKED
from beam_agents.providers.gemini import _PARAM_NAMES as GEMINI_NAMES
from tests.servers.raw_tcp import RawServer, answer

DOCS = Path(__file__).parents[2] / "docs"


def page(name: str) -> str:
    return (DOCS / name).read_text()


def blocks(text: str) -> list[str]:
    return re.findall(r"```python\n(.*?)```", text, re.DOTALL)


def test_the_errors_page_has_a_row_for_every_class():
    classes = [name for name in errors.__all__ if isinstance(getattr(errors, name), type)]
    missing = [name for name in classes if f"| `{name}` |" not in page("errors.md")]
    assert missing == []


def test_the_providers_page_names_every_provider_and_renamed_parameter():
    text = page("providers.md")
    for vendor in PROVIDERS:
        assert f"`{vendor}:MODEL`" in text
    for neutral, wire in GEMINI_NAMES.items():
        assert f"`{neutral}`" in text
        assert wire in text
    for word in [*ANTHROPIC_FINISH, *GEMINI_BLOCKED]:
        assert f"`{word}`" in text


@pytest.mark.parametrize("code", [block for block in blocks(page("providers.md")) if "HttpClient" not in block])
def test_the_examples_run(code: str, capsys: pytest.CaptureFixture[str]):
    exec(compile(code, "providers.md", "exec"), {"__name__": "example"})
    assert "Traceback" not in capsys.readouterr().err


async def test_the_fourth_vendor_of_the_page_works(monkeypatch: pytest.MonkeyPatch):
    (code,) = [block for block in blocks(page("providers.md")) if "HttpClient" in block]
    module = ModuleType("acme_of_the_page")
    exec(compile(code, "providers.md", "exec"), module.__dict__)
    monkeypatch.setitem(sys.modules, "acme_of_the_page", module)
    monkeypatch.setitem(PROVIDERS, "acme", "acme_of_the_page:AcmeClient")
    with RawServer(lambda request: answer({"reply": "hi", "tokens": {"in": 2, "out": 1}})) as server:
        client: Any = load_provider("acme:m", base_url=server.url, api_key="k")
        response = await client.complete(LlmRequest("m", [{"role": "user", "content": "hey"}], None, {"top_p": 1}))
        await client.aclose()
    assert isinstance(client, LLMClient)
    decoded = client.decode(response.response)
    assert (decoded.text, decoded.usage.total_tokens) == ("hi", 3)
    assert server.received[0].json == {"prompt": "hey", "top_p": 1}
    assert server.received[0].path == "/generate/m"
    assert server.received[0].headers["x-acme-key"] == "k"
    with pytest.raises(errors.ResponseDecodeError):
        client.decode(b"{}")
