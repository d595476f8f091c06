/**
 * Proof that no statement of a reader changes anything, whatever it is and wherever it comes in: 2,000 generated statements through
 * `troupe sql`, `POST /v1/sql`, the login of `troupe sql url` and `openProject().sql`, then 32 at once while episodes are recorded. The
 * rows of every table, roles, settings, functions, locks and sequences are the same afterwards; the HTTP server returns no status of a
 * failure of its own, and every statement ends within its time.
 */
import { execFile } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { openProject } from '../cli/open-project.ts';
import { TroupeError } from '../errors.ts';
import { openDatabase } from '../store/db/database.ts';
import { type Db, openPool } from '../store/db/pool.ts';
import { toolAddress } from '../store/db/reader.ts';
import { checksum } from '../store/projecting/rebuilding/checksum.ts';
import { calculatorTeam } from './calculator-team.ts';
import type { Outcome, Proof, Setting } from './proof.ts';
import { loadOn } from './sending.ts';
import { readCatalogue, type Statement, statementsOf } from './sql-statements.ts';
import { runTroupe } from './troupe-process.ts';

const TROUPE = join(import.meta.dirname, '..', 'bin/troupe.js');
const SEED = 14;
const LIMIT_MS = 1500;
/** A statement ends one second after its limit at most; the rest is for the start of a process on a machine that does other work. */
const ENDED_MS = 60_000;
/** What a statement may come to: an answer, or a reason. */
const REASONS: readonly string[] = ['answered', 'sql_refused', 'sql_failed', 'sql_timeout', 'too_large', 'cut off'];

/** How a statement ended: `answered`, a code, or what should not have been. */
type Entry = (sql: string) => Promise<string>;
type Run = { readonly statement: Statement; readonly ended: string; readonly ms: number };

export const proof: Proof = {
  name: 'sql-changes-nothing',
  needs: [],
  async run({ short, scratch, say }: Setting): Promise<Outcome> {
    const lines: string[] = [];
    const check = (what: string, fine: boolean, otherwise: unknown = ''): void => {
      lines.push(fine ? `ok  ${what}` : `NOT OK  ${what}: ${JSON.stringify(otherwise).slice(0, 2000)}`);
      say(lines.at(-1)!);
    };
    const home = join(scratch, 'home');
    const events = join(scratch, 'events.jsonl');
    writeFileSync(events, calculatorTeam(5));
    const project = await openProject({ home });
    await project.import({ paths: [events] });
    const database = await openDatabase({ home, applicationName: 'troupe proof' });
    const server = await runTroupe('serve', { home, env: {} });
    const ingest = await runTroupe('ingest', { home, env: {} });
    const login = await toolAddress(database);
    const tools = openPool(
      `${login!.href}${login!.search ? '&' : '?'}options=${encodeURIComponent(`-c statement_timeout=${LIMIT_MS}`)}`,
      { max: 4 },
    );
    try {
      const statements = statementsOf(await readCatalogue(database.db), short ? 300 : 2000, SEED);
      // Each costs a process: a few of all, and a question in any case.
      const question = statements.findIndex(({ kind }) => kind === 'question');
      const few = statements.filter((_, i) => i === question || i % (short ? 60 : 40) === 0);
      const entries: readonly (readonly [
        name: string,
        entry: Entry,
        statements: readonly Statement[],
        lanes: number,
      ])[] = [
        ['openProject().sql', libraryEntry(project), statements, 4],
        ['POST /v1/sql', httpEntry(server.url), statements, 4],
        // Memory and its own settings are not limited there, which docs/queries.md says.
        [
          'troupe sql url',
          loginEntry(tools),
          statements.filter(({ kind, sql }) => kind !== 'hungry' && !/\brole\b|\buser\b/i.test(sql)),
          4,
        ],
        ['troupe sql', commandEntry(home), few, 2],
      ];
      // The logins are made when they are first used.
      for (const [name, entry] of entries) check(`${name} answers`, (await entry('select 1')) === 'answered');
      const before = await stateOf(database.db);
      for (const [name, entry, asked, lanes] of entries) {
        const runs = await runAll(asked, entry, lanes);
        check(
          `${asked.length} statements through ${name} come to an answer or a reason`,
          ...none(runs, ({ ended }) => !REASONS.includes(ended)),
        );
        check(`each ends within its time through ${name}`, ...none(runs, ({ ms }) => ms > ENDED_MS));
        const questions = runs.filter(({ statement }) => statement.kind === 'question');
        check(
          `${questions.length} of them are questions, and are answered through ${name}`,
          ...none(questions, ({ ended }) => !['answered', 'sql_timeout'].includes(ended)),
        );
        const after = await stateOf(database.db);
        check(
          `nothing is changed through ${name}`,
          same(before, after),
          differing({ ...before.server, ...before.rows }, { ...after.server, ...after.rows }),
        );
      }
      const load = loadOn(ingest.url, 'during', 2);
      const runs = await runAll(statements, patient(httpEntry(server.url)), 32);
      const episodes = await load.stop();
      check(
        `${runs.length} statements, 32 at once, come to an answer or a reason while ${episodes} episodes are recorded`,
        ...none(runs, ({ ended }) => !REASONS.includes(ended)),
      );
      const { rows: kept } = await database.db.query<{ n: number }>(
        `select count(*)::integer as n from troupe.events where source = '/proof'`,
      );
      check('every event that was acknowledged meanwhile is in the log', episodes > 0 && kept[0]!.n >= 5 * episodes, [
        episodes,
        kept,
      ]);
      const after = await stateOf(database.db);
      check(
        'nothing but rows of these events is new',
        same(before.server, after.server),
        differing(before.server, after.server),
      );
    } finally {
      await tools.close();
      await Promise.all([server.end('SIGTERM'), ingest.end('SIGTERM')]);
      await database.close();
      await project.close();
    }
    return { ok: lines.every((line) => line.startsWith('ok')), lines };
  },
};

/**
 * Everything that a statement could have changed: the rows of every table, and what the server knows beside them. Of passwords only that
 * there is one: each process that opens a login sets the same again, with another salt.
 */
async function stateOf(db: Db) {
  const { tables: rows } = await checksum(db);
  const { rows: found } = await db.query<Record<string, unknown>>(
    `select (select count(*) from troupe.job_queue) as jobs, (select count(*) from troupe.api_keys) as keys,
            (select count(*) from troupe.dead_letters) as dead_letters, (select last_value from troupe.dead_letters_dead_letter_id_seq) as sequence,
            (select md5(string_agg(c.oid || c.relname || c.relkind::text || c.relowner || coalesce(c.relacl::text, ''), ',' order by c.oid))
               from pg_class c where c.relnamespace <> 'pg_toast'::regnamespace) as relations,
            (select md5(string_agg(pg_get_viewdef(c.oid), ',' order by c.oid)) from pg_class c where c.relkind = 'v') as views,
            (select md5(string_agg(p.oid || p.proname || p.proowner || coalesce(p.proacl::text, '') || coalesce(p.prosrc, ''), ',' order by p.oid)) from pg_proc p) as functions,
            (select md5(string_agg(rolname || rolsuper::text || rolcreaterole::text || (rolpassword is null)::text || coalesce(rolconfig::text, ''), ',' order by rolname))
               from (select a.*, s.setconfig as rolconfig from pg_authid a left join pg_db_role_setting s on s.setrole = a.oid) r) as roles,
            (select count(*) from pg_description) as comments, (select count(*) from pg_seclabel) as labels, (select count(*) from pg_extension) as extensions,
            (select count(*) from pg_largeobject_metadata) as objects, (select count(*) from pg_prepared_xacts) as prepared,
            (select count(*) from pg_namespace where nspname !~ '^pg_') as schemas, (select pg_postmaster_start_time()) as started`,
  );
  return { rows, server: found[0]! };
}

const same = (a: unknown, b: unknown): boolean => JSON.stringify(a) === JSON.stringify(b);
const differing = (a: Readonly<Record<string, unknown>>, b: Readonly<Record<string, unknown>>) =>
  Object.keys(a).filter((name) => !same(a[name], b[name]));
/** True and nothing, or false and the runs that should not be, a few of them. */
const none = (runs: readonly Run[], wrong: (run: Run) => boolean): [boolean, unknown] => {
  const found = runs.filter(wrong);
  return [runs.length > 0 && found.length === 0, { count: found.length, of: runs.length, first: found.slice(0, 4) }];
};

/** Each statement in its turn, by so many lanes. */
async function runAll(statements: readonly Statement[], entry: Entry, lanes: number): Promise<readonly Run[]> {
  const queue = [...statements].reverse();
  const runs: Run[] = [];
  const lane = async (): Promise<void> => {
    for (let statement = queue.pop(); statement !== undefined; statement = queue.pop()) {
      const began = performance.now();
      const ended = await entry(statement.sql).catch((error: unknown) => `thrown: ${String(error)}`);
      runs.push({ statement, ended, ms: performance.now() - began });
    }
  };
  await Promise.all(Array.from({ length: lanes }, lane));
  return runs;
}

const libraryEntry =
  (project: Awaited<ReturnType<typeof openProject>>): Entry =>
  (sql) =>
    project.sql({ sql, timeout_ms: LIMIT_MS, limit: 1000 }).then(
      () => 'answered',
      (error: unknown) => (error instanceof TroupeError ? error.code : `thrown: ${String(error)}`),
    );

const httpEntry =
  (url: string): Entry =>
  async (sql) => {
    const response = await fetch(`${url}/v1/sql`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ sql, limit: 1000, timeout_ms: LIMIT_MS }),
    });
    // An error after the first MiB closes the connection, so that nobody takes a part for the whole.
    if (response.status === 200)
      return response.text().then(
        () => 'answered',
        () => 'cut off',
      );
    const body = (await response.json()) as { readonly code?: string };
    // An empty text and U+0000 are errors of the request.
    if (response.status === 400 && body.code !== undefined) return 'sql_refused';
    return response.status < 500 || ['busy', 'sql_timeout'].includes(String(body.code))
      ? body.code!
      : `status ${response.status}: ${body.code}`;
  };

/** Four queries run at once in a server; the others are sent again. */
const patient =
  (entry: Entry): Entry =>
  async (sql) => {
    for (;;) {
      const ended = await entry(sql);
      if (ended !== 'busy') return ended;
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  };

/** A session as psql has it: what is sent is run and committed if it can be. A reason is whatever the server says, but for its own failure. */
const loginEntry =
  (tools: Db): Entry =>
  async (sql) => {
    const ended = AbortSignal.timeout(2 * LIMIT_MS);
    return tools
      .transaction((tx) => tx.query(sql), { signal: ended })
      .then(
        () => 'answered',
        (error: unknown) => {
          const { code = '' } = error as { code?: string };
          if (ended.aborted || code === '57014') return 'sql_timeout';
          return code.startsWith('XX') || code.startsWith('58') ? `server error ${code}` : 'sql_failed';
        },
      );
  };

const commandEntry =
  (home: string): Entry =>
  (sql) =>
    new Promise((resolve) => {
      const args = [
        '--home',
        home,
        'sql',
        '--json',
        '--timeout',
        String(LIMIT_MS),
        '--limit',
        '1000',
        '--',
        sql.replaceAll('\u0000', ' '),
      ];
      execFile(process.execPath, [TROUPE, ...args], { maxBuffer: 1 << 28 }, (error, out) => {
        if (error === null) return resolve('answered');
        const code = /"code":\s*"(\w+)"/.exec(out)?.[1] ?? `exit ${error.code}: ${out.slice(0, 200)}`;
        resolve(code === 'usage' ? 'sql_refused' : code);
      });
    });
