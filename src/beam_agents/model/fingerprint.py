"""Which part of a request changed, told from digests alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from hashlib import blake2b, sha256

from beam_agents.model.cache_key import canonical_json
from beam_agents.values import Json, LlmRequest

__all__ = ["changed_fields", "fingerprint"]

_DIGEST_BYTES = 8


def fingerprint(request: LlmRequest, position: str) -> tuple[tuple[str, str], ...]:
    """Digests of a request by field path, such as `messages[3].content`.

    They are keyed with `position`, so that equal texts at different positions have different digests.
    """
    keyed = blake2b(digest_size=_DIGEST_BYTES, key=sha256(position.encode("utf-8", "surrogatepass")).digest())
    return tuple((path, _digest(keyed, value)) for path, value in _parts(request))


def changed_fields(then: tuple[tuple[str, str], ...], now: tuple[tuple[str, str], ...]) -> tuple[str, ...]:
    """Paths whose digests differ, or that only one side has, in the order of `now`, then of `then`."""
    before, after = dict(then), dict(now)
    return tuple(path for path in {**after, **before} if before.get(path) != after.get(path))


def _digest(keyed: blake2b, value: Json) -> str:
    digest = keyed.copy()
    digest.update(canonical_json(value))
    return digest.hexdigest()


def _parts(request: LlmRequest) -> Iterator[tuple[str, Json]]:
    yield "model", request.model_id
    for index, message in enumerate(request.messages):
        if not isinstance(message, Mapping):
            yield f"messages[{index}]", message
            continue
        for name, value in message.items():
            path = f"messages[{index}].{name}"
            if isinstance(value, (list, tuple)):
                yield from ((f"{path}[{place}]", part) for place, part in enumerate(value))
            else:
                yield path, value
    if request.tools_schema is not None:
        yield "tools_schema", request.tools_schema
    for name, value in (request.sampling_params or {}).items():
        yield f"sampling_params.{name}", value
