/** The foreign formats, on one page, in the order in which they are tried. */
import { TroupeError } from '../../errors.ts';
import type { Format, Head } from './format.ts';
import { openaiChat } from './openai-chat.ts';
import { tauBench } from './tau-bench.ts';
import { troupeEvents } from './troupe-events.ts';
import { whoWhen } from './who-when.ts';

export const FORMATS: readonly Format[] = [troupeEvents, tauBench, whoWhen, openaiChat];

/** The format of a file, by content: the one that knows most of its first records. Null where no format knows any. */
export function recognise({ records, shape }: Head): Format | null {
  const known = FORMATS.map((format) => ({
    format,
    count: records.filter((record) => format.recognises({ records: [record], shape })).length,
  }));
  const best = known.reduce((most, one) => (one.count > most.count ? one : most));
  return best.count > 0 ? best.format : null;
}

/** A format by name. Throws `usage` for a name that is not in the catalogue. */
export function formatNamed(name: string): Format {
  const found = FORMATS.find((format) => format.name === name);
  if (found) return found;
  const names = FORMATS.map((format) => format.name).join(', ');
  throw new TroupeError('usage', `There is no format ${JSON.stringify(name)}; there are ${names}.`, {
    expected: names,
    got: name,
  });
}
