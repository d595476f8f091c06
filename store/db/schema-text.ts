/** The types of the tables of the log and of the views that our code reads, as TypeScript, from the catalogue of a migrated database. `npm run schema` writes them. */
import { TroupeError } from '../../errors.ts';
import { VIEW_SCHEMAS } from '../../migrations/views.ts';
import { NARROWER, READ_VIEWS } from './corrections.ts';
import type { Session } from './pool.ts';

const SCHEMAS = { troupe: 'LogTables', traj: 'Views', report: 'Reports' } as const;

type SchemaColumn = {
  readonly schema: keyof typeof SCHEMAS;
  readonly table: string;
  readonly column: string;
  readonly type: string;
  readonly required: boolean;
  readonly filled: boolean;
};

const TYPES: Readonly<Record<string, string>> = {
  text: 'string',
  varchar: 'string',
  name: 'string',
  uuid: 'string',
  numeric: 'string',
  interval: 'string',
  bool: 'boolean',
  int2: 'number',
  int4: 'number',
  oid: 'number',
  float4: 'number',
  float8: 'number',
  int8: 'Int8',
  timestamptz: 'Time',
  json: 'Json',
  jsonb: 'Json',
  bytea: 'Bytes',
};

const isView = (schema: string): boolean => (VIEW_SCHEMAS as readonly string[]).includes(schema);

/** @throws TroupeError `internal` for a type without a line above, and for a correction of a column, or a view, that there is not */
export async function schemaText(db: Session): Promise<string> {
  const { rows: all } = await db.query<SchemaColumn>(COLUMNS);
  const columns = all.filter(({ schema, table }) => !isView(schema) || READ_VIEWS.includes(`${schema}.${table}`));
  const missing = READ_VIEWS.find((view) => !columns.some(({ schema, table }) => `${schema}.${table}` === view));
  if (missing !== undefined)
    throw new TroupeError('internal', `store/db/corrections.ts names ${missing}, and there is no such view.`);
  const named = new Set(columns.map(({ schema, table, column }) => `${schema}.${table}.${column}`));
  for (const name of Object.keys(NARROWER)) {
    if (!named.has(name))
      throw new TroupeError('internal', `store/db/corrections.ts names ${name}, and there is no such column.`);
  }
  const schemas = Object.entries(SCHEMAS).map(([schema, name]) => {
    const own = columns.filter((column) => column.schema === schema);
    const tables = [...new Set(own.map(({ table }) => table))].map((table) => {
      const lines = own.filter((column) => column.table === table).map((one) => `    ${one.column}: ${typeOf(one)};\n`);
      return `  ${table}: {\n${lines.join('')}  };\n`;
    });
    return `/** Schema ${schema}. */\nexport interface ${name} {\n${tables.join('')}}\n`;
  });
  return `${HEAD}\n${schemas.join('\n')}`;
}

const HEAD = `/** The tables of the log and the views as types. Written by \`npm run schema\` from a migrated database: change \`corrections.ts\` instead. */
import type { Bytes, Int8, Json, Time, WithDefault } from './corrections.ts';
`;

function typeOf({ schema, table, column, type, required, filled }: SchemaColumn): string {
  const narrower = NARROWER[`${schema}.${table}.${column}`];
  if (narrower !== undefined) return filled ? `WithDefault<${narrower}>` : narrower;
  const element = TYPES[type.replace(/^_/, '')];
  if (element === undefined)
    throw new TroupeError(
      'internal',
      `store/db/schema-text.ts has no type for ${type} (${schema}.${table}.${column}).`,
    );
  const value = type.startsWith('_') ? `${element}[]` : element;
  const nullable = required ? value : `${value} | null`;
  return filled ? `WithDefault<${nullable}>` : nullable;
}

const COLUMNS = `
  select n.nspname as schema, c.relname as table, a.attname as column, t.typname as type, a.attnotnull as required,
         a.atthasdef or a.attidentity <> '' as filled
  from pg_class c
  join pg_namespace n on n.oid = c.relnamespace
  join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
  join pg_type t on t.oid = a.atttypid
  where n.nspname in (${Object.keys(SCHEMAS)
    .map((schema) => `'${schema}'`)
    .join(', ')}) and c.relkind in ('r', 'v')
  order by n.nspname, c.relname collate "C", a.attnum`;
