/** What a gate found, as JSON that stays with its run, and as Markdown for people. */
import { countText } from '../../../errors.ts';
import { type Comparison, type Decision, type GateRules, LIMITED } from '../../../store/loop/comparison/gate.ts';
import { SIDES } from './play.ts';

export type GateReport = Decision & {
  readonly format: 'troupe-gate/1';
  readonly kind: 'offline' | 'play' | 'canary';
  readonly measure: string;
  readonly unit: string;
  readonly rules: GateRules;
  /** Standard deviation of the tasks' differences; null for fewer than two tasks. */
  readonly deviation: number | null;
  readonly models: Readonly<Record<string, { readonly incumbent: string; readonly candidate: string }>>;
  /** What the comparison was made with: two reports with equal hashes compare the same things. */
  readonly pinned: {
    readonly task_set: string;
    readonly scorer: string;
    readonly models: string;
    readonly environment: string;
  };
  /** What was not compared, and why: rows of an offline gate, tasks of one that plays. */
  readonly left_out: Readonly<Record<string, number>>;
  /** Why the budget of the plan ended it before it was decided; such a gate passes nothing, whatever it has compared. */
  readonly cut_short?: string;
  /** Of a gate that plays: what each side played. */
  readonly rollouts?: { readonly incumbent: string; readonly candidate: string };
  /** Of a canary: episodes of each side, groups counted once, since the candidate answered its first call. */
  readonly canary?: {
    readonly state: 'running' | 'ended';
    readonly share: number;
    readonly began_at: string | null;
    readonly incumbent: Units;
    readonly candidate: Units;
  };
  /** Who ended a canary before it was decided. */
  readonly by?: string;
};

type Units = { readonly units: number; readonly unknown: number };

/** A person's decision, where the plan leaves it to one. */
export type ManualReport = {
  readonly format: 'troupe-gate/1';
  readonly kind: 'manual';
  readonly passed: boolean;
  readonly reason: string;
  readonly by: string;
};

/** What a gate that its budget cut short comes to: what it has compared decides nothing. */
export const cutShort = (decision: Decision, why: string): Decision & { readonly cut_short: string } => ({
  ...decision,
  outcome: decision.outcome === 'no_data' ? 'no_data' : 'inconclusive',
  passed: false,
  reason: `The budget of the plan cut the gate short, so it decides nothing. Of what was left for it: ${why}`,
  cut_short: why,
});

/** The report as Markdown. */
export function gateMarkdown(report: GateReport | ManualReport, title: string): string {
  const isRunning = report.kind === 'canary' && report.canary?.state === 'running';
  const isCut = report.kind !== 'manual' && report.cut_short !== undefined;
  const state = isRunning ? 'under way' : isCut ? 'cut short, not passed' : report.passed ? 'passed' : 'not passed';
  const head = [`# Gate of ${title}: ${state}`, '', report.reason];
  if (report.kind === 'manual') return [...head, '', 'Kind: manual.'].join('\n');
  const { rules, pinned, models } = report;
  const lines = [report.main, ...report.guardrails].map((one) => `| ${cells(one).join(' | ')} |`);
  const left = Object.entries(report.left_out).filter(([, count]) => count > 0);
  return [
    ...head,
    '',
    `Measure: ${report.measure}, in ${report.unit}, more is better. Kind: ${report.kind}. Accepted: ${rules.accept.replace('_', ' ')}, margin ${rules.margin}, level ${rules.level}.`,
    '',
    `| over | ${report.kind === 'canary' ? 'blocks' : 'tasks'} | incumbent | candidate | difference | interval | outcome | passed |`,
    '| --- | ---: | ---: | ---: | ---: | --- | --- | --- |',
    ...lines,
    ...(report.guardrails.some(({ of }) => hasLimit(of))
      ? ['', 'Of tokens, latency and usd the difference is what their limit leaves.']
      : []),
    ...(report.guardrails.some(({ of, outcome }) => of === 'usd' && outcome === 'no_data')
      ? ['', 'usd has no data where one call without an error has no price.']
      : []),
    '',
    ...Object.entries(models).map(([policy, of]) => `- ${policy}: ${of.incumbent} → ${of.candidate}`),
    ...left.map(([why, count]) => `- left out: ${count} ${LEFT_OUT[report.kind]}, ${why}`),
    ...Object.entries(report.rollouts ?? {}).map(([side, rollout]) => `- ${side} played in rollout ${rollout}`),
    ...canaryLines(report),
    `- pinned: task set ${pinned.task_set}, scorer ${pinned.scorer}, models ${pinned.models}, environment ${pinned.environment}`,
  ].join('\n');
}

const LEFT_OUT = { offline: 'rows', play: 'tasks', canary: 'episodes' } as const;

function canaryLines({ canary }: GateReport): string[] {
  if (canary === undefined) return [];
  const { share, began_at } = canary;
  return [
    `- the candidate answers ${share} of the live episodes${began_at === null ? '' : ` since ${began_at}`}`,
    ...SIDES.map(
      (side) => `- ${side}: ${countText(canary[side].units, 'episode')} with a value, ${canary[side].unknown} without`,
    ),
  ];
}

function cells({ of, tasks, incumbent, candidate, difference, interval, outcome, passed }: Comparison): string[] {
  const range = interval === null ? 'too few tasks' : `${signed(interval.low)} to ${signed(interval.high)}`;
  return [
    of.replaceAll('|', '\\|'),
    String(tasks),
    number(incumbent),
    number(candidate),
    difference === null ? '–' : signed(difference),
    range,
    hasLimit(of) ? limitText(outcome, passed) : outcome.replace('_', ' '),
    passed ? 'yes' : 'no',
  ];
}

/** The difference of these is what the limit leaves, and less of them is no better outcome of the gate. */
const hasLimit = (of: string): boolean => (LIMITED as readonly string[]).includes(of);
const limitText = (outcome: Comparison['outcome'], passed: boolean): string =>
  outcome === 'no_data'
    ? 'no data'
    : passed
      ? 'within the limit'
      : outcome === 'worse'
        ? 'above the limit'
        : 'inconclusive';

const number = (value: number | null): string => (value === null ? '–' : String(Number(value.toPrecision(4))));
const signed = (value: number): string => `${value > 0 ? '+' : ''}${number(value)}`;
