/** What was rewarded, for people. */

import { countText } from '../../../errors.ts';
import type { OutputOf } from '../operation.ts';
import type { reward } from './run.ts';

export const rewarded = ({ rewarded, episodes, failed }: OutputOf<typeof reward>): string =>
  [
    `Rewarded: ${rewarded} of ${countText(episodes, 'episode')} without a reward.`,
    ...Object.entries(failed).map(([reason, count]) => `${count}: ${reason}`),
  ].join('\n');
