"""TLS, proxies and clocks."""

from __future__ import annotations

import os
import ssl
import subprocess
import sys
from pathlib import Path

import pytest

import beam_agents
from beam_agents.errors import EndpointUnreachable, ProviderRequestError, ProviderTimeout, RateLimitError
from beam_agents.testing import ManualClock
from beam_agents.values import LlmRequest
from tests.providers.wires import WIRES, Wire
from tests.servers.raw_tcp import RawServer, answer

SOURCES = str(Path(beam_agents.__file__).parents[1])
REQUEST = LlmRequest("test-model", [{"role": "user", "content": "hi"}])


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A self-signed certificate for 127.0.0.1 and its key, in one file."""
    folder = tmp_path_factory.mktemp("tls")
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=127.0.0.1"),
            *("-addext", "subjectAltName=IP:127.0.0.1", "-keyout", folder / "key.pem", "-out", folder / "cert.pem"),
        ],
        check=True,
        capture_output=True,
    )
    both = folder / "both.pem"
    both.write_bytes((folder / "key.pem").read_bytes() + (folder / "cert.pem").read_bytes())
    return both


def server_context(certificate: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    return context


async def test_a_certificate_of_ones_own_is_trusted_when_named(wire: Wire, certificate: Path):
    with RawServer(lambda request: answer(wire.answer("safe")), server_context(certificate)) as server:
        client = wire.client(server.url.replace("http:", "https:"), ca_file=str(certificate.with_name("cert.pem")))
        response = await client.complete(REQUEST)
        await client.aclose()
    assert client.decode(response.response).text == "safe"


def test_a_certificate_of_ones_own_is_trusted_when_the_environment_names_it(certificate: Path):
    wire = WIRES["openai"]
    code = (
        "import asyncio, sys\nfrom beam_agents.providers import OpenAIClient\n"
        "from beam_agents.values import LlmRequest\n"
        "client = OpenAIClient(base_url=sys.argv[1])\n"
        "print(client.decode(asyncio.run(client.complete(LlmRequest('m', []))).response).text)"
    )
    with RawServer(lambda request: answer(wire.answer("safe")), server_context(certificate)) as server:
        ran = subprocess.run(
            [sys.executable, "-c", code, server.url.replace("http:", "https:")],
            env={**os.environ, "SSL_CERT_FILE": str(certificate.with_name("cert.pem")), "PYTHONPATH": SOURCES},
            capture_output=True,
            text=True,
            timeout=60,
        )
    assert (ran.stdout, ran.stderr) == ("safe\n", "")


async def test_an_unknown_certificate_is_refused_and_nothing_was_sent(wire: Wire, certificate: Path):
    with RawServer(lambda request: answer(wire.answer("unsafe")), server_context(certificate)) as server:
        client = wire.client(server.url.replace("http:", "https:"))
        with pytest.raises(EndpointUnreachable) as caught:
            await client.complete(REQUEST)
        await client.aclose()
    assert not caught.value.in_doubt
    assert server.received == []


async def test_a_tls_handshake_that_never_ends_was_never_sent(wire: Wire):
    with RawServer(lambda request: answer(b"")) as server:
        client = wire.client(server.url.replace("http:", "https:"), connect_timeout_s=0.25)
        with pytest.raises(ProviderTimeout) as caught:
            await client.complete(REQUEST)
        await client.aclose()
    assert not caught.value.in_doubt
    assert server.received == []


async def test_a_proxy_given_as_argument(wire: Wire):
    with RawServer(lambda request: answer(wire.answer("by proxy"))) as proxy:
        client = wire.client("http://models.invalid", proxy=proxy.url)
        await client.complete(REQUEST)
        await client.aclose()
    assert proxy.received[0].path.startswith("http://models.invalid/")


async def test_a_proxy_from_the_environment_and_its_exceptions(wire: Wire, monkeypatch: pytest.MonkeyPatch):
    with (
        RawServer(lambda request: answer(wire.answer("by proxy"))) as proxy,
        RawServer(lambda request: answer(wire.answer("direct"))) as direct,
    ):
        monkeypatch.setenv("http_proxy", proxy.url)
        monkeypatch.setenv("no_proxy", "127.0.0.1")
        for base_url in ("http://models.invalid", direct.url):
            client = wire.client(base_url)
            await client.complete(REQUEST)
            await client.aclose()
    assert len(proxy.received) == len(direct.received) == 1


async def test_the_proxy_for_all_schemes(wire: Wire, monkeypatch: pytest.MonkeyPatch):
    with RawServer(lambda request: answer(wire.answer("by proxy"))) as proxy:
        monkeypatch.setenv("ALL_PROXY", proxy.url.replace("//", "//user:word@"))
        client = wire.client("http://models.invalid")
        await client.complete(REQUEST)
        await client.aclose()
    assert proxy.received[0].headers["proxy-authorization"].startswith("Basic ")


@pytest.mark.parametrize(("status", "expected"), [(407, ProviderRequestError), (502, EndpointUnreachable)])
async def test_a_proxy_that_opens_no_tunnel(wire: Wire, status: int, expected: type):
    with RawServer(lambda request: answer(b"", status)) as proxy:
        client = wire.client("https://models.invalid", proxy=proxy.url)
        with pytest.raises(expected, match="nothing was sent") as caught:
            await client.complete(REQUEST)
        await client.aclose()
    assert not caught.value.in_doubt
    assert [seen.method for seen in proxy.received] == ["CONNECT"]


@pytest.mark.parametrize("proxy", ["socks5://127.0.0.1:1080", "127.0.0.1:3128", "http://user:word@127.0.0.1:3128"])
def test_a_proxy_that_cannot_work_or_would_be_pickled_with_its_password_is_refused_at_once(wire: Wire, proxy: str):
    with pytest.raises(ValueError, match="proxy must") as caught:
        wire.client("http://models.invalid", proxy=proxy)
    assert "word" not in str(caught.value).replace("password", "")


async def test_certificates_that_cannot_be_read_are_named(wire: Wire, tmp_path: Path):
    client = wire.client("https://models.invalid", ca_file=str(tmp_path / "none.pem"))
    with pytest.raises(EndpointUnreachable, match=r"none\.pem.*No such file") as caught:
        await client.complete(REQUEST)
    assert not caught.value.in_doubt


async def test_a_retry_date_is_measured_with_the_clients_clock():
    reply = answer(b"", 429, {"Retry-After": "Wed, 21 Oct 2026 07:28:30 GMT"})
    with RawServer(lambda request: reply) as server:
        client = WIRES["openai"].client(server.url)
        client.use_clock(ManualClock(1_792_567_680_000))
        with pytest.raises(RateLimitError) as caught:
            await client.complete(REQUEST)
        await client.aclose()
    assert caught.value.retry_after_ms == 30_000


@pytest.mark.parametrize(
    ("vendor", "base_env", "key_env"),
    [
        ("openai", "OPENAI_BASE_URL", "OPENAI_API_KEY"),
        ("anthropic", "ANTHROPIC_BASE_URL", "ANTHROPIC_API_KEY"),
        ("gemini", "GOOGLE_GEMINI_BASE_URL", "GEMINI_API_KEY"),
    ],
)
async def test_address_and_key_come_from_the_vendors_usual_names(
    vendor: str, base_env: str, key_env: str, monkeypatch: pytest.MonkeyPatch
):
    wire = WIRES[vendor]
    with RawServer(lambda request: answer(wire.answer("ok"))) as server:
        monkeypatch.setenv(base_env, server.url)
        monkeypatch.setenv(key_env, "from-the-environment")
        client = wire.client(None, api_key=None)
        await client.complete(REQUEST)
        await client.aclose()
    assert "from-the-environment" in server.received[0].headers[wire.key_header]
