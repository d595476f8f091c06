/**
 * A table, declared once: its columns, the event field each comes from, and a function where it is more than that. The row builder, the
 * types and order of COPY, the statements and the page of docs follow from it, and a test compares it with the SQL of the baseline.
 *
 * A row is a pure function of one effective event. Each group of columns belongs to one kind of event and carries the version of the
 * event that wrote it, so the order of arrival does not matter and replay gives the same rows.
 */
import type { EventData, EventName, Matrix } from '../../ingest/events/events.ts';
import type { JsonObject } from '../../ingest/events/json.ts';
import type { ColumnType } from '../../ingest/log/copy-rows.ts';
import type { Body } from '../../ingest/log/split.ts';
import type { Int8, Json, JudgedMethod, Time } from '../db/corrections.ts';
import { BODIES } from './long-texts.ts';
import type { Effective, Rows, Target } from './projection.ts';

/** As SQL writes it; without `not null` the column may be null. */
type Type = ColumnType | `${ColumnType} not null`;
type OfEvent = 'event.key' | 'event.source' | 'event.id' | 'event.time';
/** What a row holds of a value, and the bodies that it names in place of long texts. */
type Store = (key: string, value: never) => { readonly value: unknown; readonly bodies: readonly Body[] };

/** A type alone reads the field of the column's own name. */
type TableColumn<N extends EventName, Item> =
  | Type
  | readonly [
      type: Type,
      from: OfEvent | (keyof Item & string) | ((item: Item, event: Effective<N>) => unknown),
      store?: Store,
    ];

type AnyColumn = Type | readonly [Type, string | ((item: never, event: never) => unknown), Store?];
type Columns = Readonly<Record<string, AnyColumn>>;

/** Columns that the events of some types write. */
type Group<Version extends string | null = string | null, C extends Columns = Columns> = {
  readonly of: readonly EventName[];
  /** What of an event makes a row each; without it, its data makes one. */
  readonly each: ((event: never) => readonly object[]) | undefined;
  /** The column of the version, and where it is not that of the event, a function. Null for rows that only ever appear. */
  readonly version: Version | readonly [Version & string, (item: never, event: never) => string];
  readonly columns: C;
};

/** Declares columns that each event of these types writes to one row. */
export const group = <
  N extends EventName,
  const C extends Readonly<Record<string, TableColumn<N, EventData<N>>>>,
  const Version extends string | null = 'version',
>(
  of: N | readonly N[],
  spec: {
    readonly version?: Version | readonly [Version & string, (data: EventData<N>, event: Effective<N>) => string];
    readonly columns: C;
  },
): Group<NoInfer<Version>, C> => ({ of: [of].flat(), each: undefined, version: 'version' as Version, ...spec });

/** Declares columns that events of these types write to as many rows as `each` gives items. */
export const groupOfEach = <
  N extends EventName,
  Item extends object,
  const C extends Readonly<Record<string, TableColumn<N, NoInfer<Item>>>>,
  const Version extends string | null = 'version',
>(
  of: N | readonly N[],
  each: (event: Effective<N>) => readonly Item[],
  spec: { readonly version?: Version; readonly columns: C },
): Group<NoInfer<Version>, C> => ({ of: [of].flat(), each, version: 'version' as Version, ...spec });

/** Adds the rows that it builds. */
type Builder = (event: Effective, to: Rows[number][]) => void;

/** Columns that no event writes, each with what it says. */
type Also = Readonly<Record<string, readonly [Type, string]>>;

/** A table of schema facts. */
export type Table<
  Name extends string = string,
  K extends Columns = Columns,
  G extends readonly Group[] = readonly Group[],
  A extends Also = Also,
> = {
  readonly name: Name;
  readonly about: string;
  readonly keys: K;
  readonly groups: G;
  readonly also: A;
  readonly targets: readonly Target[];
  /** What builds the rows of an event, by the name of the event; together with the bodies that they name. */
  readonly builders: readonly (readonly [EventName, Builder])[];
};

/** Declares a table. */
export function table<
  const Name extends string,
  const K extends Columns,
  const G extends readonly Group[] = readonly [],
  const A extends Also = Record<never, never>,
>(
  name: Name,
  about: string,
  {
    keys,
    groups = [] as readonly Group[] as G,
    also = {} as A,
  }: { readonly keys: K; readonly groups?: G; readonly also?: A },
): Table<Name, K, G, A> {
  const targets = groups.map(({ version, columns }): Target => {
    const named = typeof version === 'string' || version === null ? version : version[0];
    return { name: `${name}_${named}`, table: name, keys: typesOf(keys), columns: typesOf(columns), version: named };
  });
  const builders = groups.flatMap((one, i) => {
    const build = builderOf(targets[i]!, keys, one);
    return one.of.map((event) => [event, build] as const);
  });
  return { name, about, keys, groups, also, targets, builders };
}

/** What JSON of a column of this name, or of this column of a table, holds; any other may hold anything. */
type Held = {
  readonly tags: JsonObject;
  readonly unmapped: JsonObject;
  readonly budgets: JsonObject;
  readonly params: JsonObject;
  readonly taxonomy: JsonObject;
  readonly matrix: Matrix;
  readonly flags: string[];
  readonly 'judgings.episodes': string[];
  readonly 'judgings.methods': readonly JudgedMethod[];
  readonly 'teams.agents': readonly JsonObject[];
  readonly 'teams.edges': readonly (readonly string[])[];
};
type HeldIn<T extends string, Name extends string> = `${T}.${Name}` extends keyof Held
  ? Held[`${T}.${Name}`]
  : Name extends keyof Held
    ? Held[Name]
    : unknown;

type Value<S extends string, T extends string, Name extends string> = S extends `${infer One}[]`
  ? Value<One, T, Name>[]
  : S extends 'text' | 'uuid'
    ? string
    : S extends 'boolean'
      ? boolean
      : S extends 'timestamptz'
        ? Time
        : S extends 'json' | 'jsonb'
          ? Json<HeldIn<T, Name>>
          : S extends 'bigint'
            ? // A seed alone may be larger than a number holds.
              Name extends 'seed'
              ? number | string
              : Int8
            : number;

type Declared<C> = C extends readonly [infer S extends string, ...unknown[]] ? S : C & string;
type Cell<S extends string, T extends string, Name extends string> = S extends `${infer Bare} not null`
  ? Value<Bare, T, Name>
  : Value<S, T, Name> | null;
type Cells<C, T extends string> = { [Name in keyof C & string]: Cell<Declared<C[Name]>, T, Name> };
type All<Union> = (Union extends unknown ? (one: Union) => void : never) extends (all: infer I) => void ? I : never;

/** A row of a table, as kysely reads and writes it. */
export type RowOf<One> =
  One extends Table<infer T, infer K, infer G, infer A>
    ? { [Name in keyof K & string]: Value<Declared<K[Name]>, T, Name> } & All<
        { [I in keyof G]: Cells<G[I]['columns'], T> }[number]
      > & {
          [I in Exclude<Extract<G[number], Group>['version'], null | readonly unknown[]>]: G['length'] extends 1
            ? string
            : string | null;
        } & Cells<A, T>
    : never;

/** The type of a column without `not null`. */
export const typeOf = (column: AnyColumn): ColumnType =>
  (typeof column === 'string' ? column : column[0]).replace(' not null', '') as ColumnType;

const typesOf = (columns: Readonly<Record<string, AnyColumn>>): Readonly<Record<string, ColumnType>> =>
  Object.fromEntries(Object.entries(columns).map(([name, column]) => [name, typeOf(column)]));

/** Written out as one function with one literal, since it runs for every event. */
function builderOf(target: Target, keys: Table['keys'], { each, version, columns }: Group): Builder {
  const given: unknown[] = [target, BODIES];
  const use = (value: unknown): string => `given${given.push(value) - 1}`;
  const member = (name: string, column: AnyColumn): string => {
    const [, from, store] = typeof column === 'string' ? [column, name] : column;
    const value =
      typeof from === 'function'
        ? `${use(from)}(item, event) ?? null`
        : `${from.startsWith('event.') ? from : `item[${JSON.stringify(from)}]`} ?? null`;
    return `${JSON.stringify(name)}: ${store ? `stored(event.key, ${value}, ${use(store)}, bodies)` : value}`;
  };
  const members = Object.entries({ ...keys, ...columns }).map(([name, column]) => member(name, column));
  if (typeof version === 'string') members.push(`${JSON.stringify(version)}: event.version`);
  else if (version !== null) members.push(`${JSON.stringify(version[0])}: ${use(version[1])}(item, event)`);
  const row = `{ ${members.join(', ')} }`;
  const text = `return (event, out) => {
    const bodies = [];
    ${each ? `const rows = []; for (const item of ${use(each)}(event)) rows.push(${row});` : `const item = event.data; const rows = [${row}];`}
    if (rows.length > 0) out.push([given0, rows]);
    if (bodies.length > 0) out.push([given1, bodies]);
  }`;
  return new Function('stored', ...given.map((_, i) => `given${i}`), text)(stored, ...given) as Builder;
}

function stored(key: string, whole: unknown, store: (key: string, value: unknown) => ReturnType<Store>, into: Body[]) {
  const { value, bodies } = store(key, whole);
  for (const body of bodies) into.push(body);
  return value;
}

/** The columns of a table as SQL declares them, and the events and fields that each comes from; none where no event writes it. */
export function columnsOf({ keys, groups, also }: Table) {
  const one = (name: string, column: AnyColumn, isKey = false) => {
    const [type, from] = typeof column === 'string' ? [column, name] : column;
    return { name, type: typeOf(column), required: isKey || type.endsWith(' not null'), from };
  };
  return [
    ...Object.entries(keys).map(([name, column]) => ({
      ...one(name, column, true),
      of: groups.flatMap(({ of }) => of),
    })),
    ...groups.flatMap(({ of, columns }) =>
      Object.entries(columns).map(([name, column]) => ({ ...one(name, column), of })),
    ),
    ...groups.flatMap(({ of, version }) =>
      version === null
        ? []
        : {
            ...one(typeof version === 'string' ? version : version[0], groups.length === 1 ? 'text not null' : 'text'),
            of,
            from: 'event.version',
          },
    ),
    ...Object.entries(also).map(([name, [type, about]]) => ({ ...one(name, type), of: [], from: about })),
  ];
}
