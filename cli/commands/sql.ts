/** `troupe sql`: one read-only query over the views, its plan, the list of the views, and a login for other programs. */
import type { Command } from 'commander';
import { Option } from 'commander';
import { bytesText } from '../../api/operations/bytes.ts';
import { countText, EXIT, TroupeError } from '../../errors.ts';
import type { Db } from '../../store/db/pool.ts';
import type { SqlCaps } from '../../store/explore/sql/sql.ts';
import { databaseCommand, type Flags, untilInterrupted, wholeNumber } from '../command.ts';
import type { OpenDatabase } from '../database.ts';
import { answer, say, table } from '../output.ts';

const FORMATS = ['csv', 'arrow', 'parquet'] as const;

export function addTo(program: Command): void {
  databaseCommand(
    program
      .command('sql')
      .argument('[query]', 'a single SELECT, VALUES or WITH')
      .option('--limit <n>', 'maximum number of rows (10000; with --out all)', wholeNumber('limit'))
      .option('--timeout <ms>', 'maximum milliseconds (30000; with --out an hour)', wholeNumber('timeout'))
      .addOption(new Option('--format <form>', 'output format (default: a table)').choices(FORMATS))
      .option('--out <file>', 'write all rows into this file, .arrow or .parquet')
      .option('--explain', 'print the plan of the query instead of running it')
      .option('--views [name]', 'list the views, or the columns of one')
      .option('--url', 'print the address at which psql and other programs log in, with its password')
      .option('--listen <port>', 'accept such programs at a TCP port of 127.0.0.1', wholeNumber('listen'))
      .addHelpText(
        'after',
        `
Arrow and Parquet files (--out) are read by pandas, polars, DuckDB and pyarrow; --format arrow prints an Arrow stream. Types without one of their own there, such as json and numeric, are text in it. In CSV, null is nothing and an empty text is "".

Examples:
  troupe sql "select avg(reward) from traj.episodes"
  troupe sql "select agent, count(*) from traj.steps group by 1" --json
  troupe sql "select * from traj.steps" --format csv > steps.csv
  troupe sql "select * from traj.steps" --format parquet --limit 50000 > steps.parquet
  troupe sql "select * from traj.steps" --out steps.parquet
  troupe sql "select * from traj.steps where agent = 'solver'" --explain
  troupe sql --views
  troupe sql --views episodes
  psql "$(troupe sql --url)" -c "select count(*) from traj.episodes"
  troupe sql --listen 5433`,
      ),
    async (opened, [sql], flags) => {
      requireOneAnswer(sql, flags);
      if (flags.url) return printUrl(opened, flags);
      if (flags.listen !== undefined) return takeTools(opened, flags);
      // A login of its own that can read the views and nothing else; where the server does not let us make one, ours, read only.
      const { openReader } = await import('../../store/db/reader.ts');
      const reader = await openReader(opened.database);
      try {
        if (flags.views !== undefined) await printViews(opened.db, flags);
        else await runQuery(reader ?? opened.db, sql!, opened, flags);
      } finally {
        await reader?.close();
      }
      return EXIT.done;
    },
  );
}

/** A command does one thing: options that contradict each other are refused. */
function requireOneAnswer(sql: string | undefined, flags: Flags): void {
  const asked = (['views', 'url', 'listen', 'explain', 'out', 'format'] as const).filter(
    (name) => flags[name] !== undefined,
  );
  const without = (['views', 'url', 'listen'] as const).find((name) => flags[name] !== undefined);
  if (asked.length > 1)
    throw new TroupeError('usage', `--${asked[0]} and --${asked[1]} do not go together; give one of them.`);
  if (without !== undefined && sql !== undefined)
    throw new TroupeError('usage', `--${without} takes no query; give one of them.`);
  if (without === undefined && sql === undefined)
    throw new TroupeError('usage', 'Missing query: troupe sql "select …".', {
      hint: '`troupe sql --views` lists the views.',
    });
  const ignored = without !== undefined ? ['limit', 'timeout'] : flags.explain ? ['limit'] : [];
  const idle = ignored.find((name) => flags[name] !== undefined);
  if (idle !== undefined) throw new TroupeError('usage', `--${idle} has no effect with --${asked[0]}.`);
  const { format, json = false } = flags;
  if (format !== undefined && json)
    throw new TroupeError('usage', '--format and --json do not go together; give one of them.');
  if (flags.format !== undefined && flags.format !== 'csv' && process.stdout.isTTY)
    throw new TroupeError('usage', `--format ${flags.format} prints bytes; redirect them: > answer.${flags.format}`);
  const out = flags.out as string | undefined;
  if (out !== undefined && !/\.(arrow|parquet)$/.test(out))
    throw new TroupeError('usage', `--out should name a file that ends in .arrow or .parquet, got ${out}.`);
}

/** @throws TroupeError `sql_refused` where the server lets no login be made */
async function loginOf({ database }: OpenDatabase): Promise<URL> {
  const { noReader, toolAddress } = await import('../../store/db/reader.ts');
  const address = await toolAddress(database);
  if (address === null) throw noReader();
  return address;
}

/** As libpq reads it: a socket's folder stands behind the question mark. */
function urlOf({ username, password, hostname, port, pathname, href }: URL): string {
  if (!hostname.startsWith('%2F')) return href.replace(/^postgres:/, 'postgresql:');
  return `postgresql://${username}:${password}@${pathname}?host=${hostname}&port=${port || 5432}`;
}

async function printUrl(opened: OpenDatabase, flags: Flags): Promise<number> {
  const url = urlOf(await loginOf(opened));
  answer(flags, { url }, url);
  if (opened.database.embedded) say('The embedded server runs while `troupe up` or `troupe sql --listen` does.');
  return EXIT.done;
}

async function takeTools(opened: OpenDatabase, flags: Flags): Promise<number> {
  if (!opened.database.embedded)
    throw new TroupeError(
      'usage',
      '--listen is for the embedded server; DATABASE_URL names one with a port of its own.',
      {
        hint: '`troupe sql --url` prints the address at which programs log in there.',
      },
    );
  const address = await loginOf(opened);
  const [{ listenError }, { openToolPort }, { watchTools }, { BACKEND_BYTES, readerRole, toolRole, TOOL_MS }] =
    await Promise.all([
      import('../../api/http/serve.ts'),
      import('../../store/server/tool-port.ts'),
      import('../../store/server/tool-clock.ts'),
      import('../../store/db/reader.ts'),
    ]);
  const socket = `${decodeURIComponent(address.hostname)}/.s.PGSQL.${address.port || 5432}`;
  const role = toolRole(opened.database);
  const port = Number(flags.listen);
  const login = { user: role, database: opened.database.project };
  const listening = await openToolPort(port, socket, login).catch((error) => {
    throw listenError(error, { host: '127.0.0.1', port, flag: '--listen' });
  });
  address.hostname = '127.0.0.1';
  address.port = String(listening.port);
  const url = urlOf(address);
  answer(flags, { url, port: listening.port }, url);
  say(`Programs log in at port ${listening.port} of this machine · Ctrl-C ends it.`);
  const signal = untilInterrupted();
  const own = readerRole(opened.database);
  await watchTools(opened.db, role, { ms: TOOL_MS, bytes: BACKEND_BYTES, own, signal });
  await listening.close();
  return EXIT.done;
}

async function printViews(db: Db, flags: Flags): Promise<void> {
  const { bareName, listViews, nearestView } = await import('../../store/explore/sql/views.ts');
  const views = await listViews(db);
  if (flags.views === true) {
    return answer(flags, { views }, () => views.map(({ name, about }) => `${name}\n  ${about ?? ''}`).join('\n'));
  }
  const wanted = String(flags.views);
  const view = views.find(({ name }) => name === wanted.toLowerCase() || bareName(name) === wanted);
  if (view === undefined) {
    const names = views.map(({ name }) => name);
    const meant = nearestView(wanted, views);
    throw new TroupeError('not_found', `There is no view ${wanted}.${meant ? ` Did you mean ${meant}?` : ''}`, {
      expected: names.join(', '),
      got: wanted,
      hint: '`troupe sql --views` lists them.',
    });
  }
  const columns = view.columns.map(({ name, type, note }) => [name, type, note ?? '']);
  answer(flags, view, () => `${view.name}: ${view.about ?? ''}\n${table(['column', 'type', 'note'], columns)}`);
}

async function runQuery(db: Db, sql: string, { patiently }: OpenDatabase, flags: Flags): Promise<void> {
  const caps: SqlCaps = {
    ...(flags.timeout === undefined ? {} : { timeoutMs: Number(flags.timeout) }),
    ...(flags.limit === undefined ? {} : { limit: Number(flags.limit) }),
  };
  if (flags.explain) {
    const { explain } = await import('../../store/explore/sql/explain.ts');
    const plan = await patiently(() => explain(db, sql, caps));
    answer(flags, { plan }, plan.join('\n'));
    return;
  }
  if (flags.out !== undefined) {
    const out = String(flags.out);
    const { askIntoFile } = await import('../../store/explore/sql/sql-file.ts');
    const written = await askIntoFile(db, sql, out, caps);
    return answer(
      flags,
      { file: out, ...written },
      `${countText(written.rows, 'row')} of ${countText(written.columns.length, 'column')} in ${out}, ${bytesText(written.bytes)}.`,
    );
  }
  if (flags.format !== undefined) {
    const { rows, truncated } = await printed(db, sql, caps, flags.format as (typeof FORMATS)[number]);
    if (truncated) sayCut(rows);
    return;
  }
  const { ask } = await import('../../store/explore/sql/sql.ts');
  const { inJson } = await import('../../store/explore/sql/sql-text.ts');
  const found = await patiently(() => ask(db, sql, caps));
  const { json = false } = flags;
  const rows = json ? found.rows.map((row) => row.map(inJson)) : found.rows;
  const heads = found.columns.map((column) => column.name);
  answer(flags, { ...found, rows }, () => table(heads, rows));
  if (found.truncated && !json) sayCut(rows.length);
}

/** Not tried again where the database goes away: some of it is printed already. */
async function printed(db: Db, sql: string, caps: SqlCaps, format: (typeof FORMATS)[number]) {
  if (format === 'csv') {
    const { askAsText, CSV_FORM } = await import('../../store/explore/sql/sql-text.ts');
    return askAsText(db, sql, CSV_FORM, caps, write);
  }
  const { askAsArrow } = await import('../../store/explore/sql/sql-file.ts');
  if (format === 'arrow') return askAsArrow(db, sql, caps, write);
  const parts: Uint8Array[] = [];
  const end = await askAsArrow(db, sql, caps, (bytes) => {
    parts.push(bytes);
  });
  const { parquetOf } = await import('../../store/datasets/parquet.ts');
  for await (const part of parquetOf([Buffer.concat(parts)])) await write(part);
  return end;
}

const write = (bytes: string | Uint8Array): Promise<void> =>
  new Promise((resolve, reject) => {
    process.stdout.write(bytes, (error) => (error ? reject(error) : resolve()));
  });

const sayCut = (rows: number): void =>
  say(`Only the first ${rows} rows are shown; raise --limit for more, or use --out (an answer also ends at 64 MiB).`);
