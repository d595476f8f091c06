"""Reads the views with pandas and DuckDB at the address that is given, and prints what came as JSON."""

import importlib.util
import json
import sys
from pathlib import Path

import duckdb
import pandas
import psycopg
import sqlalchemy

url = sys.argv[1]
QUERY = "select role, count(*) as steps from {}steps group by 1 order by 1"


def with_pandas():
    engine = sqlalchemy.create_engine(url.replace("postgresql:", "postgresql+psycopg:"))
    counts = pandas.read_sql(QUERY.format("traj."), engine)
    episodes = pandas.read_sql_table("episodes", engine, schema="traj")
    views = [name for schema in ("traj", "report") for name in sqlalchemy.inspect(engine).get_view_names(schema=schema)]
    solved = pandas.read_sql("select count(*) as n from outcomes where solved", engine)["n"][0]
    return {"counts": counts.to_numpy().tolist(), "episodes": len(episodes), "views": len(views), "solved": int(solved)}


def with_duckdb():
    package = Path(importlib.util.find_spec("duckdb_extension_postgres_scanner").origin).parent
    extension = package / "extensions" / f"v{duckdb.__version__}" / "postgres_scanner.duckdb_extension"
    con = duckdb.connect()
    con.execute(f"load '{extension}'")
    con.execute(f"attach '{url}' as troupe (type postgres, read_only, schema 'traj')")
    counts = con.execute(QUERY.format("troupe.traj.")).fetchall()
    episodes = con.execute("select count(*) from troupe.traj.episodes").fetchone()[0]
    return {"counts": [list(row) for row in counts], "episodes": episodes}


def refused():
    """The statements that went through, of those that must not."""
    through = []
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("set default_transaction_read_only = off")
        for sql in (
            "select * from troupe.events",
            "delete from traj.episodes",
            "create table public.mine (a int)",
            "select pg_sleep(1)",
            "set role troupe",
            "set temp_file_limit = -1",
        ):
            try:
                connection.execute(sql)
                through.append(sql)
            except psycopg.Error:
                pass
    return through


print(json.dumps({"pandas": with_pandas(), "duckdb": with_duckdb(), "through": refused()}))
