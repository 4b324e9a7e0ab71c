"""The heaviest of very many, in bounded memory."""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from decimal import Decimal
from typing import Generic, TypeVar

__all__ = ["HeavyKeys", "KeyWeight", "TopFew"]

_T = TypeVar("_T")


@dataclass(slots=True)
class KeyWeight:
    """What one key weighs: `weight` decides its rank and is too high by at most `error`."""

    key: bytes
    weight: int = 0
    error: int = 0
    calls: int = 0
    tokens: int = 0
    money: Decimal = Decimal(0)


class HeavyKeys:
    """The keys with the most tokens, by the Space-Saving algorithm (Metwally, Agrawal, El Abbadi 2005).

    Exact up to `capacity` keys. Beyond, the lightest key gives its place, and its weight, to the new one: every
    key heavier than total / capacity is still found, and `KeyWeight.error` bounds its surplus.
    """

    def __init__(self, capacity: int = 4096) -> None:
        self._capacity = capacity
        self._weights: dict[bytes, KeyWeight] = {}
        self._heap: list[tuple[int, bytes]] = []
        self.exact = True

    def add(self, key: bytes, tokens: int, money: Decimal | int) -> None:
        """Count one call of `key`."""
        found = self._weights.get(key)
        if found is None:
            found = self._new(key)
        found.weight += tokens + 1
        found.calls += 1
        found.tokens += tokens
        found.money += money

    def heaviest(self, count: int) -> list[KeyWeight]:
        """The `count` heaviest, heaviest first."""
        return heapq.nsmallest(count, self._weights.values(), key=lambda one: (-one.weight, one.key))

    def __len__(self) -> int:
        return len(self._weights)

    def _new(self, key: bytes) -> KeyWeight:
        new = KeyWeight(key)
        if len(self._weights) >= self._capacity:
            self.exact = False
            lightest = self._lightest()
            del self._weights[lightest.key]
            new.weight = new.error = lightest.weight
        self._weights[key] = new
        heapq.heappush(self._heap, (new.weight, key))
        return new

    def _lightest(self) -> KeyWeight:
        """Heap entries grow stale as weights grow; a stale one is put back with its weight of now."""
        while True:
            weight, key = heapq.heappop(self._heap)
            found = self._weights.get(key)
            if found is None:
                continue
            if found.weight == weight:
                return found
            heapq.heappush(self._heap, (found.weight, key))


class TopFew(Generic[_T]):
    """The `count` values with the greatest weights; among equals the first come stay."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._arrived = 0
        self._heap: list[tuple[float, int, _T]] = []

    def offer(self, weight: float, value: _T) -> None:
        """Keep `value` if it is among the heaviest so far."""
        self._arrived += 1
        entry = (weight, -self._arrived, value)
        if len(self._heap) < self._count:
            heapq.heappush(self._heap, entry)
        elif entry[:2] > self._heap[0][:2]:
            heapq.heapreplace(self._heap, entry)

    def best(self) -> list[_T]:
        """Heaviest first."""
        return [value for _, _, value in sorted(self._heap, key=lambda entry: entry[:2], reverse=True)]
