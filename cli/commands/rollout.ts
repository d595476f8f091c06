/** Rollouts: tasks go to a team that the configuration names, and complete groups of episodes come back. */
import { randomBytes } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { type Command, InvalidArgumentError } from 'commander';
import { readTasksFile, readTeamFile } from '../../api/operations/played-files.ts';
import { countText, EXIT, got, TroupeError } from '../../errors.ts';
import { isRecord, parseRecord } from '../../ingest/events/json.ts';
import type { Db } from '../../store/db/pool.ts';
import { firstOf, query, rowsOf, sql } from '../../store/db/query.ts';
import { attemptCounts, ofRollout } from '../../store/loop/play/attempts.ts';
import type { Budget } from '../../store/loop/play/budget-schema.ts';
import { faultList } from '../../store/loop/play/faults.ts';
import type { ReplayAnswer, ReplayRequest } from '../../store/loop/play/replay.ts';
import { requestRollout, rolloutWithTasks } from '../../store/loop/play/request.ts';
import { checkedRolloutId, groupsOf, type RolloutRequest, type RolloutSpec } from '../../store/loop/play/rollout.ts';
import type { JobContext } from '../../store/queue/jobs/jobs.ts';
import type { RolloutResult } from '../../trainer/loop/play/handler.ts';
import { findRunner, readRunners } from '../../trainer/loop/play/runners.ts';
import { combinations, type Setting, type SweepPoint, type Swept, sweepPoints } from '../../trainer/loop/play/sweep.ts';
import { readScorers } from '../../trainer/loop/rewards/source.ts';
import { budgeted } from '../budgets.ts';
import { type Flags, number, projectCommand, untilInterrupted, wholeNumber } from '../command.ts';
import { answer, type Bar, progressBar, say, table } from '../output.ts';
import { settingsText, sweepSvg, sweepText } from '../sweep-plot.ts';

import { pause } from '../waiting.ts';

const HELP = `
The runner plays each task --samples times: a command, a webhook, or workers that lease attempts, as defined under runners in troupe.yaml.
The samples of a task are one group. An attempt that fails is retried as often as the runner allows; a group with a missing sample is
partial, and its episodes are not in the result.

\`troupe run work\` or \`troupe up\` plays the episodes. Ctrl-C ends this command, not the rollout; rerun the command with the same --id to go on
waiting for it.

--replay plays a recorded episode again: the gateway answers its calls from the record up to the call that --from names, and what comes after
is played anew. At that place another sample is drawn, or --answer, --fault or --skip change it. A team that calls differently before the place is
refused; the sample then fails as \`diverged\`, with the reason. Faults: ${faultList()}.

Examples:
  troupe rollout --runner solver --tasks tasks.jsonl --samples 8
  troupe rollout --runner solver --tasks tasks.jsonl --samples 8 --id night-1 --tag phase=train
  troupe rollout --runner solver --tasks tasks.jsonl --samples 4 --deadline 3600 --json
  troupe rollout --runner solver --tasks-where "task.split = train and mean_reward < 1" --samples 8 --budget tokens=200000
  troupe rollout --runner solver --tasks tasks.jsonl --samples 4 --id sweep --vary agents=1,2,4 --vary max_tokens=256,1024 --plot sweep.svg
  troupe rollout --runner solver --tasks tasks.jsonl --samples 4 --team solver=versions/digits.yaml
  troupe rollout --runner solver --replay first/sum-1/0 --from end --samples 1
  troupe rollout --runner solver --replay first/sum-1/0 --from 3f0c…/0 --samples 4
  troupe rollout --runner solver --replay-where "tags.rollout = first and role = verifier" --samples 2 --id second
  troupe rollout --runner solver --replay first/sum-1/0 --from 3f0c…/0 --samples 3 --answer "The sum is 12."
  troupe rollout --runner solver --replay first/sum-1/0 --from each --samples 1 --fault wrong-number`;

const POLL_MS = 300;

export function addTo(program: Command): void {
  projectCommand(
    program
      .command('rollout')
      .requiredOption('--runner <name>', 'runner to use: a name under runners in troupe.yaml')
      .option(
        '--tasks <file>',
        'tasks, one JSON object a line: task_id, prompt or input, answer, and what the team needs',
      )
      .option(
        '--tasks-where <filter>',
        'stored tasks instead of a file, such as "task.domain = airline and mean_reward < 0.8"',
      )
      .option('--replay <episode>', 'play this episode again, up to --from, and go on from there')
      .option(
        '--from <place>',
        'with --replay: a call or step, `each` for every call in turn, or `end` to change nothing',
      )
      .option(
        '--replay-where <filter>',
        'replay up to each step that fits, such as "tags.rollout = first and role = coder"',
      )
      .option(
        '--answer <text>',
        'give this answer at the place; @FILE: a text, or a JSON object with content and tool_calls',
      )
      .option('--answer-step <step>', 'give the output of this candidate of the source')
      .option(
        '--answer-of <agent=text>',
        'give this answer to the next call of an agent, from the place on; may be repeated',
        collected,
        {},
      )
      .option('--as <kind>', 'what answers are for: correct (default), edit or repair')
      .option('--hypothesis <text>', 'with --as edit: what it is to test')
      .option('--fault <name>', 'put a fault into the step at the place')
      .option('--skip', 'leave the step at the place out of every prompt after it')
      .requiredOption('--samples <n>', 'episodes for each task: the size of a group', wholeNumber('samples'))
      .option('--id <name>', 'name of the rollout and prefix of its episode ids (default: generated)')
      .option('--seed <n>', 'random seed; each sample gets a seed derived from it', wholeNumber('seed'), 0)
      .option('--deadline <seconds>', 'stop after this many seconds, finished or not', number('deadline'))
      .option(
        '--budget <name=value>',
        'tokens, seconds or usd: once it is used up, no further episode is started; may be repeated',
        budgeted,
        {},
      )
      .option(
        '--max-staleness <n>',
        'withhold episodes whose weights are more than n releases behind at the end',
        wholeNumber('max-staleness'),
      )
      .option(
        '--vary <name=a,b,c>',
        'play everything once for each value; the team reads it in TROUPE_PARAMS; may be repeated: all combinations',
        varied,
        {},
      )
      .option('--plot <file.svg>', 'with --vary: reward against tokens of each combination')
      .option(
        '--team <name[=file]>',
        'version of the team to play in: the released one, or that of a YAML or JSON file; the team reads it in TROUPE_TEAM',
      )
      .option('--tag <name=value>', 'tag every episode; may be repeated', collected, {})
      .option(
        '--policy <name=checkpoint>',
        'record this checkpoint of a policy with every episode; may be repeated',
        collected,
        {},
      )
      .addHelpText('after', HELP),
    async ({ db, log, now, config }, _, flags) => {
      findRunner(readRunners(config.runners, readScorers(config.rewards)), String(flags.runner));
      const id = flags.id === undefined ? madeUpId(now()) : checkedRolloutId(String(flags.id));
      const asked = { ...specOf(flags), ...(flags.team === undefined ? {} : { team: teamOf(String(flags.team)) }) };
      const sweep = combinations(flags.vary as ParameterGrid);
      if (sweep.length === 1) {
        const result = await played({ db, log, now }, id, asked, flags);
        if (result === null) return EXIT.interrupted;
        answer(flags, result, summary(result));
        return result.groups.complete > 0 ? EXIT.done : EXIT.failed;
      }
      const swept: Swept[] = [];
      let tasks = 0;
      for (const [i, params] of sweep.entries()) {
        const own = checkedRolloutId(`${id}.${i + 1}`);
        const result = await played({ db, log, now }, own, { ...asked, params }, flags);
        if (result === null) return EXIT.interrupted;
        tasks = result.groups.complete + result.groups.partial;
        swept.push({ rollout_id: own, params });
      }
      const points = await sweepPoints(db, swept, { tasks, samples: asked.samples });
      if (flags.plot !== undefined) await writeFile(String(flags.plot), sweepSvg(points));
      answer(flags, { sweep: id, points }, sweepSummary(points));
      return points.every(({ episodes }) => episodes > 0) ? EXIT.done : EXIT.failed;
    },
  );
}

/** Requests the rollout and waits for it; null once this command is interrupted. */
async function played(
  context: JobContext,
  id: string,
  asked: RolloutRequest,
  flags: Flags,
): Promise<RolloutResult | null> {
  const { db } = context;
  await rolloutWithTasks({ db }, id, asked);
  await checkProcesses(db);
  const before = await jobNow(db, id);
  const spec = await requestRollout(context, id, asked);
  const quiet = flags.quiet === true || flags.json === true;
  const settings = spec.params === undefined ? '' : ` with ${settingsText(spec.params)}`;
  if (!quiet) {
    const of =
      spec.places === undefined
        ? countText(spec.tasks.length, 'task')
        : `${countText(spec.places.length, 'place')} of replays`;
    say(`Rollout ${id}: ${of} × ${countText(spec.samples, 'sample')}${settings}.`);
  }
  const bar = progressBar('Rollout', { quiet });
  const ended = before?.state === 'finished' && before.outcome !== 'done';
  const again = ended ? ' It ended so before this command: choose another --id to play again.' : '';
  const result = await waited(db, id, spec, { bar, again, quiet }).finally(bar.stop);
  if (result === null)
    say(
      `The rollout goes on without this command. Wait for it again by the same command with --id ${id.replace(/\.\d+$/, '')}; \`troupe jobs\` lists it.`,
    );
  return result;
}

type ParameterGrid = Readonly<Record<string, readonly Setting[]>>;

function varied(text: string, so_far: ParameterGrid): ParameterGrid {
  const [, name, values] = /^([A-Za-z_][\w.-]*)=(.+)$/.exec(text) ?? [];
  const parts = values?.split(',').map((value) => value.trim()) ?? [];
  if (name === undefined || parts.some((part) => part === '') || new Set(parts).size < parts.length)
    throw new InvalidArgumentError('It should be NAME=A,B,C with values that differ.');
  if (Object.hasOwn(so_far, name)) throw new InvalidArgumentError(`${name} is varied twice.`);
  return { ...so_far, [name]: parts.map((part) => (Number.isNaN(Number(part)) ? part : Number(part))) };
}

/** The table of a sweep, and its plot where two combinations have reward and tokens. Pure. */
export function sweepSummary(points: readonly SweepPoint[]): string {
  const rounded = (value: number | null) => (value === null ? null : Number(value.toPrecision(4)));
  const rows = points.map(({ rollout_id, params, episodes, reward, interval, tokens, without_reward }, i) => [
    String.fromCharCode(97 + (i % 26)),
    settingsText(params),
    episodes,
    rounded(reward),
    interval === null ? null : `${rounded(interval.low)} to ${rounded(interval.high)}`,
    rounded(tokens),
    without_reward,
    rollout_id,
  ]);
  const head = ['', 'settings', 'episodes', 'mean reward', '95 % interval', 'tokens', 'without reward', 'rollout'];
  const plot = sweepText(points);
  const left_out = Math.max(0, ...points.map((point) => point.left_out));
  const note = `Left out under every setting: ${left_out} of ${countText(left_out + (points[0]?.tasks ?? 0), 'task')}, of which a sample is missing under one of them.`;
  return [table(head, rows), ...(left_out === 0 ? [] : [note]), ...(plot === null ? [] : ['', plot])].join('\n');
}

function teamOf(text: string): NonNullable<RolloutRequest['team']> {
  const [, name, file] = /^([^=]+)(?:=(.+))?$/.exec(text) ?? [];
  if (name === undefined) throw new TroupeError('usage', `--team should be NAME or NAME=FILE, but it is ${got(text)}.`);
  if (file === undefined) return { name };
  const definition = readTeamFile(file);
  if (isRecord(definition)) return { name, definition };
  throw new TroupeError('usage', `${file} should hold a version of a team as an object, but it is ${got(definition)}.`);
}

function collected(text: string, so_far: Readonly<Record<string, string>>): Record<string, string> {
  const [, name, value] = /^([^=]+)=(.+)$/.exec(text) ?? [];
  if (name === undefined || value === undefined) throw new InvalidArgumentError('It should be NAME=VALUE.');
  return { ...so_far, [name]: value };
}

const madeUpId = (now: Date): string =>
  `r${now.toISOString().slice(0, 19).replace(/[-:]/g, '').replace('T', '-')}-${randomBytes(2).toString('hex')}`;

function specOf(flags: Flags): RolloutRequest {
  const { runner, tasks, tasksWhere, samples, seed, deadline, budget, maxStaleness, tag, policy } = flags;
  const filled = (map: unknown): boolean => Object.keys(map as object).length > 0;
  return {
    runner: String(runner),
    ...(tasks === undefined ? {} : { tasks: readTasksFile(String(tasks)) }),
    ...(tasksWhere === undefined ? {} : { tasks_where: String(tasksWhere) }),
    ...replayOf(flags),
    samples: samples as number,
    seed: seed as number,
    ...(deadline === undefined ? {} : { deadline_s: deadline as number }),
    ...(filled(budget) ? { budget: budget as Budget } : {}),
    ...(maxStaleness === undefined ? {} : { max_staleness: maxStaleness as number }),
    ...(filled(tag) ? { tags: tag as Record<string, string> } : {}),
    ...(filled(policy) ? { policies: policy as Record<string, string> } : {}),
  };
}

/** The options of a replay; the request is checked where it is made. */
function replayOf(flags: Flags): Pick<RolloutRequest, 'replay'> {
  const { replay, from, replayWhere, answer, answerStep, answerOf, as, hypothesis, fault, skip } = flags;
  const answers = Object.entries(answerOf as Record<string, string>).map(([agent, text]) => [agent, answerIn(text)]);
  const asked = {
    episode_id: replay,
    from,
    where: replayWhere,
    answer: answer === undefined ? undefined : answerIn(String(answer)),
    fault,
    skip,
    kind: as,
    hypothesis,
    ...(answerStep === undefined ? {} : { answer: { step_id: String(answerStep) } }),
    ...(answers.length === 0 ? {} : { answers: Object.fromEntries(answers) }),
  };
  const given = Object.fromEntries(Object.entries(asked).filter(([, value]) => value !== undefined));
  return Object.keys(given).length === 0 ? {} : { replay: given as ReplayRequest };
}

/** Text, or what a file holds: text, or a message as JSON. */
function answerIn(text: string): ReplayAnswer {
  if (!text.startsWith('@')) return text;
  const held = readFileSync(text.slice(1), 'utf8');
  if (!held.trimStart().startsWith('{')) return held;
  const parsed = parseRecord(held);
  if ('value' in parsed) return parsed.value as ReplayAnswer;
  throw new TroupeError('usage', `${text.slice(1)} begins like JSON, but is none.`, { field: 'answer' });
}

/** Without these nothing would ever happen. */
async function checkProcesses(db: Db): Promise<void> {
  const rows = await rowsOf(
    db,
    query
      .selectFrom('troupe.processes')
      .select('role')
      .distinct()
      .where('heartbeat_at', '>', sql<string>`clock_timestamp() - interval '10 seconds'`),
  );
  const missing = ['work', 'project'].filter((role) => !rows.some((row) => row.role === role));
  if (missing.length > 0)
    throw new TroupeError(
      'unreachable',
      `A rollout is played by other processes, and ${missing.map((role) => `\`run ${role}\``).join(' and ')} ${missing.length === 1 ? 'is' : 'are'} not running. Start \`troupe up\` in another terminal, in the folder of troupe.yaml.`,
    );
}

const jobNow = (db: Db, id: string) =>
  firstOf(
    db,
    query.selectFrom('troupe.job_queue').select(['state', 'outcome', 'result', 'error']).where('job_id', '=', id),
  );

/** The result; null once this command is interrupted. `again` is added to what a failed one says. The first failure is shown when it comes. */
async function waited(
  db: Db,
  id: string,
  spec: RolloutSpec,
  { bar, again, quiet }: { readonly bar: Bar; readonly again: string; readonly quiet: boolean },
): Promise<RolloutResult | null> {
  const signal = untilInterrupted();
  let named = false;
  const of = groupsOf(id, spec).length * spec.samples;
  while (!signal.aborted) {
    const job = await jobNow(db, id);
    if (job?.state === 'finished') {
      if (job.outcome === 'done') return job.result as RolloutResult;
      const { code, message } = (job.error ?? {}) as { code?: string; message?: string };
      throw new TroupeError(
        'training_failed',
        `The rollout ${id} failed (${code ?? 'internal'}): ${message ?? 'no reason was kept'}${again}`,
      );
    }
    const { done, running, failed } = await attemptCounts(db, id);
    if (failed > 0 && !named && !quiet) {
      named = true;
      const { code, message } = (await failureOf(db, id))?.error ?? { code: 'failed', message: 'no reason was kept' };
      say(`${process.stderr.isTTY ? '\n' : ''}An attempt failed (${code}): ${errorLine(message)}`);
    }
    bar.update(done, of, `${done} of ${of} done, ${running} running, ${failed} failed attempts`);
    await pause(POLL_MS, signal);
  }
  return null;
}

/**
 * The line of a program's last words that names its error: the last one that is not indented, as in the traces of Python and of Node,
 * whose own version may come behind. Pure.
 */
export function errorLine(message: string): string {
  const lines = message.split('\n');
  return lines.findLast((line, i) => i > 0 && /^\p{L}/u.test(line) && !/^Node\.js v/.test(line)) ?? message;
}

/** Why one of the attempts that failed did. */
const failureOf = (db: Db, id: string) =>
  firstOf(
    db,
    query
      .selectFrom('troupe.job_queue')
      .select(sql<{ code: string; message: string }>`error`.as('error'))
      .where(ofRollout(id))
      .where('outcome', '=', 'failed')
      .limit(1),
  );

/** The end of a rollout in words. Pure. */
export function summary(result: RolloutResult): string {
  const { rollout_id, groups, partial, attempts, tokens, usd, staleness, seconds } = result;
  const { without_reward, reward_failed, equal_rewards, replayed_calls } = result;
  const lines = [
    `Rollout ${rollout_id}: ${countText(attempts.done, 'episode')} done in ${seconds.toFixed(1)} s; ${countText(attempts.failed, 'attempt')} failed, tried again ${attempts.retried}, late ${attempts.late}; ${tokens === null ? 'tokens unknown' : countText(tokens, 'token')}${usd === null ? '' : `, ${Number(usd.toPrecision(6))} USD`}.`,
    `Groups: ${groups.complete} complete, ${groups.partial} partial.`,
    ...(replayed_calls === undefined
      ? []
      : [`Answered from the record, without sampling: ${countText(replayed_calls, 'call')}.`]),
  ];
  if (partial.length > 0)
    lines.push(
      'Partial groups are left out of the result, so nothing trains on them:',
      table(
        ['task', 'done', 'of', 'missing', 'why'],
        partial.flatMap(({ task_id, done, of, why }) =>
          why.map(({ code, message, samples }) => [task_id, done, of, samples, `${code}: ${errorLine(message)}`]),
        ),
      ),
    );
  const behind = Object.entries(staleness.behind).filter(([releases]) => releases !== '0');
  if (behind.some(([releases]) => releases !== 'unknown') || staleness.withheld.length > 0)
    lines.push(
      `Releases that the weights are behind: ${behind.map(([releases, episodes]) => `${releases} (${countText(episodes, 'episode')})`).join(', ')}; withheld: ${countText(staleness.withheld.length, 'episode')}.`,
    );
  if (without_reward > 0) {
    const why =
      reward_failed === undefined
        ? 'the team recorded none, and the runner names no other source'
        : 'the source of the runner gave none';
    lines.push(
      `Without a reward: ${countText(without_reward, 'episode')}; ${why}. Unknown is not 0; no credit is computed from them.`,
      ...Object.entries(reward_failed ?? {}).map(([reason, episodes]) => `  ${episodes}: ${reason}`),
    );
  }
  if (equal_rewards > 0)
    lines.push(
      `All rewards are equal in ${countText(equal_rewards, 'complete group')}, so comparing their members gives no signal.`,
    );
  return lines.join('\n');
}
