/**
 * A program that opens a database, says so on one line, and uses it until its input ends. Tests start it as a process
 * of its own, kill it, or run it as another user. Arguments: the options of `openDatabase` as JSON; a user to become once everything
 * is loaded, who need not be able to read the checkout.
 */
import { TroupeError } from '../../../errors.ts';
import { type DatabaseOptions, openDatabase } from '../../../store/db/database.ts';

const user = Number(process.argv[3] ?? 0);
if (user > 0) {
  process.setgroups!([]);
  process.setgid!(user);
  process.setuid!(user);
}
const started = performance.now();
try {
  const database = await openDatabase(JSON.parse(process.argv[2]!) as DatabaseOptions);
  const { rows } = await database.db.query<{ since: string }>('select pg_postmaster_start_time() as since');
  const ms = Math.round(performance.now() - started);
  console.log(JSON.stringify({ ms, url: database.url, since: rows[0]!.since }));
  for await (const _ of process.stdin);
  await database.close();
} catch (error) {
  if (!(error instanceof TroupeError)) throw error;
  console.error(`${error.code}: ${error.message}`);
  process.exitCode = error.exit;
}
