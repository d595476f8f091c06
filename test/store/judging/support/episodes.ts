/** Episodes as a test describes them, as events, and random ones of many shapes from a seed. */
import type { Event, EventData } from '../../../../ingest/events/events.ts';
import { at, event } from '../../support/events.ts';

export type Value = number | boolean | string | number[];
export type Says = Readonly<Record<string, Value>>;
export type Choice = {
  readonly content?: string | undefined;
  readonly token_ids?: number[] | undefined;
  readonly chosen?: boolean | undefined;
  readonly parent?: string | undefined;
  readonly finish?: string | undefined;
  /** Feedback by its name. */
  readonly says?: Says | undefined;
};
export type Call = {
  /** `c` and its index where it is left out. */
  readonly id?: string | undefined;
  readonly copied?: boolean | undefined;
  readonly agent?: string | undefined;
  readonly role?: string | undefined;
  readonly turn?: number | undefined;
  readonly version?: string | undefined;
  readonly used?: number | undefined;
  readonly choices: readonly Choice[];
};
export type Play = {
  readonly group?: string | undefined;
  /** One of its own for each group, or each episode without a group, where none is named; null for an episode without a task. */
  readonly task?: string | null | undefined;
  readonly team?: string | undefined;
  readonly answer?: string | undefined;
  readonly env?: string | undefined;
  readonly parent?: string | undefined;
  readonly reward?: number | null | undefined;
  readonly outcome?: EventData<'episode.finished'>['outcome'] | undefined;
  readonly tags?: Record<string, unknown> | undefined;
  readonly budgets?: Record<string, unknown> | undefined;
  readonly says?: Says | undefined;
  /** What each agent earned. */
  readonly agents?: Readonly<Record<string, number>> | undefined;
  readonly documents?: readonly string[] | undefined;
  /** Who may answer, by turn. */
  readonly speakers?: Readonly<Record<number, number | string[]>> | undefined;
  readonly calls?: readonly Call[] | undefined;
};

/** Feedback under a name, recorded at a second of the same hour; a later one counts more. */
export const say = (
  episode: string,
  target: { readonly kind: 'step' | 'agent' | 'episode'; readonly id?: string; readonly other_id?: string },
  name: string,
  value: Value | null,
  {
    second = 30,
    by = null as string | null,
    label = null as string | null,
    kind = (name === 'reward' ? 'reward' : 'score') as 'reward' | 'score',
  } = {},
): Event =>
  event(
    'feedback.recorded',
    {
      feedback_id: JSON.stringify([target, name, by, label, second]),
      target: { id: episode, ...target, episode_id: episode },
      kind,
      name,
      value,
      annotator: by,
      label,
    },
    { time: at(second) },
  );

/** The call with index i of the episode is `c<i>`, unless it has another id, its candidates `c<i>/0`, `c<i>/1` … */
export function played(id: string, play: Play): Event[] {
  const calls = play.calls ?? [];
  return [
    event(
      'episode.started',
      {
        episode_id: id,
        task_id: play.task === undefined ? `task of ${play.group ?? id}` : play.task,
        team_id: play.team ?? null,
        group_id: play.group ?? null,
        env_id: play.env ?? null,
        parent_episode_id: play.parent ?? null,
        tags: play.tags ?? null,
        budgets: play.budgets ?? null,
      },
      { time: at(0) },
    ),
    ...calls.flatMap((call, c) => [
      ...(call.copied
        ? [event('generation.requested', { episode_id: id, call_id: call.id ?? `c${c}`, seq: c, copied: true })]
        : []),
      event(
        'generation.completed',
        {
          episode_id: id,
          call_id: call.id ?? `c${c}`,
          seq: c,
          agent_id: call.agent ?? null,
          role: call.role ?? null,
          turn: call.turn ?? null,
          model_version: call.version ?? null,
          usage: call.used === undefined ? null : { input_tokens: 1, output_tokens: call.used },
          choices: call.choices.map((choice, index) => ({
            index,
            content: choice.content ?? null,
            token_ids: choice.token_ids ?? null,
            chosen: choice.chosen ?? null,
            parent_step_id: choice.parent ?? null,
            finish_reason: choice.finish ?? null,
          })),
        },
        { time: at(1) },
      ),
      ...call.choices.flatMap((choice, i) =>
        Object.entries(choice.says ?? {}).map(([name, value]) =>
          say(id, { kind: 'step', id: `${call.id ?? `c${c}`}/${i}` }, name, value),
        ),
      ),
    ]),
    ...Object.entries(play.says ?? {}).map(([name, value]) => say(id, { kind: 'episode' }, name, value)),
    ...Object.entries(play.agents ?? {}).map(([agent, value]) =>
      say(id, { kind: 'agent', id: agent }, 'reward', value),
    ),
    ...(play.documents === undefined
      ? []
      : [event('environment.observed', { episode_id: id, kind: 'documents', content: [...play.documents] })]),
    ...Object.entries(play.speakers ?? {}).map(([turn, decision]) =>
      event('decision.made', { episode_id: id, kind: 'speakers', decision, turn: Number(turn) }),
    ),
    ...(play.reward === undefined || play.reward === null ? [] : [say(id, { kind: 'episode' }, 'reward', play.reward)]),
    event(
      'episode.finished',
      { episode_id: id, outcome: play.outcome ?? 'unknown', answer: play.answer ?? null },
      { time: at(20) },
    ),
  ];
}

export type Random = {
  /** A number of 0 … n − 1. */
  below(n: number): number;
  chance(p: number): boolean;
  pick<T>(from: readonly T[]): T;
};

export function seeded(seed: number): Random {
  let state = seed >>> 0;
  const next = () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = Math.imul(state ^ (state >>> 15), state | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  };
  return {
    below: (n) => Math.floor(next() * n),
    chance: (p) => next() < p,
    pick: (from) => from[Math.floor(next() * from.length)]!,
  };
}

export type Shape = {
  readonly episodes?: number;
  readonly roles?: readonly string[];
  /** Feedback on each step, nine times of ten. */
  readonly says?: Readonly<Record<string, (random: Random) => Value>>;
  /** Whether steps were expanded from others: some, with now and then an unknown parent or a cycle. */
  readonly tree?: boolean;
  /** Whether episodes launch each other. */
  readonly launches?: boolean;
  readonly rewards?: readonly (number | null)[];
  /** Candidates of a call at most. */
  readonly candidates?: number;
  readonly calls?: number;
  readonly extra?: (random: Random) => Partial<Play>;
};

/** Episodes of several groups, among them groups of one, with what a shape asks for, and now and then something missing. */
export function randomEpisodes(seed: number, shape: Shape = {}): Event[] {
  const random = seeded(seed);
  const groups = ['g1', 'g2', 'g3', 'alone'];
  const members = new Map<string, string[]>();
  const events: Event[] = [];
  for (let n = 0; n < (shape.episodes ?? 30); n++) {
    const id = `e${String(n).padStart(3, '0')}`;
    const group = n === 0 ? 'alone' : random.pick(groups.slice(0, 3));
    const before = members.get(group) ?? [];
    members.set(group, [...before, id]);
    const parent = !shape.launches || random.chance(0.4) || before.length === 0 ? undefined : random.pick(before);
    const length = random.chance(0.05) ? 0 : 1 + random.below(shape.calls ?? 6);
    const calls = Array.from({ length }, (_, c): Call => {
      const role = random.pick(shape.roles ?? ['solver', 'critic']);
      const many = random.chance(0.7) ? 1 : 1 + random.below(shape.candidates ?? 3);
      const chosen = random.chance(0.8) ? random.below(many) : -1;
      return {
        agent: random.chance(0.9) ? role : `${role} 2`,
        role,
        turn: random.chance(0.97) ? Math.floor(c / 2) : undefined,
        version: random.chance(0.1) ? undefined : group === 'g2' ? random.pick(['v1', 'v2']) : 'v1',
        used: random.chance(0.8) ? 1 + random.below(9000) : undefined,
        choices: Array.from({ length: many }, (_, i) => ({
          content: `${role} says ${random.below(5)}\nand ${random.below(3)}`,
          token_ids: random.chance(0.5)
            ? Array.from({ length: 1 + random.below(5) }, () => random.below(100))
            : undefined,
          chosen: many > 1 && chosen >= 0 ? i === chosen : undefined,
          parent: shape.tree && c > 0 ? parentStep(random, c) : undefined,
          finish: random.pick(['stop', 'stop', 'stop', 'length', undefined]),
          says: Object.fromEntries(
            Object.entries(shape.says ?? {}).flatMap(([name, of]) => (random.chance(0.9) ? [[name, of(random)]] : [])),
          ),
        })),
      };
    });
    const reward = random.pick(shape.rewards ?? [0, 1, 1, 0.5, 0.25, null]);
    events.push(...played(id, { group, parent, reward, calls, ...shape.extra?.(random) }));
  }
  return events;
}

function parentStep(random: Random, call: number): string | undefined {
  if (random.chance(0.03)) return 'nobody/0';
  if (random.chance(0.03)) return `c${call}/0`;
  return random.chance(0.9) ? `c${random.below(call)}/0` : undefined;
}
