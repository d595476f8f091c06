/** Ingests items of traces: each with its own result; rejected items become dead letters. */
import { decodeDraft } from '../../ingest/events/decode.ts';
import type { LiveItem } from '../../ingest/formats/traces/live-traces.ts';
import { BodyRefused } from '../http/problem.ts';
import type { IngestItem, Ingestion, ItemAnswer } from './ingestion.ts';

/** Items of one request; more of them are refused as `too_large`. */
export const MAX_ITEMS = 10_000;

/** Why one item was rejected; null if it was stored, or had nothing to store. */
export type ItemRefusal = Pick<ItemAnswer, 'code' | 'field' | 'expected' | 'got'> | null;

/** Takes all items of a request; returns results in their order once all are durable. Throws `too_large`, `unreachable` or `busy`. */
export async function takeItems(
  ingestion: Ingestion,
  name: string,
  items: readonly LiveItem[],
): Promise<readonly ItemRefusal[]> {
  if (items.length > MAX_ITEMS) throw tooMany(items.length);
  const owners: number[] = [];
  const records = items.flatMap((item, i): IngestItem[] => {
    if ('refusal' in item) {
      owners.push(i);
      const { raw = '', at: _, ...refusal } = item.refusal;
      return [{ id: null, decoded: { refusal }, raw: () => raw, place: `[${i}]` }];
    }
    return item.drafts.map((draft) => {
      owners.push(i);
      return { id: draft.id, decoded: decodeDraft(draft), raw: () => JSON.stringify(draft.data), place: `[${i}]` };
    });
  });
  const rejected: ItemRefusal[] = items.map(() => null);
  for (const answer of await ingestion.take(name, records)) {
    if (answer.status === 'rejected') rejected[owners[answer.index]!] = answer;
  }
  return rejected;
}

const tooMany = (count: number): BodyRefused =>
  new BodyRefused({
    code: 'too_large',
    field: '',
    expected: `at most ${MAX_ITEMS} items in one request`,
    got: `${count}`,
  });

export const sentenceOf = ({ code, field, expected, got }: NonNullable<ItemRefusal>): string =>
  `${code}: ${field === '' ? '' : `${field} `}should be ${expected}, is ${got}`;
