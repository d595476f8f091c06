/** `troupe export`: the log, or episodes in another format, as JSON lines. */
import { once } from 'node:events';
import { createWriteStream, type WriteStream } from 'node:fs';
import type { Command } from 'commander';
import { countText, TroupeError } from '../../errors.ts';
import type { Event } from '../../ingest/events/events.ts';
import { exportEpisodes, exportEvents, type StoredEvent } from '../../ingest/files/export.ts';
import type { Db } from '../../store/db/pool.ts';
import { anyOf, query, sql, streamOf } from '../../store/db/query.ts';
import { traceEventsOf } from '../../store/projecting/traces.ts';
import { projectCommand } from '../command.ts';
import { printJson, say } from '../output.ts';

export function addTo(program: Command): void {
  projectCommand(
    program
      .command('export')
      .option('--format <name>', 'troupe-events (all events), or a two-way format', 'troupe-events')
      .option('--episode <id...>', 'only these episodes')
      .option('--out <file>', 'file to write; standard output if left out')
      .addHelpText(
        'after',
        '\nExamples:\n  troupe export --out events.jsonl\n  troupe export --format openai-chat --episode run-1',
      ),
    async ({ db }, _, flags) => {
      const out = flags.out ? await fileToWrite(String(flags.out)) : process.stdout;
      const episodes = (flags.episode as string[] | undefined) ?? null;
      let leftOut = 0;
      const lines =
        flags.format === 'troupe-events'
          ? exportEvents(eventsOf(db, episodes))
          : exportEpisodes(String(flags.format), episodesOf(db, episodes), (calls) => {
              leftOut += calls;
            });
      // One document is what --json promises; in a file of its own the lines stay lines.
      const asList = flags.json === true && !flags.out;
      const write = async (text: string) => {
        if (!out.write(text)) await once(out, 'drain');
      };
      let count = 0;
      for await (const line of lines) {
        const body = line.trimEnd();
        await write(asList ? `${count === 0 ? '[' : ','}\n${body}` : `${body}\n`);
        count++;
      }
      if (asList) await write(count === 0 ? '[]\n' : '\n]\n');
      if (flags.out) {
        out.end();
        await once(out, 'finish');
        if (flags.json)
          printJson({ file: String(flags.out), lines: count, ...(leftOut > 0 ? { left_out_calls: leftOut } : {}) });
      }
      say(`${countText(count, 'line')} written.`);
      if (leftOut > 0)
        say(
          `${countText(leftOut, 'call')} left out: it is unknown what the model was shown. --format troupe-events has every call.`,
          'warn',
        );
    },
  );
}

/** Opened at once, so that an unwritable file is reported before anything is read. */
async function fileToWrite(file: string): Promise<WriteStream> {
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
