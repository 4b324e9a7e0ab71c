"""The lock that tells of an owner's death at once."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from beam_agents.journals.sqlite.owner_lock import OwnerLock, owner_is_dead, sweep


@pytest.fixture
def database(tmp_path: Path) -> Path:
    return tmp_path / "odd [name]*.db"


def test_a_held_lock_is_an_owner_alive(database: Path) -> None:
    lock = OwnerLock(database, "abc")
    assert not owner_is_dead(database, "abc")
    lock.release()
    lock.release()
    assert owner_is_dead(database, "abc")
    assert list(database.parent.iterdir()) == []


def test_an_owner_without_a_lock_is_dead(database: Path) -> None:
    assert owner_is_dead(database, "never")


def test_a_sweep_removes_what_the_dead_left_and_nothing_else(database: Path) -> None:
    held = OwnerLock(database, "alive")
    left = database.with_name(f"{database.name}-owner-dead")
    left.touch()
    unborn = database.with_name(f"{database.name}-owner-unborn.new")
    unborn.touch()
    other = database.with_name("other.db-owner-dead")
    other.touch()
    sweep(database)
    assert not left.exists()
    assert unborn.exists()
    assert other.exists()
    assert not owner_is_dead(database, "alive")
    held.release()


def test_a_forked_child_does_not_keep_its_parent_alive(database: Path) -> None:
    lock = OwnerLock(database, "parent")
    from_child, to_parent = os.pipe()
    from_parent, to_child = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(to_parent, b"up")
        os.read(from_parent, 1)
        os._exit(0)
    os.read(from_child, 2)
    lock.forsake()  # what the kernel does when the parent dies
    assert owner_is_dead(database, "parent")
    os.write(to_child, b".")
    os.waitpid(child, 0)
    for descriptor in (from_child, to_parent, from_parent, to_child):
        os.close(descriptor)
