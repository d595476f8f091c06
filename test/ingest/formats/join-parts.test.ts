/** Parts of one run become the lines of the whole file. */
import { expect, it } from 'vitest';
import { joinParts, type Part } from '../../../ingest/formats/kit/join-parts.ts';
import { joinsOf } from '../../../ingest/formats/kit/lines.ts';

type Line = { readonly id: string; readonly after: string | null; readonly time: string };
const line = (id: string, after: string | null, time: string): Line => ({ id, after, time });
const part = (...lines: readonly Line[]): Part<string> => ({ lines, members: lines.map(({ id }) => id) });
const rules = joinsOf({
  names: () => ['run'],
  marks: ({ id, after }) => [[id], [after]],
  timeOf: ({ time }) => time as string,
});
const orderOf = (...parts: readonly Part<string>[]) =>
  joinParts(parts, rules).runs.map(({ lines }) => (lines as Line[]).map(({ id }) => id).join(' '));

// A summary is written before what it keeps, and what it keeps is older.
const [asked, boundary, summary, kept] = [
  line('asked', null, '1'),
  line('boundary', 'asked', '5'),
  line('summary', 'boundary', '4'),
  line('kept', 'summary', '3'),
];

it('a line comes after what it refers to, whatever the times and the order of the parts', () => {
  expect(orderOf(part(kept), part(summary), part(asked, boundary))).toEqual(['asked boundary summary kept']);
});

it('what was joined before without a line between gets the order of the whole', () => {
  expect(orderOf(part(asked, kept, boundary), part(asked, boundary, summary, kept))).toEqual([
    'asked boundary summary kept',
  ]);
});
