/** SQL statements as nobody would list them: made from the catalogue of a server, seeded. */
import type { Db } from '../store/db/pool.ts';
import { type Draw, drawing } from './draw.ts';

/**
 * `question`: reads the views as an analyst would. `function`: calls any function of the catalogue. `change`: tries to change, lock or
 * read what is not a view. `hungry`: runs without end or takes memory. `broken`: another statement with its parts taken out, swapped or
 * repeated.
 */
export type Kind = 'question' | 'function' | 'change' | 'hungry' | 'broken';
export type Statement = { readonly kind: Kind; readonly sql: string };

export type Catalogue = {
  readonly views: readonly { readonly name: string; readonly columns: readonly string[] }[];
  /** Everything that can be named in a FROM, views among them. */
  readonly relations: readonly string[];
  readonly functions: readonly { readonly name: string; readonly types: readonly string[] }[];
};

export async function readCatalogue(db: Pick<Db, 'query'>): Promise<Catalogue> {
  const { rows: views } = await db.query<{ name: string; columns: string[] }>(
    `select c.relnamespace::regnamespace || '.' || c.relname as name, array_agg(quote_ident(a.attname) order by a.attnum) as columns from pg_class c join pg_attribute a on a.attrelid = c.oid and a.attnum > 0
     where c.relnamespace in ('traj'::regnamespace, 'report'::regnamespace) and c.relkind = 'v' group by 1 order by 1`,
  );
  const { rows: relations } = await db.query<{ name: string }>(
    `select format('%I.%I', n.nspname, c.relname) as name from pg_class c join pg_namespace n on n.oid = c.relnamespace
     where c.relkind in ('r', 'p', 'v', 'S', 'm') and n.nspname !~ '^pg_(toast|temp)' order by 1`,
  );
  const { rows: functions } = await db.query<{ name: string; types: string[] }>(
    `select format('%I.%I', n.nspname, p.proname) as name, array(select format_type(t.type, null) from unnest(p.proargtypes) with ordinality t (type, place) order by place) as types
     from pg_proc p join pg_namespace n on n.oid = p.pronamespace where p.prokind in ('f', 'p') order by 1, 2`,
  );
  return { views, relations: relations.map(({ name }) => name), functions };
}

/** The same statements for the same seed and catalogue. */
export function statementsOf(catalogue: Catalogue, count: number, seed: number): readonly Statement[] {
  const draw = drawing(seed);
  const whole = (): Statement => {
    const share = draw.uniform();
    if (share < 0.4) return { kind: 'function', sql: functionCall(draw, catalogue) };
    if (share < 0.7) return { kind: 'change', sql: change(draw, catalogue) };
    if (share < 0.95) return { kind: 'question', sql: question(draw, catalogue) };
    return { kind: 'hungry', sql: hungry(draw, catalogue) };
  };
  return draw.list(count, () => {
    const one = whole();
    return draw.chance(0.12) ? { kind: 'broken', sql: broken(draw, one.sql, whole().sql) } : one;
  });
}

const number = (draw: Draw): string => String(draw.one([0, 1, -1, 2, 7, 1000, 2147483647, 0.5, 1e10]));

/** A value of the type, as text that the server reads; null now and then. */
function literalOf(draw: Draw, type: string): string {
  if (draw.chance(0.15)) return `null::${type}`;
  if (type === 'internal' || /^(any|cstring|trigger|event_trigger|record|void|.*handler)/.test(type))
    return number(draw);
  const array = type.endsWith('[]');
  const texts = [
    "''",
    "'x'",
    "'1'",
    "'{}'",
    "'[]'",
    "'/etc/passwd'",
    "'postgresql.conf'",
    "'traj.episodes'",
    "'select 1'",
    "'2026-01-01'",
  ];
  if (array) return `array[${draw.one(texts)}]::${type}`;
  if (/int|numeric|real|double|money|oid/.test(type)) return `(${number(draw)})::${type}`;
  if (type === 'boolean') return draw.one(['true', 'false']);
  return `(${draw.one(texts)})::${type}`;
}

function functionCall(draw: Draw, { functions, views }: Catalogue): string {
  const { name, types } = draw.one(functions);
  const call = `${name}(${types.map((type) => literalOf(draw, type)).join(', ')})`;
  const { name: view } = draw.one(views);
  return draw.one([
    `select ${call}`,
    `select * from ${call} as f`,
    `select ${call} from ${view} limit 3`,
    `select 1 from ${view} where (${call})::text is not null limit 1`,
    `with f as materialized (select ${call} as v) select count(*) from f`,
    `select v.*, f.* from ${view} v cross join lateral ${call} as f limit 2`,
    `values (${call})`,
    `explain analyze select ${call}`,
    `call ${call}`,
  ]);
}

function change(draw: Draw, { relations, functions }: Catalogue): string {
  const relation = draw.one(relations);
  const other = draw.one(relations);
  const { name: call } = draw.one(functions);
  const verb = draw.one([
    `delete from ${relation}`,
    `update ${relation} set ${draw.one(['key', 'episode_id', 'outcome', 'state', 'name'])} = null`,
    `insert into ${relation} select * from ${other}`,
    `insert into ${relation} default values`,
    `truncate ${relation} cascade`,
    `merge into ${relation} t using (select 1) s on false when not matched then insert default values`,
  ]);
  return draw.one([
    verb,
    `with w as (${verb} returning *) select * from w`,
    `explain analyze ${verb}`,
    `select 1; ${verb}`,
    `rollback; ${verb}; begin`,
    `prepare p as ${verb}`,
    `do $x$ begin ${verb}; end $x$`,
    `select * from ${relation} for ${draw.one(['update', 'share', 'no key update', 'key share'])}`,
    `select * into made_${draw.integer(0, 9)} from ${relation}`,
    `create ${draw.one(['table', 'temp table', 'unlogged table', 'materialized view', 'view'])} made as select * from ${relation}`,
    `create or replace function ${call}() returns int language ${draw.one(['sql', 'plpgsql', 'c', 'internal'])} as 'select 1'`,
    `alter ${draw.one(['table', 'view', 'index', 'sequence'])} ${relation} ${draw.one(['rename to gone', 'owner to current_user', 'set schema public'])}`,
    `drop ${draw.one(['table', 'view', 'index', 'sequence', 'schema', 'function'])} ${relation} cascade`,
    `copy ${relation} to ${draw.one([`program 'id'`, `'/tmp/troupe-copied'`, 'stdout'])}`,
    `copy (select * from ${relation}) to program 'cat'`,
    `lock table ${relation} in access exclusive mode`,
    `set ${draw.one(['session', 'local'])} ${draw.one(['role', 'session authorization', 'search_path', 'work_mem', 'default_transaction_read_only'])} = ${draw.one(['postgres', 'off', 'facts'])}`,
    `grant all on ${relation} to public`,
    `security label on table ${relation} is 'x'`,
    `comment on table ${relation} is 'x'`,
    `${draw.one(['analyze', 'vacuum', 'vacuum full', 'cluster', 'reindex table', 'refresh materialized view'])} ${relation}`,
    `declare c cursor with hold for select * from ${relation}`,
    `${draw.one(['listen', 'notify', 'unlisten', 'discard', 'checkpoint', 'load', 'savepoint', 'close', 'deallocate', 'reset'])} ${draw.one(['all', 'jobs', "'plpgsql'", 'x'])}`,
    `select * from ${relation}`,
    `table ${relation}`,
  ]);
}

function question(draw: Draw, { views }: Catalogue): string {
  const { name, columns } = draw.one(views);
  const column = draw.one(columns);
  const other = draw.one(columns);
  const from = name;
  return draw.one([
    `select ${column} from ${from} limit ${draw.integer(0, 50)}`,
    `select ${column}::text, count(*) from ${from} group by 1 order by 2 desc, 1`,
    `select count(*), count(distinct ${column}::text), max(${other}::text) from ${from}`,
    `select * from ${from} where ${column}::text > '${draw.integer(0, 9)}' order by ${other}::text`,
    `with w as (select *, row_number() over (partition by ${column}::text order by ${other}::text) as n from ${from}) select * from w where n = 1`,
    `select a.${column}, b.${other} from ${from} a left join ${from} b on a.${column}::text = b.${column}::text limit 20`,
    `(select ${column}::text from ${from}) union (select ${other}::text from ${from}) except (values ('x'))`,
    `select to_json(v) from ${from} v limit 5`,
    `select json_agg(${column}) from ${from}`,
  ]);
}

function hungry(draw: Draw, { views }: Catalogue): string {
  const { name } = draw.one(views);
  const big = 10 ** draw.integer(5, 9);
  return draw.one([
    `with recursive t (n) as (select 1 union all select n + 1 from t) select count(*) from t`,
    `select count(*) from generate_series(1, ${big}) a, generate_series(1, ${big}) b`,
    `select repeat('x', ${big}) from generate_series(1, 100)`,
    `select array_agg(repeat('x', 1000)) from generate_series(1, ${big})`,
    `select array_fill(0, array[${big}])`,
    `select count(*) from ${name} a, ${name} b, ${name} c, generate_series(1, ${big})`,
    `select repeat('a', ${draw.integer(20, 40)}) ~ '(a*)*(a*)*(a*)*b'`,
    `select ${big}::numeric ^ ${draw.integer(100, 10_000)}`,
    `select n from generate_series(1, ${big}) n order by md5(n::text)`,
    `select ${'('.repeat(draw.integer(10, 5000))}1`,
  ]);
}

const JOINTS = /(\s+|[(),;])/;

function broken(draw: Draw, sql: string, next: string): string {
  const parts = sql.split(JOINTS).filter((part) => part !== '');
  const at = draw.integer(0, parts.length - 1);
  const rest = next.split(JOINTS);
  return draw.one([
    () => parts.toSpliced(at, 1).join(''),
    () => parts.toSpliced(at, 0, parts[draw.integer(0, parts.length - 1)]!).join(''),
    () => [...parts.slice(0, at), ...rest.slice(draw.integer(0, rest.length - 1))].join(''),
    () =>
      parts
        .toSpliced(at, 0, draw.one([';', "'", '"', '--', '/*', '$$', '\\', 'é', '\u202e', '\u0000', '::', '$1']))
        .join(''),
    () => `${sql}; ${next}`,
    () => `${sql} /* ${next} */`,
    () => sql.toUpperCase(),
    () => sql.slice(0, draw.integer(0, sql.length)),
  ])();
}
