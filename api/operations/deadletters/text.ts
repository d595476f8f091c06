/** Dead letters as text for people. */
import type { OutputOf, Printer } from '../operation.ts';
import type * as run from './run.ts';

export const listed = ({ items }: OutputOf<typeof run.list>, { table }: Printer): string =>
  items.length === 0
    ? 'No dead letters: nothing was rejected.'
    : table(
        ['id', 'endpoint', 'place', 'code', 'field', 'expected', 'got'],
        items.map((row) => [row.dead_letter_id, row.endpoint, row.place, row.code, row.field, row.expected, row.got]),
      );

export function shown({ raw, raw_base64, ...letter }: OutputOf<typeof run.show>, { table }: Printer): string {
  const text = raw ?? Buffer.from(raw_base64 ?? '', 'base64').toString('utf8');
  return `${table(['field', 'value'], Object.entries(letter))}\n${text}`;
}

export function replayed({ tried, replayed, refused }: OutputOf<typeof run.replay>, { say }: Printer): string {
  for (const { dead_letter_id, code, why } of refused) say(`${dead_letter_id}: ${code}, ${why}`);
  return `${tried} tried: ${replayed.length} replayed, ${refused.length} still refused.`;
}
