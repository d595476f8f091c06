/** The declarations of the tables against the SQL of the baseline and the vocabulary of events. */
import { expect, it } from 'vitest';
import { VOCABULARY } from '../../../ingest/events/events.ts';
import { TABLES } from '../../../store/tables/catalogue.ts';
import { columnsOf } from '../../../store/tables/table.ts';
import { freshDatabase } from '../../support/database.ts';

it('every table of the schema is declared, with every column, its type and whether it may be null', async () => {
  const { db, close } = await freshDatabase();
  try {
    const { rows } = await db.query<{ line: string }>(
      `select concat_ws(' ', c.relname, a.attname, replace(format_type(a.atttypid, null), 'timestamp with time zone', 'timestamptz'),
                        case when a.attnotnull then 'not null' end) as line
       from pg_class c join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
       where c.relnamespace = 'facts'::regnamespace and c.relkind = 'r'`,
    );
    const declared = TABLES.flatMap((table) =>
      columnsOf(table).map(({ name, type, required }) => `${table.name} ${name} ${type}${required ? ' not null' : ''}`),
    );
    expect(declared.toSorted()).toEqual(rows.map(({ line }) => line).sort());
  } finally {
    await close();
  }
});

it('a column that names no field reads one that its events have', () => {
  const unknown = TABLES.flatMap((table) =>
    table.groups.flatMap(({ of, each, columns }) =>
      each
        ? []
        : Object.entries(columns).flatMap(([name, column]) =>
            typeof column !== 'string' || of.every((event) => name in VOCABULARY[event].properties)
              ? []
              : [`${table.name}.${name}`],
          ),
    ),
  );
  expect(unknown).toEqual([]);
});
