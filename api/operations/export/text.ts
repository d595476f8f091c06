/** What an export wrote, for people. */
import { countText } from '../../../errors.ts';
import type { OutputOf, Printer } from '../operation.ts';
import type { exported } from './run.ts';

/** Beside the lines, which may stand on standard output. */
export function written({ lines, left_out_calls: calls }: OutputOf<typeof exported>, { say }: Printer): string {
  say(`${countText(lines, 'line')} written.`);
  if (calls > 0)
    say(
      `${countText(calls, 'call')} left out: it is unknown what the model was shown. --format troupe-events has every call.`,
    );
  return '';
}
