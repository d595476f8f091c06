/** The text of picked rows: for each step the message that it answers and the answer. What comes before is the text of other rows. */
import { isRecord } from '../../ingest/events/json.ts';
import { unescapeText } from '../../ingest/events/text.ts';
import type { Session } from '../db/pool.ts';
import { sql, streamOf } from '../db/query.ts';
import { shownJson } from '../tables/long-texts.ts';
import { readMessage } from './layouts/message.ts';
import { pickedAnswers } from './query.ts';

export type RowText = { readonly place: number; readonly text: string };

/** Rows in order, one at a time; the text is empty where only tokens are known. */
export async function* rowTexts(tx: Session): AsyncGenerator<RowText, void, undefined> {
  const steps = pickedAnswers
    .select([
      sql<number>`p.place::float8`.as('place'),
      sql<string | null>`(select troupe.with_texts(b.key, b.body) from troupe.bodies b
        where b.key || b.hash::text = 'e/' || c.episode_id || c.context::text)`.as('asked'),
      sql<string | null>`(${sql.raw(shownJson('s', 'content'))})::text`.as('content'),
      sql<string | null>`s.text`.as('text'),
    ])
    .orderBy('p.place')
    .orderBy('p.step');
  let row: TextParts | null = null;
  for await (const batch of streamOf(tx, steps, { batch: 200 })) {
    for (const { place, asked, content, text } of batch) {
      if (row === null || row.place !== place) {
        if (row !== null) yield textOf(row);
        row = { place, parts: [] } as TextParts;
      }
      const answer = { role: 'assistant', content: content === null ? text : JSON.parse(content) };
      row.parts.push(messageText(asked === null ? null : JSON.parse(asked)), messageText(answer));
    }
  }
  if (row !== null) yield textOf(row);
}

type TextParts = { readonly place: number; readonly parts: string[] };
const textOf = ({ place, parts }: TextParts): RowText => ({
  place,
  text: parts.filter((part) => part !== '').join('\n'),
});

/** What a message says and the calls it makes, as plain text. */
export function messageText(message: unknown): string {
  const read = isRecord(message) ? readMessage(message) : null;
  if (read === null) return '';
  const calls = read.calls.map(({ name, written }) => `${name} ${written}`);
  return unescapeText([read.text ?? '', ...calls].filter((part) => part !== '').join('\n'));
}
