/** What the operation export does. */
import { once } from 'node:events';
import { createWriteStream, type WriteStream } from 'node:fs';
import { TroupeError } from '../../../errors.ts';
import type { Event } from '../../../ingest/events/events.ts';
import { exportEpisodes, exportEvents, type StoredEvent } from '../../../ingest/files/export.ts';
import type { Db } from '../../../store/db/pool.ts';
import { anyOf, query, sql, streamOf } from '../../../store/db/query.ts';
import { traceEventsOf } from '../../../store/projecting/traces.ts';
import type { ReadContext } from '../operation.ts';

export async function exported(
  { db, signal }: ReadContext,
  {
    format,
    episode,
    out: file,
  }: { readonly format: string; readonly episode?: readonly string[]; readonly out?: string },
) {
  const out = file === undefined ? process.stdout : await fileToWrite(file);
  const episodes = episode ?? null;
  let [lines, left_out_calls] = [0, 0];
  const written =
    format === 'troupe-events'
      ? exportEvents(eventsOf(db, episodes))
      : exportEpisodes(format, episodesOf(db, episodes), (calls) => {
          left_out_calls += calls;
        });
  for await (const line of written) {
    signal.throwIfAborted();
    if (!out.write(line)) await once(out, 'drain');
    lines++;
  }
  if (file !== undefined) {
    out.end();
    await once(out, 'finish');
  }
  return { lines, left_out_calls };
}

/** Opened at once, so that an unwritable file is reported before anything is read. */
export async function fileToWrite(file: string): Promise<WriteStream> {
  const out = createWriteStream(file);
  await once(out, 'open').catch((cause) => {
    throw new TroupeError('not_found', `${file} cannot be written: ${(cause as Error).message}.`, { cause });
  });
  return out;
}

async function* eventsOf(db: Db, episodes: readonly string[] | null): AsyncGenerator<StoredEvent> {
  const events = query
    .selectFrom('troupe.events')
    .select(['name', 'type_version', 'source', 'id', 'time', 'data'])
    .$if(episodes !== null, (all) => all.where('key', '=', anyOf(episodes!.map((id) => `e/${id}`))))
    .orderBy('log')
    .orderBy('partition')
    .orderBy('position');
  for await (const batch of streamOf(db, events)) yield* batch as unknown as StoredEvent[];
}

async function* episodesOf(db: Db, episodes: readonly string[] | null): AsyncGenerator<readonly Event[]> {
  const stored = query
    .selectFrom('troupe.events')
    .select(['key', 'name', 'type_version', 'source', 'id', 'time', 'data'])
    .where((event) =>
      episodes === null
        ? event('key', 'like', sql.lit('e/%'))
        : event('key', '=', anyOf(episodes.map((id) => `e/${id}`))),
    )
    .orderBy('key')
    .orderBy('position');
  let key: string | null = null;
  let events: Event[] = [];
  for await (const batch of streamOf(db, stored)) {
    for (const event of batch as unknown as Event[]) {
      if (event.key !== key && events.length > 0) {
        yield withTraces(events);
        events = [];
      }
      key = event.key;
      events.push(event);
    }
  }
  if (events.length > 0) yield withTraces(events);
}

/** The events derived from spans, which stand in place of the spans. */
function withTraces(events: readonly Event[]): readonly Event[] {
  const spans = events.filter(({ name }) => name === 'span.recorded');
  if (spans.length === 0) return events;
  return [...events.filter(({ name }) => name !== 'span.recorded'), ...(traceEventsOf(spans).events as Event[])];
}
