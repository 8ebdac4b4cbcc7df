"""A small database of loans, and a snapshot of it."""

from parley.data.databases import Request, open_database, take_snapshot

LOANS = """
CREATE TABLE loans (id INTEGER PRIMARY KEY, name TEXT, amount REAL, paid DECIMAL(10,2), opened DATE, seen DATETIME,
                    late BOOLEAN, photo BLOB, loose);
INSERT INTO loans VALUES (3, 'c', 2.5, 7, '2020-02-29', '2020-01-01 10:00:00', 1, x'00ff', 1);
INSERT INTO loans VALUES (1, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 'word');
INSERT INTO loans VALUES (2, 'ä', 9007199254740993, 0.1, '1999-12-31', '1970-01-01T00:00:00', 0, x'', NULL);
CREATE VIEW opened AS SELECT id, opened, amount FROM loans;
"""
ALL = "SELECT id, name, amount, paid, opened, seen, late, photo, CAST(loose AS TEXT) AS loose FROM loans"


def take(uri, query, folder, *keys):
    with open_database(uri) as database:
        return take_snapshot(database, Request(query, keys or ("id",)), folder)
