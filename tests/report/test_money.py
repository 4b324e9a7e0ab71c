"""What tokens cost."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pytest
from genai_prices import Usage, calc_price

from beam_agents.report.money import ModelRate, PriceBook
from beam_agents.values import TokenUsage
from tests.report.events import START_MS

USAGE = TokenUsage(1_000, 100, 1_100, 200)


def price(
    usage: TokenUsage = USAGE, *, model: str, provider: str, endpoint: str, book: PriceBook | None = None
) -> object:
    return (book or PriceBook()).price(usage, model=model, provider=provider, endpoint=endpoint, at_ms=START_MS)


@pytest.mark.parametrize(
    ("model", "provider", "endpoint"),
    [
        ("gpt-4o-mini", "openai", "api.openai.com:443"),
        ("claude-sonnet-4-5", "anthropic", "api.anthropic.com:443"),
        ("gemini-2.5-pro", "gcp.gemini", "generativelanguage.googleapis.com:443"),
        ("gpt-4o-mini", "openai", "127.0.0.1:8080"),
    ],
)
@pytest.mark.parametrize("usage", [USAGE, TokenUsage(500_000, 1, 500_001), TokenUsage(0, 0, 0)])
def test_the_price_is_that_of_genai_prices(model: str, provider: str, endpoint: str, usage: TokenUsage) -> None:
    counts = Usage(
        input_tokens=usage.prompt_tokens,
        output_tokens=usage.completion_tokens,
        cache_read_tokens=usage.cached_tokens or 0,
    )
    expected = calc_price(counts, model, provider_id=provider).total_price
    assert price(usage, model=model, provider=provider, endpoint=endpoint) == expected


def test_the_address_decides_before_the_providers_name() -> None:
    told = price(model="deepseek-chat", provider="openai", endpoint="api.deepseek.com:443")
    assert told is not None
    assert told == price(model="deepseek-chat", provider="deepseek", endpoint="127.0.0.1:1")


@pytest.mark.parametrize(
    ("model", "provider"), [("no-such-model", "openai"), ("gpt-4o-mini", "custom"), ("", "openai"), ("\x00", "")]
)
def test_unknown_is_none_and_never_zero(model: str, provider: str) -> None:
    assert price(model=model, provider=provider, endpoint="127.0.0.1:1") is None


def test_a_given_price_comes_first() -> None:
    book = PriceBook({"gpt-4o-mini": ModelRate(Decimal(2), Decimal(20), Decimal("0.5"))})
    told = price(model="gpt-4o-mini", provider="openai", endpoint="api.openai.com:443", book=book)
    assert told == Decimal("0.0037")


def test_without_a_price_for_cached_tokens_they_cost_as_any_other() -> None:
    assert ModelRate(Decimal(2), Decimal(20)).price(USAGE) == Decimal("0.004")


def test_another_currency_never_mixes_with_the_dollar_table() -> None:
    book = PriceBook({"house": ModelRate(Decimal(1), Decimal(1))}, currency="EUR")
    assert price(model="gpt-4o-mini", provider="openai", endpoint="api.openai.com:443", book=book) is None
    assert price(model="house", provider="custom", endpoint="", book=book) == Decimal("0.0011")


def test_prices_are_read_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "prices.json"
    path.write_text('{"currency": "EUR", "models": {"house": {"input": 0.1, "output": "0.2", "cached": 0}}}')
    book = PriceBook.from_file(str(path))
    assert book.currency == "EUR"
    assert price(model="house", provider="", endpoint="", book=book) == Decimal("0.0001")


@pytest.mark.parametrize(
    "text",
    [
        "", "[]", "{}", '{"models": {"a": 1}}', '{"models": {"a": {"input": 1}}}',
        '{"models": {"a": {"input": "x", "output": 1}}}', '{"models": {"a": {"input": -1, "output": 1}}}',
        '{"models": {"a": {"input": "inf", "output": 1}}}',
    ],
)  # fmt: skip
def test_a_file_of_another_form_is_a_value_error(tmp_path: Path, text: str) -> None:
    path = tmp_path / "prices.json"
    path.write_text(text)
    with pytest.raises(ValueError, match=r"."):
        PriceBook.from_file(str(path))


def test_the_source_says_where_prices_come_from() -> None:
    assert "genai-prices" in PriceBook().source
    assert "1 given price(s)" in PriceBook({"a": ModelRate(Decimal(1), Decimal(1))}).source
    assert PriceBook(currency="EUR").source == "no prices"
