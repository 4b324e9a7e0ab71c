from __future__ import annotations

import subprocess
import sys

import pytest

from beam_agents import providers
from beam_agents.providers import load_provider


@pytest.mark.parametrize("spec", ["gpt-4o", "nobody:m", "openai:", ":m", ""])
def test_a_spec_that_names_no_vendor_or_no_model_says_what_is_known(spec: str):
    with pytest.raises(ValueError, match="openai:MODEL"):
        load_provider(spec)


def test_a_model_may_hold_colons():
    assert load_provider("openai:ft:gpt:org", base_url="http://127.0.0.1:1").model_id == "ft:gpt:org"


def test_an_unknown_option_is_refused():
    with pytest.raises(TypeError, match="max_conections"):
        load_provider("openai:m", base_url="http://127.0.0.1:1", max_conections=5)


def test_everything_public_resolves():
    assert all(getattr(providers, name) is not None for name in providers.__all__)
    with pytest.raises(AttributeError):
        providers.no_such_name  # noqa: B018


def test_importing_the_table_imports_no_vendor():
    code = "import sys, beam_agents.providers; sys.exit('aiohttp' in sys.modules)"
    assert (
        subprocess.run([sys.executable, "-c", code], env={"PYTHONPATH": ":".join(sys.path)}, check=False).returncode
        == 0
    )
