"""SQL text of a migration, for either database."""

from sqlalchemy import Connection

_SERIAL = {
    "sqlite": "INTEGER PRIMARY KEY AUTOINCREMENT",
    "postgresql": "INTEGER PRIMARY KEY GENERATED ALWAYS AS IDENTITY",
}


def run_statements(connection: Connection, statements: str) -> None:
    """Statements end in a semicolon; ``{serial}`` is a key that counts by itself."""
    filled = statements.replace("{serial}", _SERIAL[connection.dialect.name])
    for statement in filter(None, map(str.strip, filled.split(";"))):
        connection.exec_driver_sql(statement)
