"""Records of finished work in a SQLite file that survives kills and shared use.

A piece of work is named by its configuration. Who does it claims it first, so that two runs on
one store share the work instead of doing it twice; a claim of a process that is gone is void.
"""

import hashlib
import json
import os
import socket
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple, Self

import psutil

from toppush.types import Json

PATIENCE = 60.0
"""Seconds to wait for another process that writes."""
SCHEMA = """
CREATE TABLE IF NOT EXISTS records (
    key TEXT PRIMARY KEY, data TEXT, method TEXT, trial INTEGER, status TEXT, config TEXT,
    result TEXT, message TEXT, machine TEXT, finished TEXT
);
CREATE TABLE IF NOT EXISTS claims (key TEXT PRIMARY KEY, host TEXT, pid INTEGER, born REAL);
"""
DONE, FAILED, OUT_OF_TIME = "done", "failed", "out of time"


@dataclass(frozen=True)
class Record:
    """One finished piece of work."""

    config: Json
    status: str
    result: Json
    message: str = ""
    machine: Json | None = None

    @property
    def key(self) -> str:
        """Name of the work."""
        return key_of(self.config)


def key_of(config: Json) -> str:
    """A hash of the configuration."""
    return hashlib.sha256(json.dumps(config, sort_keys=True).encode()).hexdigest()[:24]


class Store:
    """A file of records.

    Parameters
    ----------
    path : path
        Made if it is not there.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with self._open() as database:
                database.executescript(SCHEMA)
        except sqlite3.DatabaseError as error:
            raise ValueError(
                f"{self.path} is not a store of results ({error}); name another file."
            ) from error

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        """A connection for one transaction."""
        with closing(sqlite3.connect(self.path, timeout=PATIENCE)) as database, database:
            yield database

    def records(self, configs: list[Json] | None = None) -> list[Record]:
        """All records, or those of the given configurations, in order of writing."""
        query = "SELECT config, status, result, message, machine FROM records ORDER BY rowid"
        with self._open() as database:
            rows = database.execute(query).fetchall()
        found = [
            Record(json.loads(config), status, json.loads(result), message, json.loads(machine))
            for config, status, result, message, machine in rows
        ]
        if configs is None:
            return found
        wanted = {key_of(config) for config in configs}
        return [record for record in found if record.key in wanted]

    def sizes(self) -> dict[str, tuple[int, int, int]]:
        """Positives, negatives and columns of each data set that has a record, as last counted."""
        return {one.config["data"]: tuple(one.config["size"]) for one in self.records()}

    def claim(self, config: Json) -> bool:
        """Take on a piece of work; False if it is done or another live process has it."""
        key, me = key_of(config), Claimant.this_process()
        with self._open() as database:
            database.execute("BEGIN IMMEDIATE")
            if database.execute("SELECT 1 FROM records WHERE key = ?", (key,)).fetchone():
                return False
            held = database.execute("SELECT host, pid, born FROM claims WHERE key = ?", (key,))
            owner = held.fetchone()
            if owner is not None and Claimant(*owner).is_another_alive(me):
                return False
            database.execute("INSERT OR REPLACE INTO claims VALUES (?, ?, ?, ?)", (key, *me))
            return True

    def others_at_work(self, configs: list[Json]) -> bool:
        """Whether another live process of this machine has claimed any of these."""
        me, keys = Claimant.this_process(), {key_of(config) for config in configs}
        with self._open() as database:
            claims = database.execute("SELECT key, host, pid, born FROM claims").fetchall()
        owners = [Claimant(*owner) for key, *owner in claims if key in keys]
        return any(one.host == me.host and one.is_another_alive(me) for one in owners)

    def release(self, config: Json) -> None:
        """Give a claimed piece of work back undone."""
        with self._open() as database:
            database.execute("DELETE FROM claims WHERE key = ?", (key_of(config),))

    def write(self, record: Record) -> None:
        """Keep a record and end its claim; a record that is there stays."""
        config = record.config
        row = (
            record.key,
            config["data"],
            config["method"],
            config.get("trial"),
            record.status,
            json.dumps(config, sort_keys=True),
            json.dumps(record.result, sort_keys=True),
            record.message,
            json.dumps(record.machine),
            datetime.now(UTC).isoformat(timespec="milliseconds"),
        )
        with self._open() as database:
            database.execute(f"INSERT OR IGNORE INTO records VALUES ({', '.join('?' * 10)})", row)
            database.execute("DELETE FROM claims WHERE key = ?", (record.key,))

    def forget(self, status: str, configs: list[Json]) -> int:
        """Drop these records if they are of a status, so that their work is done anew; how many."""
        keys = [(key_of(config), status) for config in configs]
        with self._open() as database:
            dropped = database.executemany("DELETE FROM records WHERE key = ? AND status = ?", keys)
            return dropped.rowcount


class Claimant(NamedTuple):
    """A process, told from later ones with its number by the time it began."""

    host: str
    pid: int
    born: float

    @classmethod
    def this_process(cls) -> Self:
        """Who runs this."""
        return cls(socket.gethostname(), os.getpid(), psutil.Process().create_time())

    def is_another_alive(self, me: "Claimant") -> bool:
        """Whether this is another process than `me` and still runs, as far as one can know."""
        if self.host != me.host:
            return True
        try:
            process = psutil.Process(self.pid)
            return self != me and abs(process.create_time() - self.born) < 1.0
        except psutil.NoSuchProcess:
            return False
