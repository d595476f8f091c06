/** One connection to a database, known by the process of its backend. */
import { type Db, openPool, type PoolOptions } from '../../store/db/pool.ts';

export type Connection = Db & {
  /** Process id of the server's backend. */
  readonly pid: number;
};

/** Opens it at once. @throws TroupeError as the calls of `openPool` do */
export async function openConnection(url: string, options: PoolOptions = {}): Promise<Connection> {
  const pool = openPool(url, { ...options, max: 1 });
  const { rows } = await pool.query<{ pid: number }>('select pg_backend_pid() as pid');
  return { ...pool, pid: rows[0]!.pid };
}
