"""A model file of 0.4 MB with random weights, made on the spot: the real server on the real wire in milliseconds.

Its answers mean nothing. Answers under a schema of enums and integers are valid; free text runs into the limit.
"""

from __future__ import annotations

import string
from pathlib import Path

import gguf
import numpy as np

__all__ = ["TINY_MODEL_NAME", "write_tiny_model"]

TINY_MODEL_NAME = "tiny-random"

_WIDTH, _HEADS, _LAYERS, _FEED_FORWARD, _CONTEXT = 64, 4, 2, 128, 8192
_SPACE = "\u2581"
_PRINTABLE = "".join(c for c in string.printable if c.isprintable() and c != " ")
_CHAT_TEMPLATE = "{% for m in messages %}{{ m['role'] }}: {{ m['content'] }}\n{% endfor %}assistant: "


def write_tiny_model(path: Path, *, seed: int = 0) -> Path:
    """Write the model to `path`; the same seed gives the same file."""
    writer = gguf.GGUFWriter(str(path), "llama")
    tokens = _vocabulary()
    _write_shape(writer, len(tokens))
    _write_tokenizer(writer, tokens)
    _write_weights(writer, tokens, np.random.default_rng(seed))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def _vocabulary() -> list[tuple[str, gguf.TokenType]]:
    special = [("<unk>", gguf.TokenType.UNKNOWN), ("<s>", gguf.TokenType.CONTROL), ("</s>", gguf.TokenType.CONTROL)]
    raw_bytes = [(f"<0x{byte:02X}>", gguf.TokenType.BYTE) for byte in range(256)]
    return special + raw_bytes + [(c, gguf.TokenType.NORMAL) for c in _SPACE + _PRINTABLE]


def _write_shape(writer: gguf.GGUFWriter, tokens: int) -> None:
    writer.add_name(TINY_MODEL_NAME)
    writer.add_context_length(_CONTEXT)
    writer.add_embedding_length(_WIDTH)
    writer.add_block_count(_LAYERS)
    writer.add_feed_forward_length(_FEED_FORWARD)
    writer.add_head_count(_HEADS)
    writer.add_head_count_kv(_HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(_WIDTH // _HEADS)
    writer.add_vocab_size(tokens)
    writer.add_file_type(gguf.LlamaFileType.ALL_F32)


def _write_tokenizer(writer: gguf.GGUFWriter, tokens: list[tuple[str, gguf.TokenType]]) -> None:
    writer.add_tokenizer_model("llama")
    writer.add_token_list([text for text, _ in tokens])
    writer.add_token_scores([0.0] * len(tokens))
    writer.add_token_types([int(kind) for _, kind in tokens])
    writer.add_unk_token_id(0)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_add_space_prefix(False)
    writer.add_chat_template(_CHAT_TEMPLATE)


def _write_weights(writer: gguf.GGUFWriter, tokens: list[tuple[str, gguf.TokenType]], rng: np.random.Generator) -> None:
    def random(*shape: int) -> np.ndarray:
        return (rng.standard_normal(shape) * 0.2).astype(np.float32)

    def add(name: str, values: np.ndarray) -> None:
        writer.add_tensor(f"{name}.weight", values)

    ones = np.ones(_WIDTH, dtype=np.float32)
    head = random(len(tokens), _WIDTH)
    head[[kind is not gguf.TokenType.NORMAL for _, kind in tokens]] = 0  # never preferred: answers are printable
    add("token_embd", random(len(tokens), _WIDTH))
    add("output_norm", ones)
    add("output", head)
    for layer in range(_LAYERS):
        block = f"blk.{layer}"
        add(f"{block}.attn_norm", ones)
        add(f"{block}.ffn_norm", ones)
        for part in ("attn_q", "attn_k", "attn_v", "attn_output"):
            add(f"{block}.{part}", random(_WIDTH, _WIDTH))
        add(f"{block}.ffn_gate", random(_FEED_FORWARD, _WIDTH))
        add(f"{block}.ffn_up", random(_FEED_FORWARD, _WIDTH))
        add(f"{block}.ffn_down", random(_WIDTH, _FEED_FORWARD))
