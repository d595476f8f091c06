/**
 * Stored events with every text in its place. The texts of a whole batch are read by one statement, each once: a function of the server
 * that puts them into one event after the other took more processor time than all else that a projection asks of it.
 */
import { namedMember } from '../../ingest/log/split.ts';
import type { Session } from '../db/pool.ts';

/** The columns of a stored event, of which the others pass through; `data` is the JSON that is stored, null where it was not read. */
export type StoredRow = {
  readonly key: string;
  readonly name: string;
  readonly data: string | null;
  /** Bytes of the events of its run up to it, without their texts. */
  readonly until: number;
};

/** As `ingest/log/split.ts` writes them. */
const TEXT = '"\uFFFE#';
const OWN_ID = '"\uFFFE."';
const NAME_LENGTH = 36;

/** Bytes with the images, files and texts that events name: of a run, and of all of them together. */
type Bounds = { readonly most: number; readonly inAll: number };

/**
 * Of each run of events, from its beginning, those that fit with the images, files and texts that they name: the first ones of each run
 * before the later ones of others, and at least one event. A context that its call names stays a name, and so does a text that its row names too.
 * @throws the server's error, naming it, where a text is missing
 */
export async function withTexts<Row extends StoredRow>(
  tx: Session,
  runs: readonly (readonly Row[])[],
  bounds: Bounds,
): Promise<readonly (readonly Row[])[]> {
  const cut = runs.map((rows) => rows.map((row) => ({ row, parts: partsOf(row) })));
  const names = cut.flatMap((rows, run) =>
    rows.flatMap(({ row, parts }, i) =>
      parts.slice(1).map((part) => ({
        run,
        at: i,
        key: row.key,
        hash: part.slice(0, NAME_LENGTH),
        own: row.until,
      })),
    ),
  );
  const texts = names.length === 0 ? new Map<number, string>() : await textsOf(tx, names, bounds);
  let n = 0;
  return cut.map((rows) => {
    const whole: Row[] = [];
    let fits = true;
    for (const { row, parts } of rows) {
      let data = parts[0]!;
      for (const part of parts.slice(1)) {
        const text = texts.get(n++);
        fits &&= text !== undefined;
        if (fits) data += JSON.stringify(text) + part.slice(NAME_LENGTH + 1);
      }
      if (fits) whole.push(row.data === null ? row : { ...row, data });
    }
    return whole;
  });
}

/** The JSON of an event up to its first text, and from the name of each on. */
function partsOf({ key, name, data }: StoredRow): readonly string[] {
  if (data === null) return [''];
  const json = data.replaceAll(OWN_ID, () => `"${key.slice(2)}"`);
  if (!json.includes(TEXT)) return [json];
  const [start, first, ...others] = json.split(TEXT);
  return namedMember(name, data) !== null ? [start + TEXT + first, ...others] : [start!, first!, ...others];
}

/** The texts of these names by their place in the list, as far as they fit. */
async function textsOf(
  tx: Session,
  names: readonly {
    readonly run: number;
    /** The place of its event in the run. */
    readonly at: number;
    readonly key: string;
    readonly hash: string;
    readonly own: number;
  }[],
  { most, inAll }: Bounds,
): Promise<ReadonlyMap<number, string>> {
  const { rows } = await tx.query<{ n: number; text: string }>(
    `select n::integer, case when previous is not null or media_type is not null or body is null then troupe.text_named(key, hash)
         when blob is null then body else body || convert_from(bytes, 'UTF8') end as text
     from (
       select t.*, first_value(run) over in_turn as first_run, first_value(at) over in_turn as first_at,
              coalesce(sum(size) over (in_turn rows between unbounded preceding and 1 preceding), 0) as before_all
       from (
         select t.*, b.previous, b.body, b.blob, b.media_type, o.bytes, octet_length(b.body) + coalesce(octet_length(o.bytes), 0) * 4 / 3 as size,
                coalesce(sum(octet_length(b.body) + coalesce(octet_length(o.bytes), 0) * 4 / 3)
                  over (partition by run order by n rows between unbounded preceding and 1 preceding), 0) as before
         from unnest($1::integer[], $2::integer[], $3::text[], $4::uuid[], $5::bigint[]) with ordinality as t (run, at, key, hash, own, n)
         left join lateral (select * from troupe.bodies b where b.key || b.hash::text = t.key || t.hash::text offset 0) b on true
         left join lateral (select o.bytes from troupe.blobs o where o.sha256 = b.blob offset 0) o on true
       ) t
       window in_turn as (order by own + before, run, n)
     ) t
     where (run = first_run and at = first_at) or ((at = 0 or own + before < $6) and before_all < $7)`,
    [
      ...(['run', 'at', 'key', 'hash', 'own'] as const).map((column) => names.map((name) => name[column])),
      ...[most, inAll],
    ],
    { name: 'texts_named' },
  );
  return new Map(rows.map(({ n, text }) => [n - 1, text]));
}
