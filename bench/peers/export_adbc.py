"""The rows of a query as an Arrow IPC file, by the ADBC driver for PostgreSQL; that file as Parquet; and whether two files hold the same."""

import os

import adbc_driver_postgresql.dbapi as postgres
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.ipc as ipc
import pyarrow.parquet as pq
from lines import serve, timed

connection = None


def connect(question):
    global connection
    connection = postgres.connect(question["url"])
    with connection.cursor() as cursor:
        cursor.execute("set jit = off")
    return {"version": pa.__version__}


def export(question):
    def work():
        rows = 0
        with connection.cursor() as cursor:
            cursor.execute(question["query"])
            reader = cursor.fetch_record_batch()
            with open(question["file"], "wb") as file:
                with ipc.new_file(file, reader.schema) as writer:
                    for batch in reader:
                        writer.write_batch(batch)
                        rows += batch.num_rows
                file.flush()
                os.fsync(file.fileno())
        return rows

    rows, times = timed(work)
    connection.rollback()
    return {"rows": rows, **times}


def parquet(question):
    def work():
        table = ipc.open_file(pa.memory_map(question["arrow"])).read_all()
        with open(question["file"], "wb") as file:
            pq.write_table(table, file, compression="zstd")
            file.flush()
            os.fsync(file.fileno())
        return table.num_rows

    rows, times = timed(work)
    return {"rows": rows, **times}


def table_in(path):
    return pq.read_table(path) if path.endswith(".parquet") else ipc.open_file(pa.memory_map(path)).read_all()


def compare(question):
    """Names of the columns that differ, after both are brought to one type."""
    ours, theirs = (table_in(question[side]) for side in ("ours", "theirs"))
    if ours.num_rows != theirs.num_rows or ours.column_names != theirs.column_names:
        return {"differ": [f"{ours.num_rows} rows of {ours.column_names}, {theirs.num_rows} of {theirs.column_names}"]}
    differ = [name for name in ours.column_names if not same(ours[name], theirs[name])]
    return {"differ": differ, "rows": ours.num_rows, "columns": ours.num_columns}


def same(one, other):
    if isinstance(other.type, pa.BaseExtensionType):
        other = pa.chunked_array([chunk.storage for chunk in other.chunks], other.type.storage_type)
    if one.type != other.type:
        other = pc.cast(other, one.type)
    return one.combine_chunks().equals(other.combine_chunks())


serve({"connect": connect, "export": export, "parquet": parquet, "compare": compare})
