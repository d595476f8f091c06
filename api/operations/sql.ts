/** Queries in SQL. */
import { Type } from 'typebox';
import { nullable } from './fields.ts';
import { language, local, operation, written } from './operation.ts';
import { MOST, query, timeout } from './sql/fields.ts';

const FORMATS = ['csv', 'arrow', 'parquet'] as const;

export const sql = operation({
  name: 'sql',
  notes:
    'Arrow and Parquet files are read by pandas, polars, DuckDB and pyarrow; the format arrow is an Arrow stream. Types without one of their own there, such as json and numeric, are text in it. In CSV, null is nothing and an empty text is "". `troupe sql url` prints the address at which psql and other programs log in, and `troupe sql listen PORT` takes them at a TCP port.',
  examples: [
    { sql: 'select avg(reward) from traj.episodes' },
    { sql: 'select agent, count(*) from traj.steps group by 1', limit: 100 },
  ],
  input: {
    sql: query,
    limit: Type.Optional(
      written(Type.Integer({ minimum: 0, description: 'rows at most (10000; with out all)' }), { most: MOST.rows }),
    ),
    max_bytes: Type.Optional(
      written(
        Type.Integer({
          minimum: 1,
          description: 'bytes of rows at most (67108864); the row that exceeds them is the last',
        }),
        { most: MOST.bytes },
      ),
    ),
    timeout_ms: timeout,
    format: Type.Optional(
      local(Type.Enum([...FORMATS], { description: 'print the rows in this format' }), 'only', { value: 'form' }),
    ),
    out: Type.Optional(
      local(
        language(Type.String({ description: 'write all rows into this file, .arrow or .parquet' }), (file) => {
          if (!/\.(arrow|parquet)$/.test(file)) throw new Error('should name a file that ends in .arrow or .parquet');
        }),
        'only',
        { value: 'file' },
      ),
    ),
  },
  output: Type.Object({
    columns: Type.Array(Type.Object({ name: Type.String(), type: Type.String({ description: 'as SQL writes it' }) })),
    rows: Type.Array(Type.Array(Type.Unknown())),
    truncated: nullable(
      Type.Boolean({ description: 'a cap cut off further rows; null where a file has as many rows as it may' }),
    ),
    written: Type.Optional(
      Type.Object(
        { file: nullable(Type.String()), rows: Type.Integer(), bytes: Type.Optional(Type.Integer()) },
        { description: 'where the rows are, if not here; null is standard output' },
      ),
    ),
  }),
  scope: 'sql',
  changes: false,
  body: true,
  live: true,
  prints: ({ format }) => format !== undefined,
  run: async () => (await import('./sql/run.ts')).sql,
  text: async () => (await import('./sql/text.ts')).answered,
});
