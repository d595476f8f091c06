/** Formats whose traces lie in many records: all records of an import, read together, with each trace's original kept. */
import type { Draft } from '../events/events.ts';
import { canonicalJson, isRecord } from '../events/json.ts';
import { writtenJson } from '../events/spelling.ts';
import type { Conversion, NativeRefusal } from '../formats/kit/format.ts';
import { Reader, unreadable } from '../formats/kit/reader.ts';
import type { Act, Judgement } from './trace.ts';
import { traceDrafts } from './trace-drafts.ts';

export type TraceReading = {
  readonly acts: Act[];
  readonly judgements: Judgement[];
  readonly refusals: NativeRefusal[];
  /** Reads an item of the record `at`, an object at this place in it; one that cannot be read is refused and kept with the refusal. */
  readonly read: (at: number, item: unknown, field: string, called: string, take: (item: Reader) => void) => void;
  /** Keeps an item as part of the original of its trace. */
  readonly keep: (trace: string, item: unknown) => void;
  /** The events of all that was read, as a whole. */
  readonly converted: () => Conversion;
  /** The same of what has come so far: no episode begins without its root, none ends before a root of it did. */
  readonly live: () => readonly Draft[];
};

/** Collects the records of one format; its events have the source `/import/<format>`. */
export function traceReading(format: string): TraceReading {
  const acts: Act[] = [];
  const judgements: Judgement[] = [];
  const refusals: NativeRefusal[] = [];
  /** By trace, the items by their canonical JSON. */
  const originals = new Map<string, Map<string, string>>();
  return {
    acts,
    judgements,
    refusals,
    read: (at, item, field, called, take) => {
      const around = new Reader({});
      around.attempt(() =>
        take(isRecord(item) ? new Reader(item, field) : unreadable('bad_type', field, called, item)),
      );
      const raw = field === '' ? {} : { raw: JSON.stringify(item ?? null) };
      for (const problem of around.problems) refusals.push({ ...problem, at, ...raw });
    },
    keep: (trace, item) => {
      const items = originals.get(trace) ?? new Map();
      items.set(canonicalJson(item), writtenJson(item));
      originals.set(trace, items);
    },
    converted: () => {
      const { drafts, bodies } = traceDrafts(acts, judgements, {
        source: `/import/${format}`,
        whole: true,
        originalOf: (trace) => {
          const items = originals.get(trace);
          return items ? originalOf(items) : null;
        },
      });
      return { drafts, refusals, raw: null, bodies };
    },
    live: () => traceDrafts(acts, judgements, { source: `/import/${format}`, whole: false }).drafts,
  };
}

/** Items in the order of their canonical JSON, which does not depend on that of their files. */
const originalOf = (items: ReadonlyMap<string, string>): string =>
  `[${[...items]
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([, written]) => written)
    .join(',')}]`;
