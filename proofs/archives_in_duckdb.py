"""Runs the SQL of docs/keeping.md for archives in a bucket, as it stands there, and prints its rows as JSON.

archives_in_duckdb.py SQL-FILE: the statements, in which the address of `troupe sql url` and the access to the bucket were filled in.
"""

import importlib.util
import json
import sys
from pathlib import Path

import duckdb

connection = duckdb.connect()
for name in ("httpfs", "postgres_scanner"):
    package = Path(importlib.util.find_spec(f"duckdb_extension_{name}").origin).parent
    connection.execute(f"load '{package / 'extensions' / f'v{duckdb.__version__}' / f'{name}.duckdb_extension'}'")
# The first lines of the page load the same extensions from DuckDB's own site.
statements = [one for one in Path(sys.argv[1]).read_text().split(";\n") if not one.startswith(("install", "load"))]
rows = [connection.execute(one).fetchall() for one in statements if one.strip()]
print(json.dumps([[list(row) for row in answer] for answer in rows]))
