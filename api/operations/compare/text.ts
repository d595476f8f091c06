/** A comparison as text for people. */
import { countText } from '../../../errors.ts';
import type { Comparison, ComparisonLine } from '../../../store/explore/comparing/compare.ts';
import { fewestTasks } from '../../../store/loop/comparison/gate.ts';
import type { Printer } from '../operation.ts';

/** The comparison as a page of text. */
export function comparisonText(found: Comparison, { table }: Pick<Printer, 'table'>): string {
  const { first, second, mixed, level, measures, roles, without_outcome, families, pass_at_k: passes } = found;
  const side = (which: string, { kind, id, name, episodes, solved, unknown }: Comparison['first']): string =>
    `${which}  ${kind} ${id}${name === null ? '' : ` (${name})`}: ${countText(episodes, 'episode')}, ${solved} solved${unknown === 0 ? '' : `, ${unknown} without a known outcome`}`;
  const head = [
    'over',
    'measure',
    'tasks',
    'first',
    'second',
    'difference',
    `${100 * level} % interval`,
    'p (McNemar)',
    'the second is',
  ];
  const line = (over: string, one: ComparisonLine): unknown[] => [
    over,
    one.measure === 'episodes' ? 'episodes solved' : 'right candidates',
    one.tasks,
    share(one.first),
    share(one.second),
    points(one.difference),
    one.interval === null ? 'too few tasks' : `${points(one.interval.low)} to ${points(one.interval.high)}`,
    chance(one.mcnemar.mid_p),
    one.verdict.replaceAll('_', ' '),
  ];
  const lines = [
    ...measures.map((one) => line('all tasks', one)),
    ...roles.map((one) => line(`role ${one.role}`, one)),
    ...families.map((one) => line(one.family === null ? 'no domain' : `domain ${one.family}`, one)),
  ];
  const left = measures.filter(({ only_in_first: a, only_in_second: b }) => a + b > 0);
  return [
    side('first ', first),
    side('second', second),
    ...(mixed === 0 ? [] : [`Omitted, since both generated them: ${countText(mixed, 'episode')}.`]),
    ...left.map(
      ({ measure, only_in_first: a, only_in_second: b }) =>
        `By ${measure}, left out: ${countText(a, 'task')} that only the first tried, ${countText(b, 'task')} that only the second tried.`,
    ),
    '',
    lines.length === 0 ? 'None of these episodes has a known outcome.' : table(head, lines),
    ...(lines.length === 0
      ? []
      : [
          `Better or worse: the interval leaves out 0, and p is below ${Number((1 - level).toFixed(6))}; fewer than ${fewestTasks(level)} tasks decide nothing.`,
        ]),
    ...(lines.length > measures.length
      ? [
          `${lines.length} lines are compared; of lines without a difference one in ${Math.round(1 / (1 - level))} looks different by chance.`,
        ]
      : []),
    ...(without_outcome.length === 0
      ? []
      : [
          `Played in every episode, so that the outcome is that of all: ${without_outcome.map((role) => `role ${role}`).join(', ')}.`,
        ]),
    ...(passes.length === 0
      ? []
      : [
          '',
          table(
            ['pass@k', 'measure', 'tasks', 'first', 'second'],
            passes.map(({ measure, first: a, second: b }) => [
              a.k,
              measure,
              Math.min(a.tasks, b.tasks),
              share(a.value),
              share(b.value),
            ]),
          ),
        ]),
    '',
    table(
      ['cost', 'tokens per solved episode', 'USD per solved episode'],
      [
        ['first', first.tokens_per_solved, first.usd_per_solved],
        ['second', second.tokens_per_solved, second.usd_per_solved],
      ],
    ),
  ].join('\n');
}

const share = (value: number | null): string | null => (value === null ? null : `${(100 * value).toFixed(1)} %`);

/** Percentage points with their sign. */
function points(value: number | null): string | null {
  if (value === null) return null;
  const text = (100 * value).toFixed(1);
  return value > 0 ? `+${text}` : text;
}

const chance = (p: number): string => (p < 0.001 ? '< 0.001' : p.toFixed(3));
