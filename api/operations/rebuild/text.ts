/** A rebuild as text for people. */

import { countText } from '../../../errors.ts';
import type { OutputOf } from '../operation.ts';
import type { rebuild } from './run.ts';

export const rebuilt = ({ events, archived, left_out, not_judged, seconds }: OutputOf<typeof rebuild>) =>
  [
    `${countText(events, 'event')} applied in ${seconds} s${archived > 0 ? `, ${archived} of them from archives` : ''}; the tables were swapped.`,
    ...(left_out > 0
      ? [`Not in the tables: ${countText(left_out, 'pruned event')}; \`troupe rebuild --archived\` shows them.`]
      : []),
    ...not_judged.map(
      ({ name, version, known }) =>
        `Not in the tables: results of ${name} in version ${version}. This Troupe ${
          known === null ? 'has no such method.' : `has version ${known}: \`troupe judge --methods ${name}\`.`
        }`,
    ),
  ].join('\n');
