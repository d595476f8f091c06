/** What people read of attributions: tables of scores, of failure modes, and what a round of annotation did. */
import { countText } from '../../../errors.ts';
import type { AnnotationResult } from '../../../store/evaluate/attribution/annotate.ts';
import type { AttributionReport, evaluateModes } from '../../../store/evaluate/attribution/evaluate.ts';
import type { ScoreRow } from '../../../store/evaluate/attribution/score.ts';
import type { OutputOf, Printer } from '../operation.ts';
import type { list } from './run.ts';

export const listed = ({ items }: OutputOf<typeof list>, { table }: Printer): string =>
  table(
    ['episode', 'author', 'rank', 'agent', 'entry', 'step', 'value', 'reason'],
    items.map((r) => [r.episode_id, r.says, r.rank, r.agent_id, r.entry, r.step_id, r.value, r.reason]),
  );

export function annotatedText({
  episodes,
  cached,
  annotated,
  refused,
  failed,
  stopped,
  usage,
}: AnnotationResult): string {
  const left = episodes - cached - annotated - failed;
  return [
    `Annotated: ${annotated} of ${countText(episodes, 'episode')} (${refused} without an answer that can be used), before: ${cached}.`,
    `${countText(usage.calls, 'call')}, ${countText(usage.input_tokens + usage.output_tokens, 'token')}.`,
    ...(failed > 0 ? [`The endpoint failed on ${failed}; run it again for those.`] : []),
    ...(stopped === null ? [] : [`Stopped by ${stopped}, ${countText(left, 'episode')} left; run it again to go on.`]),
  ].join('\n');
}

const percent = (share: number | null): string => (share === null ? '–' : `${(100 * share).toFixed(1)} %`);
const points = (value: number): string => `${value >= 0 ? '+' : '−'}${Math.abs(100 * value).toFixed(1)}`;

export function scoresText(
  { cases, unlabelled, ambiguous, agent_mismatch, match, groups, coefficients }: AttributionReport,
  { table }: Printer,
): string {
  const lines = [
    `${cases} labelled episodes (${agent_mismatch} whose label names another agent than the entry's), ${unlabelled} failed ones without a label, ${ambiguous} with labels that contradict each other. Match: ${match}. Intervals: 95 %, over tasks.`,
  ];
  for (const { group, cases: n, scores } of groups) {
    lines.push('', groups.length === 1 ? '' : `${group} (${n})`, table(HEAD, scores.map(scoreRow)));
  }
  for (const [method, fitted] of Object.entries(coefficients)) {
    lines.push('', `${method} fitted to all of them: ${JSON.stringify(fitted)}`);
  }
  return lines.join('\n');
}

const HEAD = [
  'attribution',
  'agent',
  '',
  'over best baseline',
  'step',
  '',
  'over best baseline',
  '±1',
  '±3',
  '±5',
  'silent',
];

function scoreRow(one: ScoreRow): unknown[] {
  const range = (interval: ScoreRow['agent_interval']) =>
    interval === null ? '' : `${(100 * interval[0]).toFixed(0)}–${(100 * interval[1]).toFixed(0)}`;
  const over = (difference: ScoreRow['agent_over_baseline']) =>
    difference === null
      ? ''
      : `${points(difference.difference)} (${points(difference.interval[0])} to ${points(difference.interval[1])}) ${difference.baseline}`;
  return [
    one.baseline ? `${one.name} (baseline)` : one.name,
    percent(one.agent),
    range(one.agent_interval),
    over(one.agent_over_baseline),
    percent(one.step),
    range(one.step_interval),
    over(one.step_over_baseline),
    ...['1', '3', '5'].map((far) => percent(one.within[far] ?? null)),
    one.silent,
  ];
}

export function modesText({ annotators, agreement }: OutputOf<typeof evaluateModes>, { table }: Printer): string {
  if (annotators.length === 0) return 'Nobody annotated by MAST: `troupe blame annotate --method mast` asks a model.';
  const codes = [...new Set(annotators.flatMap(({ modes }) => Object.keys(modes)))].sort();
  const rows = annotators.map(({ annotator, episodes, modes, categories }) => [
    annotator,
    episodes,
    ...codes.map((code) => modes[code as keyof typeof modes] ?? 0),
    ...Object.values(categories).map(percent),
  ]);
  const agreed = agreement.map(({ a, b, episodes, kappa }) => [a, b, episodes, kappa]);
  return [
    table(['annotator', 'episodes', ...codes, 'FC1', 'FC2', 'FC3'], rows),
    ...(agreed.length === 0 ? [] : ['', table(['annotator', 'and', 'episodes of both', 'kappa'], agreed)]),
  ].join('\n');
}
