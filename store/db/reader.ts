/**
 * A login of its own for questions in SQL: it sees the views of the schemas traj and report and nothing else, so that what a question may touch is
 * decided by PostgreSQL and not by us reading its text. On the embedded server it also loses every function that does something:
 * sleeping, locking, notifying, changing settings, looking at other sessions; and each of its backends has a limit of memory.
 */
import { createHmac, hash } from 'node:crypto';
import { TroupeError } from '../../errors.ts';
import { VIEW_SCHEMAS } from '../../migrations/views.ts';
import { endBackend } from '../server/end-backend.ts';
import { limitMemory } from '../server/memory.ts';
import type { Database } from './database.ts';
import { parseAddress, sqlState } from './faults.ts';
import { type Db, openPool, type Session } from './pool.ts';
import { scalarOf, sql } from './query.ts';

/** Functions that are volatile by nature and harmless. */
const HARMLESS = ['random', 'random_normal', 'gen_random_uuid', 'uuidv4', 'uuidv7', 'clock_timestamp', 'timeofday'];
/** Functions that are not volatile and yet give a transaction an id or show other sessions. */
const REVEALING = [
  ...['txid_current', 'pg_current_xact_id', 'pg_stat_get_activity', 'pg_lock_status'],
  ...['pg_stat_get_backend_activity', 'pg_stat_get_backend_idset'],
];

/** Connections of one project's readers, over all processes. */
const CONNECTIONS = 32;

/** Disk that one query may take for sorts and joins. Only a superuser may set it, so only on the embedded server. */
const TEMP_FILES = '1GB';

/** How long a transaction of a tool may last. */
export const TOOL_MS = 300_000;

/** Memory of its own that the backend of a query may have; set on the embedded server. */
export const BACKEND_BYTES = 512 * 1024 * 1024;

type ReaderTarget = Pick<Database, 'db' | 'url' | 'embedded'>;

/**
 * A small pool that logs in as the project's reader, whose role is made or brought up to date first. Null where there can be none:
 * the server's user may not make roles, or came in without a password that the reader's could be derived from. Then whoever asks has
 * only what a read-only transaction forbids. Close it before the database.
 */
export async function openReader(
  database: ReaderTarget,
  { max = 4 }: { readonly max?: number } = {},
): Promise<Db | null> {
  const role = readerRole(database);
  const address = await logIn(database, role);
  if (address === null) return null;
  if (!database.embedded) return openPool(address.href, { max, applicationName: 'troupe sql' });
  const ending = new Set<Promise<void>>();
  const pool = openPool(address.href, {
    max,
    applicationName: 'troupe sql',
    onBackend: (pid) => limitMemory(pid, role, BACKEND_BYTES),
    onCut: (pid) => {
      const ended: Promise<void> = endBackend(database.db, pid, role)
        .catch(() => {})
        .finally(() => ending.delete(ended));
      ending.add(ended);
    },
  });
  return {
    ...pool,
    close: async () => {
      await pool.close();
      await Promise.all(ending);
    },
  };
}

/** The login of our own queries. */
export const readerRole = (database: Pick<Database, 'url'>): string => roleOf(database, 'reader');

/** The login of programs that come to the server themselves (psql, pandas, dashboards); its connections count for itself. */
export const toolRole = (database: Pick<Database, 'url'>): string => roleOf(database, 'tool_reader');

/**
 * The address, with password, at which such a program logs in, with the rights of the reader. It may change its own settings, so of
 * the limits only its rights, its number of connections and its disk hold; `watchTools` is the clock outside. Null as `openReader`.
 */
export const toolAddress = (database: ReaderTarget): Promise<URL | null> =>
  logIn(database, toolRole(database), {
    statement_timeout: TOOL_MS,
    search_path: `${VIEW_SCHEMAS.join(', ')}, pg_catalog`,
  });

const databaseOf = (url: string): string => decodeURIComponent(parseAddress(url).pathname.slice(1));

const roleOf = ({ url }: Pick<Database, 'url'>, suffix: string): string => `${databaseOf(url)}_${suffix}`.slice(0, 63);

/** Makes the role, or brings it up to date (with `settings` in any case), and returns the address at which it logs in; null where there can be none. */
async function logIn(
  { db, url, embedded }: ReaderTarget,
  role: string,
  settings?: Readonly<Record<string, string | number>>,
): Promise<URL | null> {
  const address = parseAddress(url);
  if (address.password === '') return null;
  // Every process derives the same password, so none locks another out; it is as secret as the one it comes from.
  const password = createHmac('sha256', address.password).update(role).digest('base64url');
  const changed = Object.entries(settings ?? {}).map(
    ([name, value]) => `alter role ${quote(role)} set ${name} = ${value};`,
  );
  const text = `${roleText(databaseOf(url), role, password)} ${embedded ? limits(role) : ''} ${changed.join(' ')}`;
  const stamp = hash('sha256', text);
  // A session of tools may change its own role; the stored password would not show it, as it is a salted hash.
  const asMade = async (tx: Session) => settings === undefined && (await isMade(tx, role, stamp));
  try {
    await db.transaction(async (tx) => {
      if (!(await asMade(tx))) {
        await tx.query(`select pg_advisory_xact_lock(hashtext('troupe reader'))`);
        if (!(await asMade(tx))) await tx.query(`${text} comment on role ${quote(role)} is '${stampOf(stamp)}'`);
      }
      if (embedded) await tx.query(LOCK_DOWN);
    });
  } catch (error) {
    if (sqlState(error) === '42501') return null;
    throw error;
  }
  address.username = encodeURIComponent(role);
  address.password = password;
  return address;
}

const stampOf = (sha256: string): string => `made by Troupe as ${sha256}`;

/**
 * Whether the role is as it should be: its comment is the hash of the statements that made it. Making it again would write to a row
 * that all logins read, in each process that opens it. Grants are looked at too: they are of the database, which can be made anew.
 */
async function isMade(tx: Session, role: string, sha256: string): Promise<boolean> {
  const oid = sql`to_regrole(${quote(role)})::oid`;
  return scalarOf(
    tx,
    sql<boolean>`coalesce(shobj_description(${oid}, 'pg_authid') = ${stampOf(sha256)}
      and has_database_privilege(${oid}, current_database(), 'connect')
      and not exists (select from pg_namespace n where n.nspname = any (${[...VIEW_SCHEMAS]}) and not has_schema_privilege(${oid}, n.oid, 'usage'))
      and not exists (select from pg_class c join pg_namespace n on n.oid = c.relnamespace
                      where n.nspname = any (${[...VIEW_SCHEMAS]}) and c.relkind in ('r', 'v', 'm', 'p')
                      and not has_table_privilege(${oid}, c.oid, 'select')), false)`,
  );
}

/** Where `openReader` gave null: who runs SQL queries instead, and why. */
export function withoutReader({ url }: Pick<Database, 'url'>): string {
  const why =
    parseAddress(url).password === ''
      ? 'DATABASE_URL has no password that the one of a login for queries could be made from'
      : 'the user of DATABASE_URL may not make a login for queries';
  return `${why}: \`troupe sql\` runs in read-only transactions of that user, and SQL over HTTP is refused`;
}

/** The error for a caller whose text must not run with the rights of the server's user. */
export const noReader = (): TroupeError =>
  new TroupeError('sql_refused', 'SQL needs a login of its own in the database here, and none could be made.', {
    hint: "Give the database's user CREATEROLE and a password in DATABASE_URL. `troupe sql` works without.",
  });

const quote = (name: string): string => `"${name.replaceAll('"', '""')}"`;

function roleText(database: string, role: string, password: string): string {
  const name = quote(role);
  return `
    do $$ begin
      if not exists (select from pg_roles where rolname = '${role.replaceAll("'", "''")}') then
        create role ${name} login noinherit;
      end if;
    end $$;
    alter role ${name} reset all;
    alter role ${name} in database ${quote(database)} reset all;
    alter role ${name} connection limit ${CONNECTIONS} password '${password}';
    alter role ${name} set default_transaction_read_only = on;
    alter role ${name} set idle_in_transaction_session_timeout = '60s';
    grant connect on database ${quote(database)} to ${name};
    grant usage on schema ${VIEW_SCHEMAS.join(', ')} to ${name};
    grant select on all tables in schema ${VIEW_SCHEMAS.join(', ')} to ${name};
    alter default privileges in schema ${VIEW_SCHEMAS.join(', ')} grant select on tables to ${name};`;
}

/** A parallel worker is a process of its own, which the limit of its backend's memory would not reach. */
const limits = (role: string): string => `
    alter role ${quote(role)} set temp_file_limit = '${TEMP_FILES}';
    alter role ${quote(role)} set max_parallel_workers_per_gather = 0;`;

const texts = (names: readonly string[]): string => `array[${names.map((name) => `'${name}'`).join(', ')}]`;

/** After the first time there is nothing left to revoke, and it costs one look at the catalogue. */
const LOCK_DOWN = `
  do $$ declare f regprocedure; d name; begin
    for f in
      select p.oid from pg_proc p
      where p.pronamespace = 'pg_catalog'::regnamespace
        and (p.provolatile = 'v' and p.proname <> all (${texts(HARMLESS)}) or p.proname = any (${texts(REVEALING)}) or p.proname like '%\\_to\\_xml%')
        and exists (select from aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) a where a.grantee = 0)
    loop
      execute format('revoke execute on routine %s from public', f);
    end loop;
    if has_database_privilege('public', current_database(), 'temporary') then
      execute format('revoke temporary on database %I from public', current_database());
    end if;
    -- Another project's database, and those of the server itself, are none of this login's.
    for d in select datname from pg_database where datname in (current_database(), 'postgres', 'template1')
      and has_database_privilege('public', oid, 'connect')
    loop
      begin
        execute format('revoke connect on database %I from public', d);
      exception when internal_error then null; -- Another process does the same at this moment.
      end;
    end loop;
    if has_table_privilege('public', 'pg_catalog.pg_stat_activity', 'select') then
      revoke select on pg_catalog.pg_stat_activity, pg_catalog.pg_locks from public;
    end if;
  end $$;`;
