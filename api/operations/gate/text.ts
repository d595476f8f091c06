/** Gates as text for people. */
import { watchMarkdown } from '../../../store/loop/comparison/watch.ts';
import { gateMarkdown } from '../../../trainer/loop/comparison/report.ts';
import type { OutputOf } from '../operation.ts';
import { runEndText } from '../plan/text.ts';
import type * as run from './run.ts';

export const shown = ({ gate, watch, ...report }: OutputOf<typeof run.show>): string =>
  [
    gateMarkdown(report, gate.replace(/\/(\d+)\/gate$/, ', round $1')),
    ...(watch === null ? [] : ['', watchMarkdown(watch)]),
  ].join('\n');

export const decided = ({ gate, ...ended }: OutputOf<typeof run.accept>): string =>
  ended.state === 'running' ? `${gate} is decided; ${runEndText(ended).replace(/^Run/, 'run')}` : runEndText(ended);
