/**
 * Where native fields go, for a dry run and for the docs: found by trying. Each field of a record is changed, the record is converted
 * again, and where the change shows is where the field goes.
 */
import type { Draft } from '../events/events.ts';
import { asText, canonicalJson, isRecord } from '../events/json.ts';
import type { Format, NativeRecord } from '../formats/kit/format.ts';

/** Counts the fields of an event that have no place of their own. */
export function countUnmapped(into: Map<string, number>, format: Format, { name, data }: Draft): void {
  const unmapped = (data as { unmapped?: unknown }).unmapped;
  if (!isRecord(unmapped)) return;
  for (const field of fieldsOf(unmapped)) {
    const key = canonicalJson([format.name, `${name}.unmapped.${field}`]);
    into.set(key, (into.get(key) ?? 0) + 1);
  }
}

/** Names of the members, and of the members of objects among them. */
const fieldsOf = (record: Record<string, unknown>): string[] =>
  Object.entries(record).flatMap(([key, member]) =>
    isRecord(member) && Object.keys(member).length > 0 ? Object.keys(member).map((inner) => `${key}.${inner}`) : [key],
  );

/** The counted fields, the most frequent first. */
export const unmappedOf = (counted: ReadonlyMap<string, number>) =>
  [...counted]
    .map(([key, events]) => {
      const [format, field] = JSON.parse(key) as [string, string];
      return { format, field, events };
    })
    .sort((a, b) => b.events - a.events || (a.field < b.field ? -1 : 1));

/** Records of each format that are tried, fields of a record, and places of a field, until one adds nothing to what the others showed. */
const TRIED = 8;
const FIELDS = 400;
const PLACES = 5;
/** Characters of a record that is tried; a longer one is tried without the later items of its lists. */
const SIZE = 12_000;

const MARK = '\u27e6here\u27e7';
const COUNT = 734_512;
const YEAR = '2031';
/** 2031-03-01, in seconds. */
const SECONDS = 1_930_000_000;

/** Where the fields of the records go that its formats convert. */
export function fieldFinder() {
  const seen = new Map<Format, NativeRecord[]>();
  const watched = new Map<Format, Format>();
  const watch = (format: Format): Format => {
    const records: NativeRecord[] = [];
    seen.set(format, records);
    const convert = (record: NativeRecord) => {
      if (records.length < TRIED) records.push(record);
      return format.convert(record);
    };
    return { ...format, convert };
  };
  return {
    /** The format, whose records are kept to be tried. */
    watched(format: Format): Format {
      if (!watched.has(format)) watched.set(format, watch(format));
      return watched.get(format)!;
    },
    /** Each native field with the fields of events in which it shows, format by format. */
    found: () =>
      [...seen].flatMap(([format, records]) =>
        [...targetsOf(format, records)].map(([native, ours]) => ({
          format: format.name,
          native,
          ours: [...ours].join(', '),
        })),
      ),
  };
}

type Place = readonly (string | number)[];

function targetsOf(format: Format, records: readonly NativeRecord[]): ReadonlyMap<string, ReadonlySet<string>> {
  const targets = new Map<string, Set<string>>();
  const tries = new Map<string, number>();
  for (const record of records) {
    const value = shortened(record.value);
    const convert = (native: unknown): readonly Draft[] => {
      try {
        return format.convert({ ...record, value: native, canonical: canonicalJson(native) }).drafts;
      } catch {
        return [];
      }
    };
    const before = shown(convert(value));
    for (const [field, places] of placesIn(value)) {
      const found = targets.get(field) ?? new Set();
      targets.set(field, found);
      for (const place of places) {
        const tried = tries.get(field) ?? 0;
        if (tried >= PLACES) break;
        const size = found.size;
        for (const target of targetsFrom(value, place, before, convert)) found.add(target);
        tries.set(field, size > 0 && found.size === size ? PLACES : tried + 1);
      }
    }
  }
  return targets;
}

/** A record without the later items of its lists, so that it can be converted many times. */
function shortened(value: unknown): unknown {
  for (let items = 64; items > 1; items /= 2) {
    if (canonicalJson(value).length <= SIZE) return value;
    value = cut(value, items);
  }
  return value;
}

const cut = (value: unknown, items: number): unknown =>
  Array.isArray(value)
    ? value.slice(0, items).map((one) => cut(one, items))
    : isRecord(value)
      ? Object.fromEntries(Object.entries(value).map(([name, one]) => [name, cut(one, items)]))
      : value;

/** The fields of a record that say something, items of a list as one field, each with some of its places. */
function placesIn(value: unknown): ReadonlyMap<string, readonly Place[]> {
  const places = new Map<string, Place[]>();
  const walk = (one: unknown, place: Place, field: string): void => {
    if (Array.isArray(one)) for (const [i, item] of one.entries()) walk(item, [...place, i], `${field}[]`);
    else if (isRecord(one))
      for (const [name, item] of Object.entries(one))
        walk(item, [...place, name], field === '' ? name : `${field}.${name}`);
    else if (one !== null && one !== undefined && one !== '') {
      const known = places.get(field) ?? [];
      if (known.length === 0 && places.size >= FIELDS) return;
      if (known.length < PLACES) places.set(field, [...known, place]);
    }
  };
  walk(value, [], '');
  return places;
}

function* targetsFrom(
  value: unknown,
  place: Place,
  before: TrialResult,
  convert: (native: unknown) => readonly Draft[],
): Iterable<string> {
  const old = place.reduce<unknown>((one, key) => (one as Record<string | number, unknown>)[key], value);
  const [changed, isMark] = changeOf(old);
  const everywhere = (): unknown => replaced(value, old, changed);
  let drafts = convert(put(value, place, changed));
  // What refers to something is changed with what it refers to.
  if (drafts.length < before.drafts.length && typeof old === 'string') drafts = convert(everywhere());
  const marked = new Set(drafts.flatMap((draft) => [...targetsIn(draft, isMark)]));
  if (marked.size > 0) yield* firstStated(marked);
  else yield* differences(before, shown(drafts));
}

/** Without what states again: the input of a call what was said before it, events the id of what they are about. */
function firstStated(targets: ReadonlySet<string>): readonly string[] {
  const ids = new Set<string>();
  return [...targets].filter((target) => {
    const id = /\.(?:episode|task|team|agent|call|tool_call)_id$/.exec(target)?.[0];
    if (id === undefined) return targets.size === 1 || !target.startsWith('generation.requested.input');
    const known = ids.has(id);
    ids.add(id);
    return !known;
  });
}

/** Another value of the same kind, and how it is recognised. */
function changeOf(old: unknown): readonly [changed: unknown, isMark: (value: unknown) => boolean] {
  if (typeof old === 'number') {
    const unit = old > 1e9 && old < 2e9 ? 1 : old > 1e12 && old < 2e12 ? 1000 : 0;
    const changed = unit > 0 ? SECONDS * unit : Number.isInteger(old) ? COUNT : COUNT / 1e6;
    return [changed, (value) => value === changed || (unit > 0 && typeof value === 'string' && value.startsWith(YEAR))];
  }
  if (typeof old === 'boolean') return [!old, () => false];
  const text = old as string;
  if (/^\d{4}-\d{2}-\d{2}[T ]\d{2}:/.test(text)) {
    return [YEAR + text.slice(4), (value) => typeof value === 'string' && value.startsWith(YEAR)];
  }
  // JSON in a text stays JSON.
  const changed = text.replace(
    /^(\s*)([[{])(?=\s*(\S))|$/,
    (_, space: string, open: string | undefined, next: string) =>
      open === undefined ? MARK : `${space}${open}"${MARK}"${open === '{' ? ':1' : ''}${/[\]}]/.test(next) ? '' : ','}`,
  );
  return [changed, (value) => typeof value === 'string' && value.includes(MARK)];
}

/** A copy in which one place holds another value. */
function put(value: unknown, [key, ...rest]: Place, changed: unknown): unknown {
  if (key === undefined) return changed;
  const copy = (Array.isArray(value) ? [...value] : { ...(value as object) }) as Record<string | number, unknown>;
  copy[key] = put(copy[key], rest, changed);
  return copy;
}

const replaced = (value: unknown, old: unknown, changed: unknown): unknown =>
  Array.isArray(value)
    ? value.map((one) => replaced(one, old, changed))
    : isRecord(value)
      ? Object.fromEntries(Object.entries(value).map(([name, one]) => [name, replaced(one, old, changed)]))
      : value === old
        ? changed
        : value;

/** Members whose own members are names of the source. */
const OPEN =
  /^([a-z.]+\.(?:unmapped|native|tags|usage|params|totals|state|decision|arguments|tools|reference|input))\b.*$/;

const targetName = (path: string): string => path.replace(OPEN, '$1');

/** The fields of an event in which a change shows. Ids that are derived and the kept record are no such fields. */
function targetsIn({ name, time, data }: Draft, isMark: (value: unknown) => boolean): ReadonlySet<string> {
  const found = new Set<string>();
  const walk = (value: unknown, path: string): void => {
    if (Array.isArray(value)) for (const one of value) walk(one, `${path}[]`);
    else if (isRecord(value)) {
      for (const [member, one] of Object.entries(value)) {
        if (isMark(member)) found.add(targetName(path));
        walk(one, `${path}.${member}`);
      }
    } else if (isMark(value)) found.add(targetName(path));
  };
  if (isMark(time)) found.add(`${name}.time`);
  walk(data, name);
  return found;
}

type TrialResult = { readonly drafts: readonly Draft[]; readonly fields: ReadonlyMap<string, number> };

/** Each scalar of the events with how often it is there; digests, which change with anything, are left out. */
function shown(drafts: readonly Draft[]): TrialResult {
  const fields = new Map<string, number>();
  const count = (key: string): void => void fields.set(key, (fields.get(key) ?? 0) + 1);
  const walk = (value: unknown, path: string): void => {
    if (Array.isArray(value)) for (const one of value) walk(one, `${path}[]`);
    else if (isRecord(value)) for (const [member, one] of Object.entries(value)) walk(one, `${path}.${member}`);
    else if (value !== undefined && !/[0-9a-f]{12}/.test(asText(value)))
      count(`${targetName(path)} ${JSON.stringify(value)}`);
  };
  for (const draft of drafts) if (draft.name !== 'artifact.attached') walk(draft.data, draft.name);
  return { drafts, fields };
}

/** The fields whose values are others; none where the record was refused. */
function differences(before: TrialResult, after: TrialResult): ReadonlySet<string> {
  const found = new Set<string>();
  if (after.drafts.length === 0) return found;
  for (const [key, count] of after.fields)
    if (before.fields.get(key) !== count) found.add(key.slice(0, key.indexOf(' ')));
  return found;
}
