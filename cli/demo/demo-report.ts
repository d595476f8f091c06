/** What the demo showed: a table of rounds, a plot, and the SQL to look further. */

import { paint as colours, table } from '../output.ts';
import { typedName } from '../version.ts';
import type { DemoResult, Round } from './demo-scores.ts';

const percent = (share: number | null): number | null => (share === null ? null : Math.round(1000 * share) / 10);

export function demoReport(
  result: DemoResult,
  { home, project }: { readonly home: string; readonly project: string },
): string {
  const rows = result.rounds.map((round) => [
    round.name,
    round.released ? 'yes' : 'no',
    percent(round.pass_at_1),
    percent(round.best_of_n),
    percent(round.majority),
    percent(round.hard_pass_at_1),
    percent(round.verifier_precision),
    percent(round.rejection_rate),
    round.checkpoint,
  ]);
  const head = [
    'after',
    'released',
    'pass@1',
    'best of 7',
    'majority',
    'hard pass@1',
    'verifier precision',
    'rejects wrong',
    'checkpoint',
  ];
  const troupe = typedName();
  const where = `${home === '.troupe' ? '' : ` --home ${home}`} --project ${project}`;
  return [
    `\nHeld-out tasks, per cent. The teachers whose faulty work it began with are right in ${percent(result.teachers)} % of their answers.\n`,
    table(head, rows),
    `\n${plot(result.rounds)}`,
    `\n${result.events} events · ${result.episodes} episodes · ${result.steps} steps · ${result.seconds} s (${result.cpu_seconds ?? '–'} CPU-seconds)`,
    `Filters of the lessons: ${funnelLine(result.funnel)}`,
    `Loss of the warm start: ${sparkline(result.warm_start)}`,
    `\nLook further:`,
    `  ${troupe} sql "select job_id as gate, round((result #>> '{main,incumbent}')::numeric, 3) as incumbent, round((result #>> '{main,candidate}')::numeric, 3) as candidate, result ->> 'outcome' as outcome from traj.jobs where kind = 'play' order by finished_at"${where}`,
    `  ${troupe} sql "select checkpoint_id, count(distinct episode_id) as episodes from traj.lineage where relation = 'trained on' group by 1 limit 5"${where}`,
    `  ${troupe} sql "select method, role, round(avg(value)::numeric, 3) as mean, count(*) as steps from traj.rewards join traj.steps using (episode_id, step_id) group by 1, 2"${where}`,
    `  ${troupe} schedule list${where}`,
    `  ${troupe} plan list${where}`,
    `  ${troupe} up${where}     # then open the page it names`,
  ].join('\n');
}

/** A curve in one line: each bar the mean of a few points, so that two roles in turn do not look like noise. */
function sparkline(points: DemoResult['warm_start'], bars = 24): string {
  if (points.length === 0) return '–';
  const width = Math.ceil(points.length / bars);
  const means: number[] = [];
  for (let i = 0; i < points.length; i += width) {
    const part = points.slice(i, i + width);
    means.push(part.reduce((sum, { loss }) => sum + loss, 0) / part.length);
  }
  const most = Math.max(...means);
  const drawn = means.map((mean) => '▁▂▃▄▅▆▇█'[Math.min(7, Math.floor((8 * mean) / most))]).join('');
  return `${drawn} ${means[0]!.toFixed(2)} → ${means.at(-1)!.toFixed(2)} over ${points.at(-1)!.step} steps`;
}

/** Two curves over the rounds, drawn with characters: pass@1 of the coder and precision of the verifier. */
function plot(rounds: readonly Round[], height = 12): string {
  const width = 8;
  const series = [
    { name: 'coder pass@1', mark: '●', paint: colours.green, values: rounds.map((round) => round.pass_at_1) },
    {
      name: 'verifier precision',
      mark: '○',
      paint: colours.cyan,
      values: rounds.map((round) => round.verifier_precision),
    },
  ];
  const grid = Array.from({ length: height + 1 }, () => Array.from({ length: rounds.length * width }, () => ' '));
  for (const { mark, paint, values } of series) {
    for (const [i, value] of values.entries()) {
      if (value !== null) grid[height - Math.round(value * height)]![i * width + 2] = paint(mark);
    }
  }
  const lines = grid.map((row, i) => {
    const label = i % 3 === 0 ? `${Math.round((100 * (height - i)) / height)} %`.padStart(6) : '      ';
    return `${label} │${row.join('').trimEnd()}`;
  });
  const names = rounds.map((round) => round.name.slice(0, width - 1).padEnd(width)).join('');
  return [
    ...lines,
    `       └${'─'.repeat(rounds.length * width)}`,
    `        ${names}`,
    `        ${series.map(({ name, mark, paint }) => `${paint(mark)} ${name}`).join('   ')}`,
  ].join('\n');
}

type Stage = { readonly name: string; readonly of: string; readonly before: number | null; readonly after: number };

/** `3,500 of 3,500 episodes: 10,500 steps → …`; the first stage's name is a condition in SQL, which the manifest keeps. */
function funnelLine(funnel: unknown): string {
  const [episodes, ...stages] = funnel as readonly Stage[];
  if (!episodes) return 'none';
  const count = (n: number) => n.toLocaleString('en');
  const of = episodes.before === null ? '' : ` of ${count(episodes.before)}`;
  const steps = stages[0]?.before ?? null;
  const rest = stages.map(({ name, after }) => `${shortName(name)} ${count(after)}`);
  return `${count(episodes.after)}${of} episodes: ${[...(steps === null ? [] : [`all steps ${count(steps)}`]), ...rest].join(' → ')}`;
}

const shortName = (name: string): string =>
  name
    .replace('not copied from another context', 'not copied')
    .replace('not of a call that failed', 'not failed')
    .replace(/^not cut off .*/, 'not cut off')
    .replace(/^role in /, '')
    .replace(/_filter says keep$/, '')
    .replaceAll('_', ' ');
