/** docs/tables.md: every table of schema facts, as it is declared. */
import type { TSchema } from 'typebox';
import { Choice, type EventName, VOCABULARY } from '../ingest/events/events.ts';
import { TABLES } from '../store/tables/catalogue.ts';
import { columnsOf } from '../store/tables/table.ts';
import { meaningOf, page, table } from './pages.ts';

/** The fields that a function takes from what it is given. */
function readBy(make: (item: never, event: never) => unknown): string[] {
  const read = new Set<string>();
  const watched = new Proxy({}, { get: (_, name) => void read.add(String(name)), has: () => false });
  try {
    make(watched as never, {} as never);
  } catch {
    // It went on with what a field holds; by then the field was read.
  }
  return [...read];
}

const ENVELOPE: Readonly<Record<string, string>> = {
  'event.key': 'the key of its event',
  'event.source': 'the source of its event',
  'event.id': 'the id of its event',
  'event.time': 'the time of its event',
  'event.version': 'time, id and source of the event that wrote the row, or these columns of it; the last one stays',
};

function meaningIn(of: readonly EventName[], field: string): string {
  const fields = of.map((name) => (VOCABULARY[name].properties as Record<string, TSchema>)[field]);
  const found = fields.find((schema) => schema !== undefined) ?? (Choice.properties as Record<string, TSchema>)[field];
  return found === undefined ? '' : meaningOf(found as never);
}

/** Which fields of which events become which columns. */
export const tablesPage = (): string =>
  page(
    '# Tables',
    'What the projector makes of the events, in schema `facts`. Ask the views ([SQL](sql.md)): they join these tables and show long texts whole. ' +
      'A column comes from the field named here of the events named here; where no event writes it, Troupe computes it.',
    ...TABLES.flatMap((one) => [
      `## ${one.name}`,
      one.about,
      table(
        ['column', 'type', 'event', 'field', 'meaning'],
        columnsOf(one).map(({ name, type, required, of, from }) => {
          const events = [...new Set(of)].map((event) => `\`${event}\``).join(' ');
          const sql = required ? `${type} not null` : type;
          if (events === '') return [`\`${name}\``, sql, '', '', typeof from === 'string' && from !== name ? from : ''];
          const fields = typeof from === 'function' ? readBy(from) : [from];
          const meanings = fields.map((field) => ENVELOPE[field] ?? meaningIn(of, field)).filter((text) => text !== '');
          const named = fields.map((field) => `\`${field.replace('event.', '')}\``).join(' ');
          return [`\`${name}\``, sql, events, named, meanings.join('; ')];
        }),
      ),
    ]),
  );
