/** Every field of every event, changed by itself, and the column of a view in which the change shows. */
import type { TSchema } from 'typebox';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { decodeDraft } from '../../../ingest/events/decode.ts';
import { type Draft, type Event, type EventName, VOCABULARY } from '../../../ingest/events/events.ts';
import { postgresLog } from '../../../ingest/log/postgres.ts';
import { projectAll } from '../../../store/projecting/projector.ts';
import { freshDatabase, type TestDatabase } from '../../support/database.ts';
import { COLUMNS, type Data, KEPT, NEEDS } from './support/field-columns.ts';

type Schema = TSchema & {
  readonly type?: string;
  readonly anyOf?: readonly Schema[];
  readonly enum?: readonly string[];
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly required?: readonly string[];
  readonly items?: Schema;
  readonly pattern?: string;
};

const VIEWS = ['tasks', 'teams', 'episodes', 'agents', 'steps', 'messages', 'tool_calls', 'decisions', 'observations'];
VIEWS.push(
  'feedback',
  'datasets',
  'dataset_rows',
  'jobs',
  'job_metrics',
  'checkpoints',
  'releases',
  'redactions',
  'events',
);
const TABLES = ['tasks', 'teams', 'episodes', 'agents', 'calls', 'steps', 'messages', 'tool_calls', 'decisions'];
TABLES.push('observations', 'feedback', 'artifacts', 'jobs', 'judgings', 'checkpoints', 'releases');

/** Without null and behind what may be absent. */
const plain = (schema: Schema): Schema => {
  const known = schema.anyOf?.filter((one) => one.type !== 'null');
  return known?.length ? plain(known[0]!) : schema;
};

/** Two values of a field that its schema allows. `world` stands in all ids and names, so that the rows are found again. */
function sampleOf(schema: Schema, world: string, which: 0 | 1): unknown {
  const of = plain(schema);
  const options = of.enum;
  if (options !== undefined) return options[which];
  if (of.pattern !== undefined) return (which === 0 ? 'a' : 'b').repeat(64);
  switch (of.type) {
    case 'string':
      return `${world} ${which === 0 ? 'one' : 'two'}`;
    case 'integer':
      return which;
    case 'number':
      return which === 0 ? 0.25 : 0.5;
    case 'boolean':
      return which === 1;
    case 'array':
      return [sampleOf(of.items!, world, which)];
    case 'object':
      return of.properties === undefined ? { name: `${world} ${which}` } : requiredOf(of, world, which);
    default:
      return `${world} ${which === 0 ? 'one' : 'two'}`;
  }
}

const requiredOf = (schema: Schema, world: string, which: 0 | 1): Data =>
  Object.fromEntries((schema.required ?? []).map((name) => [name, sampleOf(schema.properties![name]!, world, which)]));

/** Fields of candidates and of targets count one by one. */
const OPENED = new Set(['choices', 'target']);
const fieldsOf = (name: EventName): string[] =>
  Object.entries(VOCABULARY[name].properties as Record<string, Schema>).flatMap(([field, schema]) => {
    const inner = plain(schema).type === 'array' ? plain(plain(schema).items!) : plain(schema);
    return OPENED.has(field) ? Object.keys(inner.properties ?? {}).map((one) => `${field}.${one}`) : [field];
  });

/** The data of an event with its required fields alone, and the same with one field changed. */
function twoOf(name: EventName, field: string, world: string): readonly [Data, Data] {
  const schema = VOCABULARY[name] as unknown as Schema;
  const { base: general, bases, values } = NEEDS[name]?.(world) ?? {};
  const base: Data = { ...requiredOf(schema, world, 0), ...general, ...bases?.[field] };
  const [outer, inner] = field.split('.') as [string, string?];
  const own = schema.properties![outer]!;
  if (inner === undefined) return [base, { ...base, [outer]: values?.[field] ?? sampleOf(own, world, 1) }];
  const isList = plain(own).type === 'array';
  const inside = isList ? plain(plain(own).items!) : plain(own);
  const before = (isList ? (base[outer] as Data[])[0] : base[outer]) ?? requiredOf(inside, world, 0);
  const after = { ...(before as Data), [inner]: values?.[field] ?? sampleOf(inside.properties![inner]!, world, 1) };
  const wrapped = (one: unknown) => ({ ...base, [outer]: isList ? [one] : one });
  return [wrapped(before), wrapped(after)];
}

const CASES = (Object.keys(VOCABULARY) as EventName[]).flatMap((name) =>
  fieldsOf(name).map((field) => ({ name, field })),
);

function decoded(name: EventName, data: Data, id: string): Event {
  const draft = { name, source: '/fields', id, time: '2026-09-10T10:00:00Z', data } as unknown as Draft;
  const { event, refusal } = decodeDraft(draft) as { event: Event; refusal?: unknown };
  if (refusal) throw new Error(`${name}: ${JSON.stringify(refusal)} ${JSON.stringify(data)}`);
  return event;
}

/** The columns in which the rows of two worlds differ, but for their names; columns that count or order what was read left out. */
function changed(a: Columns, b: Columns): string[] {
  const text = (columns: Columns, column: string) => JSON.stringify(columns.get(column)?.toSorted());
  return [...new Set([...a.keys(), ...b.keys()])]
    .filter((column) => !/\.(?:position|revision|[a-z_]*version_(?:id|source|time))$/.test(column))
    .filter((column) => text(a, column) !== text(b, column));
}

/** What a world shows in each column, as text in which its name is left out. */
type Columns = Map<string, string[]>;

describe('a field of an event', () => {
  let fresh: TestDatabase;
  const seen = new Map<string, Columns>();
  beforeAll(async () => {
    fresh = await freshDatabase();
    const events = CASES.flatMap(({ name, field }, i) =>
      [0, 1].flatMap((which) => {
        const world = `w${i}${which === 0 ? 'a' : 'b'}`;
        const beside = NEEDS[name]?.(world).events ?? [];
        return [
          ...beside.map(([of, data], n) => decoded(of, data, `${world} given ${n}`)),
          decoded(name, twoOf(name, field, world)[which]!, `${world} the event`),
        ];
      }),
    );
    await postgresLog(fresh.db).append(events);
    await projectAll(fresh.db);
    const relations = [...VIEWS.map((name) => ['traj', name]), ...TABLES.map((name) => ['facts', name])];
    for (const [schema, name] of relations) {
      const { rows } = await fresh.db.query<{ row: Data; text: string }>(
        `select to_json(r) as row, to_json(r)::text as text from ${schema}.${name} r`,
      );
      for (const { row, text } of rows) {
        const world = /\bw\d+[ab]\b/.exec(text)?.[0] ?? '';
        const columns: Columns = seen.get(world) ?? new Map();
        seen.set(world, columns);
        for (const [column, value] of Object.entries(row)) {
          const place = schema === 'traj' ? `${name}.${column}` : `facts.${name}.${column}`;
          columns.set(place, [...(columns.get(place) ?? []), JSON.stringify(value ?? null).replaceAll(world, '')]);
        }
      }
    }
  }, 240_000);
  afterAll(() => fresh.close());

  it('is named with its column, in every event, and no field is named that no event has', () => {
    for (const name of Object.keys(VOCABULARY) as EventName[])
      expect(Object.keys(COLUMNS[name]).sort(), name).toEqual(fieldsOf(name).sort());
  });

  it.each(CASES.map(({ name, field }, i) => [name, field, COLUMNS[name][field]!, i] as const))(
    'of %s, %s, changed alone, changes %s',
    (_name, _field, column, i) => {
      const columns = changed(seen.get(`w${i}a`)!, seen.get(`w${i}b`)!);
      if (column === KEPT) expect(columns.filter((one) => !one.startsWith('events.'))).toEqual([]);
      expect(columns).toContain(column);
    },
  );
});
