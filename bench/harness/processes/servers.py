"""The servers that a benchmark needs: a new database on a running PostgreSQL, and a Redis of its own.

KVJOBS_TEST_POSTGRES names a server where databases may be made.
"""

import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import create_engine, make_url, text

from jobs.store.database import Database
from jobs.store.schema.migrate import upgrade

SERVER = os.environ.get("KVJOBS_TEST_POSTGRES", "postgresql+psycopg://postgres@127.0.0.1:5432/postgres")
REDIS_PORT = 6399


@contextmanager
def own_database() -> Iterator[str]:
    """Create a PostgreSQL database for one measurement, and drop it afterwards."""
    server = create_engine(SERVER, isolation_level="AUTOCOMMIT")
    name = f"kvjobs_bench_{os.getpid()}"
    url = make_url(SERVER).set(database=name).render_as_string(hide_password=False)
    with server.connect() as connection:
        connection.execute(text(f"CREATE DATABASE {name}"))
    try:
        database = Database.connect(url)
        upgrade(database.engine)
        database.close()
        yield url
    finally:
        with server.connect() as connection:
            connection.execute(text(f"DROP DATABASE {name} WITH (FORCE)"))
        server.dispose()


@contextmanager
def redis_server() -> Iterator[str]:
    """Start a Redis for this run."""
    command = ["redis-server", "--port", str(REDIS_PORT), "--save", "", "--appendonly", "no", "--loglevel", "warning"]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    try:
        time.sleep(0.5)
        yield f"redis://127.0.0.1:{REDIS_PORT}/0"
    finally:
        server.terminate()
        server.wait()
