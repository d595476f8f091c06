/** Episodes of several teams at several tasks, with all that filters, scores and blame look at; and what SQL says of them. */
import { expect } from 'vitest';
import type { Event, EventData } from '../../../../ingest/events.ts';
import { at, event } from '../../support/events.ts';
import { type Random, seeded } from './episodes.ts';
import { expectNumber, type JudgedDatabase } from './judged.ts';

type Fact = EventData<'feedback.recorded'>;

let told = 0;
/** Feedback of any kind, on the episode where no other target is named. */
export const tell = (
  episode: string,
  about: Partial<Omit<Fact, 'target'>> & { readonly target?: Partial<Fact['target']> },
  second = 30,
): Event =>
  event(
    'feedback.recorded',
    {
      feedback_id: `told ${told++}`,
      kind: 'score',
      name: 'something',
      ...about,
      target: { kind: 'episode', episode_id: episode, ...about.target },
    },
    { time: at(second) },
  );

const QUERIES = [
  'How many apples are left when Ann eats three of her twelve apples?',
  'How many apples are left when Ann eats three of her thirteen apples?',
  'Name the river that flows through the old town of the capital.',
  'Which of the four metals melts at the lowest temperature?',
];

export const aTask = (id: string, data: Partial<EventData<'task.defined'>> = {}): Event =>
  event('task.defined', { task_id: id, ...data }, { time: at(0) });

const THOUGHT = '<think>so</think> ';
const texts = (random: Random): string =>
  random.pick([
    `${THOUGHT}it is \\boxed{42}`,
    `${THOUGHT}it is \\boxed{\\frac{1}{2}}`,
    `${THOUGHT}<answer>42</answer>`,
    `${THOUGHT}<answer>1</answer> or <answer>2</answer> \\boxed{ 42 }`,
    'no thought <answer>',
    'the River, a river',
  ]);
const criticism = (random: Random): string =>
  random.pick(['[Agree]', '[Agree] but [Disagree]', 'wrong sign\n\n[Disagree]', '[Disagree]', '']);

const maybe = <T>(random: Random, p: number, value: T): T | null => (random.chance(p) ? value : null);

function said(random: Random, id: string): Event[] {
  const calls = id === 'e005' ? 0 : 1 + random.below(5);
  return Array.from({ length: calls }, (_, c) => {
    const role = random.pick(['solver', 'critic', 'critic 2', null]);
    const many = random.chance(0.8) ? 1 : 2;
    return event(
      'generation.completed',
      {
        episode_id: id,
        call_id: `c${c}`,
        seq: c,
        agent_id: role,
        role: role?.split(' ')[0] ?? null,
        turn: random.chance(0.95) ? c >> 1 : null,
        choices: Array.from({ length: many }, (_, index) => ({
          index,
          content: maybe(random, 0.95, role?.startsWith('critic') ? criticism(random) : texts(random)),
          chosen: many === 2 && random.chance(0.8) ? index === 1 : null,
        })),
      },
      { time: at(1 + c) },
    );
  });
}

function tools(random: Random, id: string): Event[] {
  return Array.from({ length: random.below(4) }, (_, t) => [
    event('tool.called', { episode_id: id, tool_call_id: `t${t}`, name: 'calc', seq: 20 + t }, { time: at(8) }),
    ...(random.chance(0.2)
      ? []
      : [
          event(
            'tool.returned',
            {
              episode_id: id,
              tool_call_id: `t${t}`,
              ...random.pick([
                { status: 'ok', output: '42' },
                { status: 'ok', output: { stderr: 'NameERROR: x' } },
                { status: 'error' },
                { status: 'error', error: 'boom' },
                { status: 'timeout' },
              ] as const),
            },
            { time: at(9) },
          ),
        ]),
  ]).flat();
}

function opinions(random: Random, id: string): Event[] {
  const often = (name: string, value: () => NonNullable<Fact['value']>) =>
    random.chance(0.8) ? [tell(id, { name, value: value() })] : [];
  return [
    ...often('ifd_small', () => random.below(9) / 9),
    ...often('ifd_large', () => random.below(9) / 9),
    ...often('referee', () => random.pick(['base', 'tie', 'generated', 'somebody'])),
    ...often('format_check', () => random.chance(0.8)),
    ...often('execution_check', () => random.pick([1, 1, 0, true])),
    ...often('policy_check', () => random.chance(0.8)),
    ...['ann', 'bob', 'eve'].flatMap((annotator) =>
      random.chance(0.7) ? [tell(id, { name: 'vote', value: random.below(2), annotator, kind: 'label' })] : [],
    ),
  ];
}

function observed(random: Random, id: string): Event[] {
  const see = (kind: string, data: object, seq: number) =>
    event('environment.observed', { episode_id: id, kind, seq, ...data }, { time: at(10) });
  return [
    ...Array.from({ length: random.below(4) }, (_, t) =>
      see('progress', { content: [0, 0, 0].map(() => random.below(2)) }, 40 + t),
    ),
    ...Array.from({ length: random.below(4) }, (_, m) =>
      see(
        'milestone',
        { content: { milestone: `m${random.below(3)}`, agents: random.pick([['solver'], ['critic', 'solver'], []]) } },
        50 + m,
      ),
    ),
    ...(random.chance(0.8) ? [see('state', { state: { order: random.pick(['sent', 'kept']), n: [1] } }, 60)] : []),
    ...(random.chance(0.7) ? [see('output', { content: '54.04' }, 61)] : []),
  ];
}

/** Some forty episodes of four teams at seven tasks; now and then anything is missing, and feedback comes late. */
export function randomStories(seed: number): Event[] {
  const random = seeded(seed);
  const tasks = Array.from({ length: 7 }, (_, t) =>
    aTask(`task ${t}`, {
      query: QUERIES[t % QUERIES.length]!,
      ground_truth: [42, 'The river', 'B', '0.5', null, '42', '1'][t]!,
      domain: t % 3 === 0 ? 'maths' : t % 3 === 1 ? 'words' : null,
      reference:
        t % 2 === 0
          ? { state: { n: [1], order: 'sent' }, outputs: ['54.04'] }
          : { usage: { output_tokens: 900 + 100 * t } },
      tags: {
        ...(t === 2 ? { choices: ['A', 'B'], category: 'choices' } : {}),
        ...(t !== 5 ? { interdisciplinary: t !== 4 } : {}),
        ...(t % 2 === 0 && t > 0 ? { answer_tokens: 1000 + 10 * t } : {}),
        ...(t < 3 ? { milestones: t === 0 ? 1 : ['m0', 'm1', 'm2', 'm3'] } : {}),
      },
    }),
  );
  const teams = ['plain', 'wide', 'deep', 'plain again'].map((team_id) =>
    event(
      'team.defined',
      { team_id, tags: team_id === 'plain again' ? { base_team_id: 'plain' } : null },
      { time: at(0) },
    ),
  );
  const episodes = Array.from({ length: 42 }, (_, n): Event[] => {
    const id = `e${String(n).padStart(3, '0')}`;
    const task = n === 0 ? null : `task ${n % 7}`;
    const started = {
      episode_id: id,
      task_id: task,
      team_id: n === 7 ? null : ['plain', 'wide', 'deep', 'plain again'][n % 4]!,
    };
    return [
      event('episode.started', { ...started, env_id: maybe(random, 0.3, `env ${n % 3}`) }, { time: at(0) }),
      ...said(random, id),
      ...tools(random, id),
      ...observed(random, id),
      event(
        'episode.finished',
        {
          episode_id: id,
          outcome: random.pick(['success', 'success', 'failure', 'error', 'unknown']),
          answer: random.pick(['42', ' 42. ', '$ 42 $', 'the river.', '(B) because', null, null]),
        },
        { time: at(20) },
      ),
      ...opinions(random, id),
      ...(random.chance(0.9)
        ? [tell(id, { kind: 'reward', name: 'reward', value: random.pick([0, 1, 1, 0.5, 2]) }, 31)]
        : []),
      // Only of some tasks are judge scores there at all.
      ...(n % 7 < 3 && random.chance(0.8) ? [tell(id, { name: 'correctness', value: random.below(4) / 4 }, 32)] : []),
      ...(n % 7 < 3 && random.chance(0.8) ? [tell(id, { name: 'faithfulness', value: random.below(4) / 4 }, 33)] : []),
      // Said late, in place of what was said before.
      ...(random.chance(0.2) ? [tell(id, { name: 'referee', value: 'generated' }, 50)] : []),
    ];
  });
  return [...tasks, ...teams, ...episodes.flat()];
}

export type Told = {
  readonly name: string;
  readonly kind: string;
  readonly target_kind: string;
  readonly target_id: string | null;
  readonly entry: number | null;
  readonly value: number | null;
  readonly value_json: unknown;
  readonly label: string | null;
  readonly by: string | null;
  readonly annotator: string | null;
};
export type StoryStep = {
  readonly step_id: string;
  readonly agent: string | null;
  readonly role: string | null;
  readonly turn: number | null;
  readonly text: string | null;
  readonly onward: boolean;
};
export type Story = {
  readonly episode_id: string;
  readonly group: string;
  readonly task_id: string | null;
  readonly team_id: string | null;
  readonly env_id: string | null;
  readonly outcome: string | null;
  readonly answer: string | null;
  readonly reward: number | null;
  readonly tags: Readonly<Record<string, unknown>> | null;
  readonly query: string | null;
  readonly domain: string | null;
  readonly ground_truth: unknown;
  readonly reference: Readonly<Record<string, unknown>> | null;
  readonly task_tags: Readonly<Record<string, unknown>>;
  readonly base_team: string | null;
  readonly steps: readonly StoryStep[];
  readonly told: readonly Told[];
  readonly tools: readonly { readonly status: string | null; readonly output: unknown; readonly error: unknown }[];
  readonly observed: readonly { readonly kind: string; readonly content: unknown; readonly state: unknown }[];
};

const LIST = (columns: string, from: string, order: string) =>
  `coalesce((select json_agg(one) from (select ${columns} from ${from} order by ${order}) one), '[]')`;

/** Everything that is stored about each episode, by SQL alone. */
export const storiesIn = ({ rows }: JudgedDatabase): Promise<Story[]> =>
  rows<Story>(
    `select e.episode_id, coalesce(e.group_id, e.task_id, e.episode_id) as "group", e.task_id, e.team_id, e.env_id, e.outcome, e.answer,
            e.reward, e.tags, t.query, t.domain, t.ground_truth, t.reference, coalesce(t.tags, '{}') as task_tags,
            m.tags ->> 'base_team_id' as base_team,
            ${LIST(
              `s.step_id, s.agent_id as agent, s.role, s.turn, s.text,
               coalesce(s.chosen, count(*) over (partition by s.call_id) = 1) as onward`,
              'traj.steps s where s.episode_id = e.episode_id',
              's.seq, s.call_id, s.candidate',
            )} as steps,
            ${LIST('f.*', 'traj.feedback f where f.episode_id = e.episode_id', 'f.at, f.feedback_id')} as told,
            ${LIST('c.status, c.output, c.error', 'traj.tool_calls c where c.episode_id = e.episode_id', 'c.seq')} as tools,
            ${LIST('o.kind, o.content, o.state', 'facts.observations o where o.episode_id = e.episode_id', 'o.seq')} as observed
     from traj.episodes e left join traj.tasks t using (task_id) left join traj.teams m on m.team_id = e.team_id order by 1`,
  );

/** The last of this name on the episode, as a number; a truth value is 1 or 0. */
export const numberTold = ({ told }: Story, name: string): number | null => {
  const last = told.findLast((one) => one.name === name && one.target_kind === 'episode');
  return last === undefined ? null : typeof last.value_json === 'boolean' ? Number(last.value_json) : last.value;
};

export type Wanted = Readonly<Record<string, readonly [value: number | boolean | null, reason: string | null]>>;

/** The rows that a method wrote are these and no others; numbers agree to 1e-12. */
export async function expectSaid(
  { rows }: JudgedDatabase,
  table: 'verdicts' | 'scores',
  method: string,
  wanted: Wanted,
) {
  const place = table === 'verdicts' ? `concat_ws(' ', episode_id, step_id)` : 'key';
  const found = await rows<{ place: string; value: number | boolean | null; reason: string | null }>(
    `select ${place} as place, ${table === 'verdicts' ? 'keep' : 'value'} as value, reason from traj.${table} where method = '${method}'`,
  );
  expect(found.map((row) => row.place).sort(), method).toEqual(Object.keys(wanted).sort());
  for (const { place, value, reason } of found) {
    const [expected, why] = wanted[place]!;
    expect(reason, `${method} of ${place}`).toBe(why);
    if (typeof value === 'number' && typeof expected === 'number')
      expectNumber(value, expected, `${method} of ${place}`);
    else expect(value, `${method} of ${place}`).toBe(expected);
  }
  return found;
}

/** Some of the rows said yes, some no, some that they cannot: otherwise a test would show little. */
export function expectVaried(found: readonly { readonly value: unknown }[], ...values: readonly unknown[]): void {
  for (const value of values)
    expect(
      found.some((row) => row.value === value),
      String(value),
    ).toBe(true);
}
