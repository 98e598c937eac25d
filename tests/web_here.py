"""The dashboard and the API in a thread of this process, on a port of loopback."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from jobs.operations.batch_runner import running_batches
from jobs.settings import read_settings
from jobs.store.database import Database
from jobs.web.app import Options, create_app
from jobs.web.connections import Limits
from jobs.web.server import listen, make_server


@contextmanager
def web_here(token: str | None = None) -> Iterator[str]:
    """Serve what the settings of the environment name until the block ends; yields the address."""
    settings, _ = read_settings({})
    database = Database.open(settings.database_url)
    bound = listen("127.0.0.1", 0)
    app = create_app(database, settings, Options(("127.0.0.1",), token))
    server = make_server(app, Limits())
    thread = threading.Thread(target=server.run, kwargs={"sockets": [bound]})
    thread.start()
    try:
        while not server.started:
            time.sleep(0.01)
        with running_batches(database, settings) as app.state.batch_runner:
            yield f"http://127.0.0.1:{bound.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()
        bound.close()
        database.close()
