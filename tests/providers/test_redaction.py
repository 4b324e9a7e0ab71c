from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_agents.providers.redaction import identifier, redacted_message

MESSAGES = [{"role": "user", "content": [{"type": "text", "text": "Ludmilla owes 48213 to the model café"}]}]


def test_the_apis_own_words_stay_and_the_prompts_go():
    said = "Invalid value for parameter temperature: LUDMILLA owes 48213 at café, expected a number"
    shown = redacted_message(said, MESSAGES, None)
    assert shown.startswith("Invalid value for parameter temperature")
    assert shown.endswith("expected a number")
    assert not [word for word in ("LUDMILLA", "owes", "48213", "caf") if word in shown]


@pytest.mark.parametrize("fragment", ["sk-abc123def", "sk-abc1***ef", "abc123d", "c123"])
def test_no_piece_of_the_key_is_shown(fragment: str):
    assert fragment not in redacted_message(f"Incorrect key {fragment} given", [], "sk-abc123def")


def test_a_message_is_one_short_line():
    shown = redacted_message("very\nlong " * 200, [], None)
    assert len(shown) <= 240
    assert "\n" not in shown


@pytest.mark.parametrize("message", [None, 5, [], {"a": "b"}])
def test_what_is_not_text_is_nothing(message: object):
    assert redacted_message(message, MESSAGES, None) == ""


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("req_1", "req_1"),
        (429, "429"),
        ("a b\n<c>", "a_b_c_"),
        ("", None),
        (None, None),
        (True, None),
        ("x" * 500, "x" * 96),
    ],
)
def test_identifiers_are_short_and_printable(value: object, expected: str | None):
    assert identifier(value) == expected


@given(st.text(st.characters(codec="ascii", categories=("L", "N")), min_size=9, max_size=30), st.text())
def test_a_word_of_the_prompt_never_comes_back(word: str, around: str):
    secret = f"7{word}"
    shown = redacted_message(f"{around} {secret} {around}", [{"content": secret}], None)
    assert secret not in shown
