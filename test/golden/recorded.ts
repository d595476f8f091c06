/** The recorded samples of every format, by folder, and how the events that they give are written down. */
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Draft } from '../../ingest/events/events.ts';
import { FORMATS } from '../../ingest/formats/catalogue.ts';

export const RECORDED = join(import.meta.dirname, '../ingest/formats/recorded');

/** The formats that have no recorded sample. */
export const withoutSample = (): readonly string[] =>
  FORMATS.map(({ name }) => name).filter((name) => !existsSync(join(RECORDED, name)));

/** The formats, each with the folder of its samples. */
export const sampleFolders = (): readonly (readonly [format: string, folder: string])[] =>
  FORMATS.flatMap(({ name }) => (existsSync(join(RECORDED, name)) ? [[name, join(RECORDED, name)] as const] : []));

/** What tracing clients sent of a small team, a span a line: the name of the client with its spans. */
export const recordedClients = (): readonly (readonly [client: string, spans: readonly unknown[]])[] =>
  readdirSync(RECORDED)
    .filter((name) => name.endsWith('.jsonl'))
    .sort()
    .map((name) => [
      name.slice(0, -'.jsonl'.length),
      readFileSync(join(RECORDED, name), 'utf8')
        .trimEnd()
        .split('\n')
        .map((line) => JSON.parse(line)),
    ]);

type Shown = Pick<Draft, 'name' | 'source' | 'id' | 'time' | 'data'>;

/**
 * An event as text: a line that names it, and a line for each member of its data, so that a difference shows the member. Members are in the
 * order of their names: the order in which a format states them says nothing.
 */
export const eventText = ({ name, source, id, time, data }: Shown): string =>
  [
    `${name} · ${source} · ${id} · ${time ?? 'no time'}`,
    ...Object.entries(data)
      .sort(([a], [b]) => (a < b ? -1 : 1))
      .flatMap(([member, value]) => (value === undefined ? [] : [`  ${member}: ${JSON.stringify(value)}`])),
  ].join('\n');
