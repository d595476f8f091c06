/**
 * From facts to a method's input, and from its answer to rows: one function for each thing a method can need. They know the
 * shapes of the catalogue, never a single method's arithmetic.
 */
import { TroupeError } from '../../errors.ts';
import type { ExecutionReport } from '../methods/execution-report.ts';
import { criticAgrees } from '../methods/filters/critic-agrees.ts';
import { groupFlags } from '../methods/group-flags.ts';
import type { Method, MethodKind, MethodNeeds } from '../methods/method.ts';
import { runMethod } from '../methods/run.ts';
import { groupBy } from '../methods/statistics.ts';
import { byInfluence, byTokenValues } from './assemble-tokens.ts';
import { type EpisodeFacts, groupOf, type StepFacts, stepKey } from './facts.ts';
import type { Judgement } from './judgement.ts';
import type { TokenFacts } from './token-facts.ts';

export type Assembled = {
  readonly episodes: readonly EpisodeFacts[];
  readonly steps: readonly StepFacts[];
  readonly reports: ReadonlyMap<string, ExecutionReport>;
  /** Reward of a step: computed by the method that is read, or the recorded reward of its episode. */
  readonly rewardOf: (step: StepFacts) => number | null;
  /** True where `rewardOf` gives each step a reward of its own, false where it gives that of the episode. */
  readonly ownRewards: boolean;
  /** What forward passes said; nothing where no method of the judging reads it. */
  readonly recorded: TokenFacts;
  /** Step ids that every filter run before in the same judging kept. */
  readonly survives: (episodeId: string, stepId: string) => boolean;
};

type Params = Readonly<Record<string, unknown>>;
export type Assemble = (method: Method, params: Params, facts: Assembled) => Judgement[];

const byReport: Assemble = (method, params, { episodes, reports }) =>
  episodes.flatMap((episode): Judgement[] => {
    const report = reports.get(episode.episode_id);
    if (!report) return [missing(method, episode, 'no_execution_matrix')];
    const output = attempt(method, { ...report, ...params });
    if (output instanceof TroupeError) return [missing(method, episode, output.message)];
    return method.kind === 'filter'
      ? (output as { id: string; keep: boolean; reason: string | null }[]).map(({ id, keep, reason }) => ({
          table: 'verdicts',
          episode_id: episode.episode_id,
          step_id: id,
          keep,
          reason,
        }))
      : rewardRows(episode, report, output as RewardOutput);
  });

type RewardOutput = {
  readonly programs: readonly (number | null)[];
  readonly tests: readonly (number | null)[];
  readonly upheld: number | null;
};

function rewardRows(episode: EpisodeFacts, report: ExecutionReport, output: RewardOutput): Judgement[] {
  const candidates = [
    ...report.programs.map((program, i) => ({
      id: String(program.id),
      value: output.programs[i] ?? null,
      other: program.reference,
    })),
    ...report.tests.map((test, k) => ({
      id: String(test.id),
      value: output.tests[k] ?? null,
      other: test.ground_truth || test.public,
    })),
  ].filter(({ other }) => !other);
  return [
    ...candidates.map(
      ({ id, value }): Judgement => ({
        table: 'rewards',
        episode_id: episode.episode_id,
        step_id: id,
        value,
        reason: value === null ? 'not_run' : null,
      }),
    ),
    {
      table: 'scores',
      key: `e/${episode.episode_id}`,
      value: output.upheld,
      reason: output.upheld === null ? 'nobody_right' : null,
    },
  ];
}

/** CURE's own shapes: programs in rows; ground-truth columns apart from generated ones; malformed and unrun cells do not pass. */
const byMatrix: Assemble = (method, params, { episodes, reports }) =>
  episodes.flatMap((episode): Judgement[] => {
    const report = reports.get(episode.episode_id);
    if (!report) return [missing(method, episode, 'no_execution_matrix')];
    const programs = indices(report.programs, (program) => !program.reference);
    const truths = indices(report.tests, (test) => test.ground_truth === true);
    const tests = indices(report.tests, (test) => !test.ground_truth && !test.public);
    const passes = (i: number, k: number) => (report.programs[i]?.valid ? (report.pass[i]?.[k] ?? 0) : 0);
    const cells = (columns: readonly number[]) => programs.map((i) => columns.map((k) => passes(i, k)));
    const fields = Object.keys((method.input as { properties: object }).properties);
    const input = {
      ...(fields.includes('gt_pass') ? { gt_pass: cells(truths) } : {}),
      ...(fields.includes('generated_pass') ? { generated_pass: cells(tests) } : {}),
      ...params,
    };
    if (truths.length === 0 && fields.includes('gt_pass')) return [missing(method, episode, 'no_ground_truth')];
    const output = attempt(method, input);
    if (output instanceof TroupeError) return [missing(method, episode, output.message)];
    if (method.kind === 'score') {
      const key = `e/${episode.episode_id}`;
      if (output === null) return [{ table: 'scores', key, value: null, reason: 'nobody_right' }];
      const { precision } = output as { precision?: number };
      if (precision !== undefined) return [{ table: 'scores', key, value: precision, reason: null, detail: output }];
      const choice = output as { index: number; gt_rate: number | null };
      const chosen = report.programs[programs[choice.index] ?? -1]?.id ?? null;
      return [
        {
          table: 'scores',
          key,
          value: choice.gt_rate,
          reason: null,
          detail: { ...choice, chosen },
        },
      ];
    }
    const ofTests = !Array.isArray(output) && output !== null;
    const values = (ofTests ? (output as { reward: number[] | null }).reward : (output as number[] | null)) ?? null;
    const members =
      ofTests || fields.includes('generated_pass')
        ? tests.map((k) => report.tests[k])
        : programs.map((i) => report.programs[i]);
    return members.map((member, i) => ({
      table: 'rewards',
      episode_id: episode.episode_id,
      step_id: String(member?.id),
      value: values?.[i] ?? null,
      reason: values === null ? 'zero_variance' : null,
    }));
  });

const survivors: Assemble = (method, params, { episodes, steps, reports, survives }) => {
  const facts = new Map(episodes.map((episode) => [episode.episode_id, episode]));
  const roles = new Map(steps.map((step) => [stepKey(step.episode_id, step.step_id), step.role]));
  const candidates = [...reports].flatMap(([episodeId, report]) =>
    [...report.programs.filter((p) => !p.reference), ...report.tests.filter((t) => !t.ground_truth && !t.public)]
      .filter((member) => survives(episodeId, String(member.id)))
      .map((member) => ({
        id: stepKey(episodeId, String(member.id)),
        group: stepKey(
          facts.get(episodeId)?.task_id ?? episodeId,
          roles.get(stepKey(episodeId, String(member.id))) ?? '',
        ),
        behaviour: member.behaviour ?? null,
      })),
  );
  return (runMethod(method, { candidates, ...params }) as { id: string; keep: boolean; reason: string | null }[]).map(
    ({ id, keep, reason }) => {
      const [episode_id = '', step_id = ''] = id.split('\u0000');
      return { table: 'verdicts', episode_id, step_id, keep, reason };
    },
  );
};

/** Credit of an episode goes to each of its steps. */
const byGroup: Assemble = (method, params, { episodes, steps }) => {
  const groups = episodes.map(groupOf);
  const rewards = episodes.map((episode) => episode.reward);
  const values = runMethod(method, { group: groups, reward: rewards, ...params }) as (number | null)[];
  const flags = groupFlags(groups, rewards);
  const at = new Map(episodes.map((episode, i) => [episode.episode_id, i]));
  return steps.map((step) =>
    credit(step, values[at.get(step.episode_id)!] ?? null, flags[at.get(step.episode_id)!] ?? null),
  );
};

/** A filter over rewards keeps or drops whole episodes. One that wants outcomes of 0 and 1 knows nothing of other rewards. */
const episodesByReward: Assemble = (method, params, { episodes }) => {
  const groups = episodes.map(groupOf);
  const rewards = episodes.map((episode) => episode.reward);
  const binary = Object.hasOwn((method.input as { properties: object }).properties, 'outcome');
  const known = binary ? rewards.map((reward) => (reward === 0 || reward === 1 ? reward : null)) : rewards;
  const input = { group: groups, [binary ? 'outcome' : 'reward']: known, ...params };
  const kept = new Set(runMethod(method, input) as number[]);
  const flags = groupFlags(groups, rewards);
  return episodes.map(({ episode_id }, i) => {
    const verdict = { table: 'verdicts', episode_id, step_id: '' } as const;
    if (rewards[i] === null) return { ...verdict, keep: null, reason: 'missing_reward' };
    if (known[i] === null) return { ...verdict, keep: null, reason: 'reward_not_binary' };
    return kept.has(i)
      ? { ...verdict, keep: true, reason: null }
      : { ...verdict, keep: false, reason: flags[i] ?? 'dropped' };
  });
};

/** One number for each group, over the execution reports of its episodes. */
const byReports: Assemble = (method, params, { episodes, reports }) =>
  [...groupBy(episodes, groupOf)].map(([group, members]) => {
    const known = members.map((member) => reports.get(member.episode_id)).filter((report) => report !== undefined);
    const score = { table: 'scores', key: `g/${group}` } as const;
    if (known.length === 0) return { ...score, value: null, reason: 'no_execution_matrix' };
    const value = runMethod(method, { reports: known, ...params }) as number | null;
    return { ...score, value, reason: value === null ? 'unknown' : null };
  });

const byGroupAndAgent: Assemble = (method, params, { episodes, steps, rewardOf }) => {
  const group = new Map(episodes.map((episode) => [episode.episode_id, groupOf(episode)]));
  const rows = steps.map((step) => ({
    query: group.get(step.episode_id)!,
    traj: step.episode_id,
    agent: step.agent ?? '',
    reward: rewardOf(step),
  }));
  const values = runMethod(method, { steps: rows, ...params }) as (number | null)[];
  const flags = groupFlags(
    [rows.map((row) => row.query), rows.map((row) => row.agent)],
    rows.map((row) => row.reward),
  );
  return steps.map((step, i) => credit(step, values[i] ?? null, flags[i] ?? null));
};

const byEnvironment: Assemble = (method, params, { episodes, steps, rewardOf }) => {
  const env = new Map(episodes.map((episode) => [episode.episode_id, episode.env_id ?? groupOf(episode)]));
  const rows = steps.map((step) => ({
    env: env.get(step.episode_id)!,
    turn: step.turn ?? 0,
    agent: step.agent ?? '',
    reward: rewardOf(step),
  }));
  const values = runMethod(method, { steps: rows, ...params }) as (number | null)[];
  const flags = groupFlags(
    [rows.map((row) => row.env), rows.map((row) => row.turn), rows.map((row) => row.agent)],
    rows.map((row) => row.reward),
  );
  return steps.map((step, i) => credit(step, values[i] ?? null, flags[i] ?? null));
};

const byAnswers: Assemble = (method, params, { episodes }) => {
  const groups = groupBy(episodes, groupOf);
  return [...groups].map(([group, members]) => {
    const output = runMethod(method, { answers: members.map((member) => member.answer), ...params }) as {
      score: number;
    };
    const known = members.some((member) => member.answer !== null);
    return {
      table: 'scores',
      key: `g/${group}`,
      value: known ? output.score : null,
      reason: known ? null : 'no_answers',
      detail: output,
    };
  });
};

const byReference: Assemble = (method, params, { episodes }) =>
  episodes.map((episode) => {
    const reference = textOfTruth(episode.ground_truth);
    const verdict = { table: 'verdicts', episode_id: episode.episode_id, step_id: '' } as const;
    if (reference === null) return { ...verdict, keep: null, reason: 'no_reference' };
    const [right] = runMethod(method, { pairs: [{ answer: episode.answer, reference }], ...params }) as boolean[];
    return { ...verdict, keep: right ?? null, reason: right ? null : episode.answer === null ? 'no_answer' : 'wrong' };
  });

const byMessages: Assemble = (method, params, { episodes, steps }) => {
  const said = groupBy(steps, (step) => step.episode_id);
  return episodes.map((episode) => {
    const texts = (said.get(episode.episode_id) ?? []).map((step) => step.text ?? '');
    const verdict = { table: 'verdicts', episode_id: episode.episode_id, step_id: '' } as const;
    if (texts.length === 0) return { ...verdict, keep: null, reason: 'no_messages' };
    const messages = texts.map((text, i) => ({ text, needs_box: i === texts.length - 1 }));
    const output = runMethod(method, { messages, ...params }) as { pass: boolean; bad: number[] };
    return { ...verdict, keep: output.pass, reason: output.pass ? null : 'bad_format', detail: output };
  });
};

/** Critics are the steps of role critic; a round is a turn. */
const byCriticRounds: Assemble = (method, params, { episodes, steps }) => {
  const critics = groupBy(
    steps.filter((step) => step.role === 'critic'),
    (step) => step.episode_id,
  );
  return episodes.map((episode) => {
    const verdict = { table: 'verdicts', episode_id: episode.episode_id, step_id: '' } as const;
    const mine = critics.get(episode.episode_id);
    if (!mine) return { ...verdict, keep: null, reason: 'no_critics' };
    const rounds = [...groupBy(mine, (step) => step.turn ?? 0)]
      .sort(([a], [b]) => a - b)
      .map(([, round]) => round.map(({ text }) => criticism(text ?? '')));
    const output = runMethod(method, { rounds, ...params }) as { pass: boolean; round: number | null };
    return { ...verdict, keep: output.pass, reason: output.pass ? null : 'no_consensus', detail: output };
  });
};

/** A critic's message as the consensus filter reads it: newline runs made one, every [Disagree] removed, trimmed. */
function criticism(text: string): { agree: boolean; content: string } {
  const agree = runMethod(criticAgrees, { text }) as boolean;
  return { agree, content: agree ? '' : text.replace(/\n+/g, '\n').replaceAll('[Disagree]', '').trim() };
}

const ASSEMBLERS: Partial<Record<MethodNeeds, Partial<Record<MethodKind, Assemble>>>> = {
  answers: { score: byAnswers },
  'answer and reference': { filter: byReference },
  messages: { filter: byMessages },
  'critic rounds': { filter: byCriticRounds },
  'execution matrix': { score: byMatrix, reward: byMatrix },
  'execution report': { filter: byReport, reward: byReport },
  'execution reports': { score: byReports },
  'surviving candidates': { filter: survivors },
  'rewards by group': { filter: episodesByReward, credit: byGroup },
  'rewards by group and agent': { credit: byGroupAndAgent },
  'rewards by environment, turn and agent': { credit: byEnvironment },
  'token values': { credit: byTokenValues },
  'masked log-probabilities': { credit: byInfluence },
};

function assemblerOf(method: Method): Assemble | undefined {
  // What reads one text knows nothing of episodes.
  if (Object.hasOwn((method.input as { properties?: object }).properties ?? {}, 'text')) return undefined;
  return ASSEMBLERS[method.needs]?.[method.kind];
}

/** True for a method that reads what forward passes said. */
export const readsTokens = ({ needs }: Method): boolean =>
  needs === 'token values' || needs === 'masked log-probabilities';

/** @throws TroupeError `method_input` for a method that can only be run by hand. */
export function requireAssembled(method: Method): Assemble {
  const assemble = assemblerOf(method);
  if (assemble) return assemble;
  throw new TroupeError(
    'method_input',
    `${method.name} needs ${method.needs === 'input' ? 'an input of its own' : method.needs}, which the judge does not assemble; run it with \`troupe method run ${method.name} < input.json\`.`,
  );
}

/**
 * Runs a method over assembled facts. Facts that the method refuses (rewards too large to compute with, say) give rows without a
 * value and its words as the reason, so that a judging can always be repeated.
 * @throws TroupeError `method_input` for a method that can only be run by hand.
 */
export function runOver(method: Method, params: Params, facts: Assembled): Judgement[] {
  const assemble = requireAssembled(method);
  try {
    return assemble(method, params, facts);
  } catch (error) {
    if (!(error instanceof TroupeError) || error.code !== 'method_input') throw error;
    const { message } = error;
    return method.kind === 'credit'
      ? facts.steps.map((step) => credit(step, null, message))
      : facts.episodes.map((episode) => missing(method, episode, message));
  }
}

const credit = (step: StepFacts, value: number | null, reason: string | null): Judgement => ({
  table: 'credits',
  episode_id: step.episode_id,
  step_id: step.step_id,
  value,
  reason,
});

function missing(method: Method, episode: EpisodeFacts, reason: string): Judgement {
  return method.kind === 'filter'
    ? { table: 'verdicts', episode_id: episode.episode_id, step_id: '', keep: null, reason }
    : { table: 'scores', key: `e/${episode.episode_id}`, value: null, reason };
}

function attempt(method: Method, input: unknown): unknown {
  try {
    return runMethod(method, input);
  } catch (error) {
    if (error instanceof TroupeError && error.code === 'method_input') return error;
    throw error;
  }
}

function textOfTruth(value: unknown): string | null {
  if (value === null || value === undefined) return null;
  return typeof value === 'string' ? value : JSON.stringify(value);
}

const indices = <T>(items: readonly T[], keep: (item: T) => boolean): number[] =>
  items.flatMap((item, i) => (keep(item) ? [i] : []));
