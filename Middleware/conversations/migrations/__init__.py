"""Changes of the tables: forward only, one function each, applied in the order of this list."""

from collections.abc import Callable, Sequence

from sqlalchemy import Connection, insert, select

from Middleware.conversations import tables
from Middleware.conversations.migrations.m0001_initial import m0001_initial
from Middleware.conversations.migrations.m0002_live_text import m0002_live_text
from Middleware.conversations.migrations.m0003_doors import m0003_doors

Migration = Callable[[Connection], None]

MIGRATIONS: Sequence[Migration] = (m0001_initial, m0002_live_text, m0003_doors)


def migrate(connection: Connection, now: float, migrations: Sequence[Migration] = ()) -> int:
    """Bring the tables up to date inside the caller's transaction; how many were applied.

    The caller's transaction must keep other migrators out.
    """
    known = migrations or MIGRATIONS
    tables.migrations.create(connection, checkfirst=True)
    done = set(connection.execute(select(tables.migrations.c.number)).scalars())
    for number, migration in enumerate(known, start=1):
        if number not in done:
            migration(connection)
            row = {"number": number, "name": migration.__name__, "at": now}
            connection.execute(insert(tables.migrations).values(row))
    return len(known) - len(done)
